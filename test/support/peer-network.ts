/**
 * The network between the members of one etcd, link by link and direction by direction: a proxy before each member's
 * port for peers, through which the others reach it. Clients go past it: a member that is cut off here still answers
 * them.
 *
 * Members dial each other, and messages go both ways on what was dialled: what `from` tells `to` goes to the server on
 * connections that `from` has dialled, and to the client on those of `to`. Who has dialled is in etcd's own header.
 */
import type { Test } from 'tap'
import { type EtcdOptions, type EtcdProcess, startEtcdCluster } from './etcd-process.js'
import { type FaultProxy, startFaultProxy } from './fault-proxy.js'

export class PeerNetwork {
  readonly #proxies: readonly FaultProxy[]
  readonly #ids: readonly string[]
  readonly #dropped = new Set<string>()

  constructor(proxies: readonly FaultProxy[], ids: readonly string[]) {
    this.#proxies = proxies
    this.#ids = ids
  }

  /** Bytes that one member sends to another stop, and nothing closes. The other direction goes on. */
  drop(from: number, to: number): void {
    this.#dropped.add(`${from}>${to}`)
    this.#apply()
  }

  /** Nothing comes to the member, nothing leaves it, or neither. */
  isolate(member: number, which: 'both' | 'in' | 'out'): void {
    for (let other = 0; other < this.#proxies.length; other++) {
      if (other === member) continue
      if (which !== 'in') this.#dropped.add(`${member}>${other}`)
      if (which !== 'out') this.#dropped.add(`${other}>${member}`)
    }
    this.#apply()
  }

  heal(): void {
    this.#dropped.clear()
    this.#apply()
    // Connections dialled before have waited for long: etcd would time out on them one by one.
    for (const proxy of this.#proxies) proxy.cut()
  }

  #apply(): void {
    for (const [server, proxy] of this.#proxies.entries()) {
      for (const [caller, id] of this.#ids.entries()) {
        const isDropped = (from: number, to: number): boolean => this.#dropped.has(`${from}>${to}`)
        proxy.stallCaller(
          id,
          ...(isDropped(caller, server) ? (['to-server'] as const) : []),
          ...(isDropped(server, caller) ? (['to-client'] as const) : []),
        )
      }
    }
  }
}

/** Three members, and what is between them. */
export async function startEtcdWithPeerNetwork(
  t: Test,
  options: EtcdOptions = {},
): Promise<{ members: readonly EtcdProcess[]; peers: PeerNetwork }> {
  const proxies: FaultProxy[] = []
  t.teardown(() => Promise.all(proxies.map((proxy) => proxy.close())))
  const peerPorts = async (ports: readonly number[]): Promise<readonly number[]> => {
    await Promise.all(proxies.splice(0).map((proxy) => proxy.close()))
    proxies.push(...(await Promise.all(ports.map((targetPort) => startFaultProxy({ targetPort, callerOf })))))
    return proxies.map(({ port }) => port)
  }
  const members = await startEtcdCluster(t, { ...options, peerPorts })
  const ids = await Promise.all(members.map(memberId))
  return { members, peers: new PeerNetwork(proxies, ids) }
}

function callerOf(firstBytes: Buffer): string | null {
  return /^x-server-from: *([0-9a-f]+)/im.exec(firstBytes.toString('latin1'))?.[1] ?? null
}

/** In hexadecimal, as the header has it. */
async function memberId(member: EtcdProcess): Promise<string> {
  const { header } = (await member.call('maintenance/status', {})) as { header: { member_id: string } }
  return BigInt(header.member_id).toString(16)
}
