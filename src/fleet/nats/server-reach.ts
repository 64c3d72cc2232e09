/**
 * Finds out which NATS servers hear each other.
 *
 * A server passes a client's message to the servers of its cluster that it hears, and those pass it no further there.
 * So a message sent through a connection to one server arrives at the connections to exactly those servers that hear
 * it.
 */
import { randomUUID } from 'node:crypto'
import { type Clock, sleep } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import type { Closable } from '../broker.js'

/** A connection to one server. */
export interface ReachView {
  readonly serverName: string
  publish(subject: string, data: Buffer): void
  subscribe(subject: string, onMessage: (data: Buffer) => void): Closable
  close(): Promise<void>
}

/** Clients need permission to publish and subscribe here; without it nothing can be determined. */
export const REACH_SUBJECT = 'distributary.reach'
/** Less than a connection may otherwise take, so as not to wait for a server that does not answer. */
const CONNECT_MS = 1_500
/**
 * A subscription takes a moment to reach the other servers, so each message is sent after each of these pauses. A
 * server that has not heard it after the last one does not hear it at all.
 */
const PAUSES_MS = [100, 150, 250, 500]

/** Connects to one server; null if it refuses, or does not answer soon. */
export async function openView<View extends ReachView>(
  address: string,
  connectTo: (address: string) => Promise<View>,
  clock: Clock,
): Promise<View | null> {
  const connecting = connectTo(address)
  const late = (): Error => new Error(`no connection within ${CONNECT_MS} ms`)
  const view = await withDeadline(clock, CONNECT_MS, undefined, late, () => connecting).catch(() => null)
  if (view === null) void connecting.then((opened) => opened.close()).catch(() => {})
  return view
}

/** Connects to every server that answers soon: one connection each, even if a server has several addresses. */
export async function openViews<View extends ReachView>(
  addresses: readonly string[],
  connectTo: (address: string) => Promise<View>,
  clock: Clock,
): Promise<View[]> {
  const views: View[] = []
  for (const view of await Promise.all(addresses.map((address) => openView(address, connectTo, clock)))) {
    if (view === null) continue
    if (views.some(({ serverName }) => serverName === view.serverName)) await view.close().catch(() => {})
    else views.push(view)
  }
  return views
}

/** @param views one per server. */
export async function probeReach(views: readonly ReachView[], clock: Clock, signal: AbortSignal): Promise<ServerReach> {
  const subject = `${REACH_SUBJECT}.${randomUUID()}`
  const servers = views.map((view) => ({ server: view.serverName, view }))
  const heard = new Map(servers.map(({ server }) => [server, new Set<string>()]))
  const allHeard = new AbortController()
  const subscriptions = servers.map(({ server, view }) =>
    view.subscribe(subject, (data) => {
      const from = data.toString('utf8')
      if (heard.has(from)) heard.get(server)!.add(from)
      if ([...heard.values()].every((names) => names.size === servers.length)) allHeard.abort()
    }),
  )
  const over = AbortSignal.any([allHeard.signal, signal])
  for (const pauseMs of PAUSES_MS) {
    if (over.aborted) break
    for (const { server, view } of servers) view.publish(subject, Buffer.from(server, 'utf8'))
    await sleep(clock, pauseMs, over)
  }
  for (const subscription of subscriptions) subscription.close()
  return new ServerReach(heard)
}

/** The servers that keep a stream, by name. */
export interface StreamPlacement {
  readonly leader: string
  readonly followers: readonly {
    readonly server: string
    /** Whether it has everything: one that is behind would not be elected. */
    readonly isCurrent: boolean
    /** How long the leader has not heard it; 0 if it never has. */
    readonly silentMs: number
  }[]
}

/** Without a named successor a leader chooses any follower that it has heard within this time. */
const CHOSEN_WITHIN_MS = 3_000
/** Clocks are read at different moments. */
const MARGIN_MS = 50

export class ServerReach {
  /** The servers found, by name: connections to them hear at least themselves. */
  readonly servers: readonly string[]
  readonly #heard: ReadonlyMap<string, ReadonlySet<string>>

  /** @param heard for each server, those whose messages arrived there. */
  constructor(heard: ReadonlyMap<string, ReadonlySet<string>>) {
    this.#heard = heard
    this.servers = [...heard.keys()].filter((server) => heard.get(server)!.has(server))
  }

  /** Whether two servers have lost each other, and a third hears both. */
  get isSplit(): boolean {
    return this.servers.some((third) => {
      const near = this.servers.filter((server) => server !== third && this.#areTogether(server, third))
      return near.some((one) => near.some((other) => one !== other && this.#areApart(one, other)))
    })
  }

  /** The servers that have lost the fewest others. */
  get best(): readonly string[] {
    const most = Math.max(...this.servers.map((server) => this.#count(server)))
    return this.servers.filter((server) => this.#count(server) === most)
  }

  /**
   * Returns the servers that have lost the fewest others, if that is fewer than this one has; none if nothing could be
   * determined.
   */
  betterThan(server: string): readonly string[] {
    const count = this.servers.includes(server) ? this.#count(server) : -1
    return this.best.filter((one) => this.#count(one) > count)
  }

  /** Whether the leader of a stream has lost one of the followers. */
  isTorn(placement: StreamPlacement): boolean {
    const { leader } = placement
    return this.servers.includes(leader) && this.#membersOf(placement).some((server) => this.#areApart(leader, server))
  }

  /** Returns the follower that should lead a torn stream instead: it hears all others, and has everything. */
  successorOf(placement: StreamPlacement): string | null {
    return this.#successorsOf(placement)[0] ?? null
  }

  /** Returns the time after which the leader of a torn stream can only choose a suitable follower. */
  choosesWellInMs(placement: StreamPlacement): number {
    const successors = this.#successorsOf(placement)
    const others = placement.followers.filter(({ server, silentMs }) => !successors.includes(server) && silentMs > 0)
    return Math.max(0, ...others.map(({ silentMs }) => CHOSEN_WITHIN_MS + MARGIN_MS - silentMs))
  }

  #successorsOf(placement: StreamPlacement): string[] {
    if (!this.isTorn(placement)) return []
    const members = this.#membersOf(placement)
    const hearsAll = (one: string): boolean => members.every((other) => other === one || this.#areTogether(one, other))
    return placement.followers
      .filter(({ server, isCurrent }) => isCurrent && members.includes(server) && hearsAll(server))
      .map(({ server }) => server)
  }

  /** Returns the reachable ones. */
  #membersOf({ leader, followers }: StreamPlacement): string[] {
    return [leader, ...followers.map(({ server }) => server)].filter((server) => this.servers.includes(server))
  }

  /**
   * Returns the number of other servers that have not lost this one. What is heard in one direction may be late in the
   * other.
   */
  #count(server: string): number {
    return this.servers.filter((other) => other !== server && !this.#areApart(server, other)).length
  }

  #areTogether(one: string, other: string): boolean {
    return this.#hears(one, other) && this.#hears(other, one)
  }

  #areApart(one: string, other: string): boolean {
    return one !== other && !this.#hears(one, other) && !this.#hears(other, one)
  }

  #hears(one: string, other: string): boolean {
    return this.#heard.get(one)?.has(other) === true
  }
}
