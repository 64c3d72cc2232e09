/** Hosts on which a kube-proxy runs: what they can reach, and the rules in their kernels. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import type { Test } from 'tap'
import type { NamespacedHost } from '../../support/network-namespaces.js'

/** The settings of every kube-proxy here. */
export const proxyFlags: readonly string[] = [
  '--proxy-mode=nftables',
  '--detect-local-mode=ClusterCIDR',
  '--cluster-cidr=10.244.0.0/16',
  '--nodeport-addresses=127.0.0.0/8',
  '--conntrack-max-per-core=0',
  '--conntrack-tcp-timeout-established=0',
  '--conntrack-tcp-timeout-close-wait=0',
  '--v=2',
]

/** Makes a port of loopback reachable from the hosts. @returns its address. */
export async function relay(t: Test, host: NamespacedHost, port: number): Promise<string> {
  const here = host.address.replace(/\d+$/, '1')
  const sockets = new Set<net.Socket>()
  const server = net.createServer((client) => {
    const there = net.connect(port, '127.0.0.1')
    for (const [one, other] of [
      [client, there],
      [there, client],
    ] as const) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.once('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
  })
  server.listen(0, here)
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return `${here}:${(server.address() as net.AddressInfo).port}`
}

/**
 * The rules in a host's kernel, each after the name of its chain, and the elements of its sets and maps. kube-proxy
 * first empties chains that it no longer needs, and deletes them later.
 */
export function rulesOf(host: NamespacedHost): readonly string[] {
  const [command = '', ...args] = host.command
  const text = execFileSync(command, [...args, 'nft', 'list', 'ruleset', 'ip'], { encoding: 'utf8' })
  const rules: string[] = []
  let place = ''
  for (const line of text.replaceAll(/packets \d+ bytes \d+/g, 'counted').split('\n')) {
    const rule = line.trim()
    if (rule.endsWith(' {')) place = rule.slice(0, -2)
    else if (/\w/.test(rule)) rules.push(`${place} ${rule.replaceAll(/elements = \{ |,$| \}$/g, '')}`)
  }
  return rules.toSorted()
}
