/**
 * How fresh a cached answer must be, and etcd's own state where the cache cannot tell: for consistent reads, and for exact
 * reads of revisions that no snapshot holds any more.
 *
 * A request may join only a read that starts after the request arrived, so a burst of them costs two reads. What is read
 * here answers requests and never moves the feed: an equal state does not mean that its events were delivered.
 */
import type { FreshnessSource, StateAtRevision } from '../model/freshness-source.js'
import type { Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { TooManyRequestsError } from '../model/status.js'
import type { Clock } from '../support/clock.js'
import { orAborted, withDeadline } from '../support/deadline.js'
import { Limiter } from '../support/limiter.js'
import { SingleFlight } from '../support/single-flight.js'
import { UpstreamError, type UpstreamReader } from '../upstream/upstream.js'
import { readPages } from './read-pages.js'

export interface ProgressSource {
  readonly trustsProgress: boolean
  requestProgress(): void
  /** What has been handed over; null where nobody here can tell. */
  readonly position: Revision | null
  /** The upstream has answered with a revision below that. */
  doubtHistory(why: string): void
}

export interface UpstreamFreshnessOptions {
  readonly upstream: UpstreamReader
  readonly prefix: Key
  /** The feed whose progress proves freshness, or what stands for it. */
  readonly feed: ProgressSource
  readonly clock: Clock
  readonly pageKeys: number
  /** Bound on `currentRevision`. */
  readonly revisionTimeoutMs: number
  /** Bound on `readState`, all pages together. */
  readonly stateTimeoutMs: number
  /** Reads of old revisions that run at once, each of which holds a whole state; the rest wait for their turn. */
  readonly exactReads: number
}

/** Different old revisions in line for each that is being read. */
const WAITING_PER_READ = 16

export class UpstreamFreshness implements FreshnessSource {
  readonly #options: UpstreamFreshnessOptions
  readonly #revisionFlight: SingleFlight<Revision>
  readonly #stateFlight: SingleFlight<StateAtRevision>
  readonly #exact = new Map<Revision, Promise<StateAtRevision>>()
  readonly #exactTurns: Limiter

  constructor(options: UpstreamFreshnessOptions) {
    this.#options = options
    this.#revisionFlight = new SingleFlight(() => this.#readRevision())
    this.#stateFlight = new SingleFlight(() => this.#readState(null))
    this.#exactTurns = new Limiter(options.exactReads)
  }

  get trustsProgress(): boolean {
    return this.#options.feed.trustsProgress
  }

  requestProgress(): void {
    this.#options.feed.requestProgress()
  }

  readKey(key: Key, signal?: AbortSignal): Promise<KeyValue | null> {
    return this.#options.upstream.readKey(key, signal === undefined ? {} : { signal })
  }

  currentRevision(signal?: AbortSignal): Promise<Revision> {
    return this.#revisionFlight.join(signal)
  }

  readState(revision: Revision | null, signal?: AbortSignal): Promise<StateAtRevision> {
    return revision === null ? this.#stateFlight.join(signal) : this.#readExact(revision, signal)
  }

  /** A source that answers a revision below ours has not reached it: it may be an older copy. */
  async #readRevision(): Promise<Revision> {
    const { upstream, clock, revisionTimeoutMs, feed } = this.#options
    const before = feed.position
    const revision = await withDeadline(
      clock,
      revisionTimeoutMs,
      undefined,
      () => late(revisionTimeoutMs),
      (signal) => upstream.currentRevision(signal),
    )
    if (before === null || revision >= before) return revision
    const why = `etcd answers revision ${revision}, below ${before}, which it had told before`
    feed.doubtHistory(why)
    throw new UpstreamError('unavailable', why)
  }

  /** A past revision never changes, so whoever asks for it while it is being read shares it. */
  #readExact(revision: Revision, signal: AbortSignal | undefined): Promise<StateAtRevision> {
    let reading = this.#exact.get(revision)
    if (reading === undefined) {
      if (this.#exact.size >= this.#options.exactReads * WAITING_PER_READ) {
        return Promise.reject(new TooManyRequestsError('too many reads of old revisions at once', 1))
      }
      reading = this.#readState(revision).finally(() => this.#exact.delete(revision))
      this.#exact.set(revision, reading)
    }
    return signal === undefined ? reading : orAborted(reading, signal)
  }

  #readState(revision: Revision | null): Promise<StateAtRevision> {
    const { clock, stateTimeoutMs } = this.#options
    return withDeadline(
      clock,
      stateTimeoutMs,
      undefined,
      () => late(stateTimeoutMs),
      async (signal) => {
        const release = revision === null ? null : await this.#exactTurns.acquire(signal)
        try {
          return await this.#readPages(revision, signal)
        } finally {
          release?.()
        }
      },
    )
  }

  async #readPages(revision: Revision | null, signal: AbortSignal): Promise<StateAtRevision> {
    const { upstream, prefix, clock, pageKeys, stateTimeoutMs: pageTimeoutMs } = this.#options
    const keyValues: KeyValue[] = []
    let at = revision
    for await (const page of readPages({ upstream, prefix, revision, pageKeys, pageTimeoutMs, clock, signal })) {
      at = page.revision
      for (const keyValue of page.keyValues) keyValues.push(keyValue)
    }
    if (at === null) throw new UpstreamError('protocol', 'a list without a page')
    return { revision: at, keyValues }
  }
}

function late(timeoutMs: number): UpstreamError {
  return new UpstreamError('unavailable', `no answer to a read within ${timeoutMs} ms`)
}
