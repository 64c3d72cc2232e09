/**
 * A worker's end of the socket: it feeds the worker's resources, and carries the requests that the worker's caches
 * cannot answer.
 *
 * A primary that sends nothing for three seconds, because it is stopped or starved, counts as unreachable. The age of
 * the resources then grows from its last frame, and every request fails at once. The primary is back when it has
 * answered a request that was sent after its first new frame.
 *
 * A broken link is not repaired. The worker has lost its position in the stream of frames, so its process ends. The
 * primary starts another worker, which begins with the primary's state and history.
 */
import type { Duplex } from 'node:stream'
import type { Clock } from '../../support/clock.js'
import { Semaphore } from '../../support/semaphore.js'
import { SingleFlight } from '../../support/single-flight.js'
import type { FreshnessSource } from '../../engine/model/freshness-source.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { type SourceProblems, type Upstream, UpstreamError } from '../../engine/upstream/upstream.js'
import type { ByteReader } from '../byte-codec.js'
import { Link } from './link.js'
import type { PrimaryMethods, ToPrimary, ToWorker, WorkerMethods } from './messages.js'
import { PrimaryFeed } from './primary-feed.js'
import { Silence } from '../silence.js'
import { primaryUpstream } from './upstream-calls.js'
import { WorkerLimits } from './worker-limits.js'
import { WORKER_REQUESTS_AT_ONCE } from '../limits.js'

export interface WorkerChannelOptions {
  readonly socket: Duplex
  readonly clock: Clock
  readonly workers: number
  /** Called once, when nothing more will arrive. */
  readonly onClosed: (reason: string) => void
  /** Returns this worker's metrics as JSON. A rejection omits them from the scrape. */
  readonly collectMetrics: () => Promise<string>
  /** Returns this worker's status. A rejection omits it. */
  readonly collectStatus: () => Promise<unknown>
  /** Called with the reason for such a rejection, and when a message from the primary process could not be processed. */
  readonly onBug: (error: unknown) => void
}

const TICK_MS = 500
const SILENT_TICKS = 6
const SILENT = 'the primary process does not answer'

export class WorkerChannel {
  /** The primary's upstream, without watches. */
  readonly upstream: Upstream = primaryUpstream(
    (...request) => this.#request(...request),
    () => this.#problems,
  )
  /** The client limits, shared by all workers. */
  readonly limits: WorkerLimits
  readonly #link: Link<ToWorker, WorkerMethods, PrimaryMethods>
  readonly #feeds = new Map<string, PrimaryFeed>()
  readonly #feedsById = new Map<number, PrimaryFeed>()
  readonly #slots = new Semaphore(WORKER_REQUESTS_AT_ONCE)
  readonly #silence: Silence
  /**
   * Whether the response to a ping is pending. The response proves that the primary is back only if the ping was sent
   * after the primary's first new frame.
   */
  #isPinging = false
  #isPrimarySilent = false
  /** As the primary last reported them. */
  #problems: SourceProblems = {}

  constructor(private readonly options: WorkerChannelOptions) {
    const { socket, clock, workers, collectMetrics, collectStatus, onBug } = options
    this.#link = new Link<ToWorker, WorkerMethods, PrimaryMethods>({
      socket,
      onMessage: (message, body) => this.#receive(message, body),
      onBug,
      onClosed: ({ message }) => {
        this.#silence.stop()
        this.limits.lose()
        options.onClosed(message)
      },
      handlers: {
        metrics: async () => ({ value: await collectMetrics() }),
        status: async () => ({ value: await collectStatus() }),
      },
    })
    this.limits = new WorkerLimits({
      processes: workers,
      clock,
      send: (message) => this.#send(message),
      request: (...request) => this.#link.request(...request),
    })
    this.#silence = new Silence({
      clock,
      tickMs: TICK_MS,
      ticks: SILENT_TICKS,
      onTick: () => this.#ping(false),
      onSilent: (silentMs) => this.#lose(silentMs),
    })
  }

  /** Opens a resource that the primary feeds. */
  readonly openFeed: OpenFeed = (request) => {
    // All callers in this process that ask while a response is pending share the next response.
    const revisions = new SingleFlight(async () => (await this.#request('currentRevision', [feed.source])).value)
    const readState: FreshnessSource['readState'] = async (requestedRevision, signal) => {
      const { value: revision, keyValues } = await this.#request('readState', [feed.source, requestedRevision], signal)
      return { revision, keyValues }
    }
    const states = new SingleFlight(() => readState(null))
    const feed: PrimaryFeed = new PrimaryFeed(request, {
      clock: this.options.clock,
      start: () => {
        this.#feeds.set(feed.source, feed)
        this.#send({ kind: 'subscribe', resource: request.resource })
      },
      stop: () => {
        if (this.#feeds.get(feed.source) !== feed) return
        this.#feeds.delete(feed.source)
        if (feed.id !== null) this.#feedsById.delete(feed.id)
        this.#send({ kind: 'unsubscribe', source: feed.source })
      },
      freshness: {
        trustsProgress: false,
        requestProgress: () => {
          if (!this.#isPrimarySilent) this.#send({ kind: 'requestProgress', source: feed.source })
        },
        currentRevision: (signal) => revisions.join(signal),
        readState: (revision, signal) => (revision === null ? states.join(signal) : readState(revision, signal)),
        readKey: async (key, signal) => (await this.#request('readKey', [feed.source, key], signal)).value,
      },
    })
    return feed
  }

  /** Asks the primary for what concerns all processes (`PrimaryMethods`). @throws UpstreamError */
  async ask<What extends 'metrics' | 'status' | 'checkConsistency'>(
    what: What,
  ): Promise<ReturnType<PrimaryMethods[What]>> {
    return (await this.#request(what, [] as never)).value
  }

  /** Reports to the primary that clients can connect. */
  started(): void {
    this.#send({ kind: 'started' })
  }

  close(): void {
    this.#link.close('closed here')
  }

  readonly #request: Link<never, never, PrimaryMethods>['request'] = async (method, args, signal) => {
    const release = await this.#slots.acquire(signal)
    try {
      if (this.#isPrimarySilent) throw new UpstreamError('unavailable', SILENT)
      return await this.#link.request(method, args, signal)
    } finally {
      release()
    }
  }

  #ping(isProof: boolean): void {
    if (this.#isPinging) return
    this.#isPinging = true
    this.#send({ kind: 'ping', isProof })
  }

  #ponged(isProof: boolean): void {
    this.#isPinging = false
    if (!this.#isPrimarySilent) return
    if (!isProof) return this.#ping(true)
    this.#isPrimarySilent = false
    this.limits.back()
    for (const feed of this.#feeds.values()) feed.back()
  }

  #lose(silentMs: number): void {
    this.#isPrimarySilent = true
    this.limits.lose()
    for (const feed of this.#feeds.values()) feed.lose(SILENT, silentMs)
    this.#link.fail(new UpstreamError('unavailable', SILENT))
  }

  #receive(message: ToWorker, body: ByteReader): void {
    this.#silence.received()
    switch (message.kind) {
      case 'subscribed': {
        const feed = this.#feeds.get(message.source)
        if (feed === undefined) return
        feed.id = message.feed
        this.#feedsById.set(message.feed, feed)
        return
      }
      case 'pong':
        this.#problems = message.problems
        return this.#ponged(message.isProof)
      case 'suspect':
        return this.limits.suspect(message.client)
      default:
        // The feed may have been stopped in the meantime.
        return this.#feedsById.get(message.feed)?.receive(message, body)
    }
  }

  #send(message: ToPrimary): void {
    this.#link.send(message)
  }
}
