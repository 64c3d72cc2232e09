/**
 * The primary process of a server with workers: it owns the watches on the upstream, one for each source
 * (`feedSource`) that any worker needs, and a link to each worker. It caches no objects and serves no clients.
 *
 *     upstream ─▶ feed ─▶ relay ─┬▶ link ═▶ worker
 *                                └▶ link ═▶ worker
 *
 * The workers decide which prefixes are watched, because they see the definitions of custom resources in their own
 * caches. `supervisor.ts` starts and ends the worker processes.
 */
import type { Duplex } from 'node:stream'
import { type Resource, resourceId } from '../../engine/model/resource.js'
import type { Clock, Timer } from '../../support/clock.js'
import { ConsistencyOnRequest, type ConsistencyReport } from '../../engine/feed/consistency-report.js'
import type { FeedMetrics } from '../../engine/model/stage-metrics.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { problemsOf, type SourceProblems, type Upstream } from '../../engine/upstream/upstream.js'
import type { RingBounds } from '../../engine/cache/ring-buffer.js'
import { SingleFlight } from '../../support/single-flight.js'
import type { CountedLimits } from './primary-limits.js'
import { feedSource } from './messages.js'
import { Relay } from './relay.js'
import { upstreamHandlers } from './upstream-calls.js'
import { WorkerLink } from './worker-link.js'
import { WORKER_QUEUE_BYTES } from '../limits.js'

export interface PrimaryOptions {
  readonly openFeed: OpenFeed
  /** Answers the workers' requests that do not concern a feed. */
  readonly upstream: Upstream
  readonly feedMetrics: (resource: Resource) => FeedMetrics
  /** Called when a resource is no longer watched. */
  readonly onUnwatched: (resource: Resource) => void
  /** Merges the primary's own metrics with those of the workers, and the counts of ended workers, into one scrape. */
  readonly mergeMetrics: (workers: readonly string[]) => Promise<string>
  /** Adds the counts of a worker that has ended, as of its last metrics, to every later scrape. */
  readonly keepCounts: (worker: string) => void
  /** Report to the workers' readiness what is wrong with them. */
  readonly sources: readonly SourceProblems[]
  /** Returns the primary's own status. */
  readonly status: () => unknown
  /** The limits shared by all workers. */
  readonly limits: CountedLimits
  readonly history: RingBounds
  readonly clock: Clock
  /** The most bytes that may wait for one worker; beyond it the worker is dropped. */
  readonly maxQueuedBytes?: number
}

/**
 * A feed that no worker needs keeps running for this long, because a restarting worker may need it again. One that reads
 * another server ends as soon as the last worker unsubscribes: a definition that changes back shows other content under
 * the same resourceVersions, so the old feed must not be used again.
 */
const LINGER_MS = 60_000

export interface LinkEvents {
  /** Called when clients can connect to the worker. */
  readonly onStarted: () => void
  /** Called when a message of the worker could not be handled. */
  readonly onBug: (error: unknown) => void
  /** Called once, with the reason, when the process behind the socket is no longer useful. */
  readonly onClosed: (reason: string) => void
}

interface OpenRelay {
  readonly relay: Relay
  linger: Timer | null
}

export class Primary {
  #history: RingBounds
  readonly #relays = new Map<string, OpenRelay>()
  readonly #links = new Set<WorkerLink>()
  readonly #stopping = new Set<Promise<void>>()
  /** Shared by the workers, so that a worker that does not answer has few open requests. */
  readonly #scrapes = new SingleFlight(() => this.#exposeMetrics())
  /** Shared by the workers, because each worker with an open status page requests them once a second. */
  readonly #statuses = new SingleFlight(() => this.#exposeStatus())
  readonly #checks = new ConsistencyOnRequest(() => this.relays())
  #nextId = 1

  constructor(private readonly options: PrimaryOptions) {
    this.#history = options.history
  }

  get links(): ReadonlySet<WorkerLink> {
    return this.#links
  }

