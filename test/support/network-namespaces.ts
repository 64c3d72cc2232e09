/**
 * Hosts with their own networks: network namespaces of this machine, joined by a bridge. A cut link drops packets
 * silently, as a broken network does; nobody receives a reset. Needs root, which containers may lack.
 */
import { spawnSync } from 'node:child_process'
import type { Test } from 'tap'
import type { EtcdHost } from './etcd-process.js'

export interface NamespacedHost extends EtcdHost {
  /** Nothing leaves or reaches the host any more. */
  cut(): void
  join(): void
}

/** @returns hosts that can reach each other and be reached from here, or why this machine allows no namespaces. */
export function openNetwork(t: Pick<Test, 'teardown'>, size: number): readonly NamespacedHost[] | string {
  const id = process.pid.toString(36)
  const bridge = `br${id}`
  // A private network, different for each concurrent test process.
  const network = `10.${200 + (process.pid % 50)}.${(process.pid >> 6) % 250}`
  const names = Array.from({ length: size }, (_, i) => `n${i}${id}`)
  t.teardown(() => {
    for (const name of names) ip('netns', 'del', name)
    ip('link', 'del', bridge)
  })
  const problems = [
    ip('link', 'add', bridge, 'type', 'bridge'),
    ip('addr', 'add', `${network}.1/24`, 'dev', bridge),
    ip('link', 'set', bridge, 'up'),
    ...names.flatMap((name, i) => [
      ip('netns', 'add', name),
      ip('link', 'add', `v${name}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name),
      ip('link', 'set', `v${name}`, 'master', bridge, 'up'),
      ip('-n', name, 'addr', 'add', `${network}.${i + 2}/24`, 'dev', 'eth0'),
      ip('-n', name, 'link', 'set', 'eth0', 'up'),
      ip('-n', name, 'link', 'set', 'lo', 'up'),
    ]),
  ]
  const problem = problems.find((each) => each !== null)
  if (problem !== undefined) return `no network namespaces here: ${problem}`
  return names.map((name, i) => ({
    address: `${network}.${i + 2}`,
    command: ['ip', 'netns', 'exec', name],
    cut: () => void ip('link', 'set', `v${name}`, 'down'),
    join: () => void ip('link', 'set', `v${name}`, 'up'),
  }))
}

/** @returns why it failed; null on success. */
function ip(...args: readonly string[]): string | null {
  const { status, stderr, error } = spawnSync('ip', args, { encoding: 'utf8' })
  return status === 0 ? null : `ip ${args.join(' ')}: ${error?.message ?? stderr.trim()}`
}
