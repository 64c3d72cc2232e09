/**
 * The network between the members of one etcd, by link and direction: a proxy in front of each member's peer port,
 * through which the others reach it. Clients bypass it: a member that is cut off here still answers them.
 *
 * Members dial each other, and messages flow both ways on each connection: what `from` sends to `to` travels towards
 * the server on connections dialled by `from`, and towards the client on those dialled by `to`. etcd's own header names
 * the dialler.
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

  /** Stops the bytes from one member to another without closing anything. The other direction continues. */
  drop(from: number, to: number): void {
    this.#dropped.add(`${from}>${to}`)
    this.#apply()
  }

  /** Cuts off what the member receives, what it sends, or both. */
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
    // Old connections have been stalled for a long time: etcd would time out on them one by one.
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

/** Starts three members and the network between them. */
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

/** Returns the member's id in hexadecimal, as in the header. */
async function memberId(member: EtcdProcess): Promise<string> {
  const { header } = (await member.call('maintenance/status', {})) as { header: { member_id: string } }
  return BigInt(header.member_id).toString(16)
}
