/**
 * Proves how fresh a cached response is, and reads etcd's own state when the cache cannot answer: for consistent reads,
 * and for exact reads of revisions for which there is no snapshot any more.
 *
 * A request may join only a read that starts after the request has arrived, so a burst of requests costs two reads. A
 * state that is read here answers requests but never advances the feed, because an equal state does not mean that its
 * events were delivered.
 */
import type { FreshnessSource, KeysSummary, StateAtRevision } from '../model/freshness-source.js'
import type { Key, KeyValue } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import { BusyError } from '../model/errors.js'
import type { Clock } from '../../support/clock.js'
import { orAborted } from '../../support/deadline.js'
import { Semaphore } from '../../support/semaphore.js'
import { SingleFlight } from '../../support/single-flight.js'
import { UpstreamError, type StateReader } from '../upstream/upstream.js'
import { readInTime, readState, summariseKeys } from './read-pages.js'
import { KEY_READS } from '../model/limits.js'

export interface ProgressSource {
  readonly trustsProgress: boolean
  requestProgress(): void
  /** Everything at or before this revision has been delivered; null if it is not known here. */
  readonly position: Revision | null
  /** Called when the upstream has answered with a revision below `position`. */
  doubtHistory(why: string): void
}

export interface UpstreamFreshnessOptions {
  readonly upstream: StateReader
  readonly prefix: Key
  /** The feed whose progress proves freshness, or a substitute for it. */
  readonly feed: ProgressSource
  readonly clock: Clock
}

const REVISION_TIMEOUT_MS = 3_000
/** The time limit for one object, including the wait for a slot. */
const OBJECT_TIMEOUT_MS = 10_000
/** The time limit for all pages of a state together. */
const STATE_TIMEOUT_MS = 30_000
/** How many reads of old revisions run at once, because each holds a whole state in memory. Further reads wait. */
const EXACT_READS = 2
/** Limits how many different old revisions may be waiting or being read: this number for each of the `EXACT_READS`. */
const WAITING_PER_READ = 16

/** Shared, because an abort without a reason creates an exception with a stack trace, which takes 20 µs. */
const UNWANTED = new UpstreamError('unavailable', 'no request waits for this read')

/** A read of one object, shared by all requests for that object. It is cancelled when no request wants it any more. */
interface ObjectReading {
  readonly flight: SingleFlight<KeyValue | null>
  callers: number
  readonly end: () => void
}

export class UpstreamFreshness implements FreshnessSource {
  readonly #options: UpstreamFreshnessOptions
  readonly #revisionFlight: SingleFlight<Revision>
  readonly #stateFlight: SingleFlight<StateAtRevision>
  readonly summariseKeys?: (signal?: AbortSignal) => Promise<KeysSummary>
  readonly #exact = new Map<Revision, Promise<StateAtRevision>>()
  readonly #exactTurns: Semaphore
  /** The reads of objects in progress, by key. */
  readonly #objects = new Map<Key, ObjectReading>()
  readonly #objectTurns = new Semaphore(KEY_READS)

  constructor(options: UpstreamFreshnessOptions) {
    this.#options = options
    this.#revisionFlight = new SingleFlight(() => this.#readRevision())
    this.#stateFlight = new SingleFlight(() => this.#readState(null))
    this.#exactTurns = new Semaphore(EXACT_READS)
    if (options.upstream.areKeysCheap === true) {
      const flight = new SingleFlight(() => this.#summariseKeys())
      this.summariseKeys = (signal) => flight.join(signal)
    }
  }

  get trustsProgress(): boolean {
    return this.#options.feed.trustsProgress
  }

  requestProgress(): void {
    this.#options.feed.requestProgress()
  }

  async readKey(key: Key, signal?: AbortSignal): Promise<KeyValue | null> {
    const reading = this.#objects.get(key) ?? this.#reading(key)
    reading.callers++
    try {
      return await reading.flight.join(signal)
    } finally {
      if (--reading.callers === 0) reading.end()
    }
  }

  #reading(key: Key): ObjectReading {
    const unwanted = new AbortController()
    const reading: ObjectReading = {
      flight: new SingleFlight(() => this.#readKey(key, unwanted.signal)),
      callers: 0,
      end: () => {
        this.#objects.delete(key)
        unwanted.abort(UNWANTED)
      },
    }
    this.#objects.set(key, reading)
    return reading
  }

  #readKey(key: Key, unwanted: AbortSignal): Promise<KeyValue | null> {
    const { clock, upstream } = this.#options
    const read = async (signal: AbortSignal): Promise<KeyValue | null> => {
      const release = await this.#objectTurns.acquire(signal)
      try {
        return await upstream.readKey(key, { signal })
      } finally {
        release()
      }
    }
    return readInTime(clock, unwanted, read, OBJECT_TIMEOUT_MS)
  }

  currentRevision(signal?: AbortSignal): Promise<Revision> {
    return this.#revisionFlight.join(signal)
  }

  readState(revision: Revision | null, signal?: AbortSignal): Promise<StateAtRevision> {
    return revision === null ? this.#stateFlight.join(signal) : this.#readExact(revision, signal)
  }

  /**
   * Reads the source's revision. If it is below ours, the source may be an older copy, so the feed compares histories
   * and the read fails.
   */
  async #readRevision(): Promise<Revision> {
    const { upstream, clock, feed } = this.#options
    const before = feed.position
    const read = (signal: AbortSignal): Promise<Revision> => upstream.currentRevision(signal)
    const revision = await readInTime(clock, undefined, read, REVISION_TIMEOUT_MS)
    if (before === null || revision >= before) return revision
    const why = `etcd returned revision ${revision}, below ${before}, which it had returned before`
    feed.doubtHistory(why)
    throw new UpstreamError('unavailable', why)
  }

  /** A past state never changes, so all callers that ask for it while it is being read share the read. */
  #readExact(revision: Revision, signal: AbortSignal | undefined): Promise<StateAtRevision> {
    let reading = this.#exact.get(revision)
    if (reading === undefined) {
      if (this.#exact.size >= EXACT_READS * WAITING_PER_READ) {
        return Promise.reject(new BusyError('too many reads of old revisions at once', 1))
      }
      reading = this.#readState(revision).finally(() => this.#exact.delete(revision))
      this.#exact.set(revision, reading)
    }
    return orAborted(reading, signal)
  }

  #summariseKeys(): Promise<KeysSummary> {
    const { clock, upstream, prefix } = this.#options
    const read = (signal: AbortSignal): Promise<KeysSummary> =>
      summariseKeys({ upstream, prefix, revision: null, clock, signal })
    return readInTime(clock, undefined, read, STATE_TIMEOUT_MS)
  }

  #readState(revision: Revision | null): Promise<StateAtRevision> {
    const { clock, upstream, prefix } = this.#options
    const read = async (signal: AbortSignal): Promise<StateAtRevision> => {
      const release = revision === null ? null : await this.#exactTurns.acquire(signal)
      try {
        return await readState({ upstream, prefix, revision, clock, signal })
      } finally {
        release?.()
      }
    }
    return readInTime(clock, undefined, read, STATE_TIMEOUT_MS)
  }
}