  *relays(): Generator<Relay> {
    for (const { relay } of this.#relays.values()) yield relay
  }

  /** Limits the history kept for workers that start later. */
  setHistoryBounds(bounds: RingBounds): void {
    this.#history = bounds
    for (const relay of this.relays()) relay.setHistoryBounds(bounds)
  }

  attach(socket: Duplex, { onStarted, onBug, onClosed }: LinkEvents): WorkerLink {
    const { upstream, sources, limits, clock, maxQueuedBytes = WORKER_QUEUE_BYTES } = this.options
    const link: WorkerLink = new WorkerLink({
      socket,
      clock,
      open: (resource) => this.#open(resource),
      find: (source) => this.#relays.get(source)?.relay,
      handlers: {
        ...upstreamHandlers(upstream),
        metrics: async () => ({ value: await this.#scrapes.join() }),
        status: async () => ({ value: await this.#statuses.join() }),
        checkConsistency: async () => ({ value: await this.checkConsistency() }),
      },
      problems: () => problemsOf(sources),
      limits,
      maxQueuedBytes,
      onStarted,
      onBug,
      onRelayLeft: (relay, why) => this.#left(relay, why),
      onClosed: (reason) => {
        this.#links.delete(link)
        if (link.metrics !== null) this.options.keepCounts(link.metrics)
        onClosed(reason)
      },
    })
    this.#links.add(link)
    return link
  }

  /** Compares what the primary holds for the workers with etcd; only one check runs at a time. */
  checkConsistency(): Promise<ConsistencyReport> {
    return this.#checks.run()
  }

  /** Notifies all workers that a client is suspect for a while. */
  suspect(client: string): void {
    for (const link of this.#links) link.suspect(client)
  }

  async stop(): Promise<void> {
    for (const link of this.#links) link.close('the primary process is stopping')
    for (const { relay, linger } of this.#relays.values()) {
      linger?.cancel()
      this.#end(relay)
    }
    await Promise.all(this.#stopping)
  }

  async #exposeMetrics(): Promise<string> {
    await Promise.all([...this.#links].map((link) => link.collectMetrics()))
    // A worker that has ended in the meantime is no longer among the links, and its counts are kept.
    return await this.options.mergeMetrics([...this.#links].flatMap(({ metrics }) => metrics ?? []))
  }

  async #exposeStatus(): Promise<readonly unknown[]> {
    const collected = await Promise.all([...this.#links].map((link) => link.collectStatus()))
    return [this.options.status(), ...collected.filter((status) => status !== null)]
  }

  #open(resource: Resource): Relay {
    const source = feedSource(resource)
    const open = this.#relays.get(source)
    if (open !== undefined) {
      open.linger?.cancel()
      open.linger = null
      return open.relay
    }
    const { openFeed, feedMetrics, clock } = this.options
    const metrics = feedMetrics(resource)
    const relay = new Relay({ id: this.#nextId++, resource, openFeed, metrics, history: this.#history, clock })
    this.#relays.set(source, { relay, linger: null })
    relay.feed.start()
    return relay
  }

  #left(relay: Relay, why: 'unsubscribed' | 'closed'): void {
    const open = this.#relays.get(relay.source)
    if (open === undefined || relay.subscribers > 0) return
    open.linger?.cancel()
    if (why === 'unsubscribed' && relay.resource.form !== undefined) return this.#end(relay)
    open.linger = this.options.clock.setTimer(LINGER_MS, () => this.#end(relay))
  }

  #end(relay: Relay): void {
    this.#relays.delete(relay.source)
    const stopped = relay.feed.stop()
    this.#stopping.add(stopped)
    void stopped.finally(() => {
      this.#stopping.delete(stopped)
      const { resource } = relay
      const isSame = (other: Relay): boolean => resourceId(other.resource) === resourceId(resource)
      if (![...this.relays()].some(isSame)) this.options.onUnwatched(resource)
    })
  }
}
