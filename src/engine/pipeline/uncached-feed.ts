/**
 * The feed of a cache that lives for one request. It reads the state with which the request begins, and for a watch it
 * opens one watch on the upstream. It never reconnects. When the upstream's watch is lost, the client's watch ends
 * without an error, and the client resumes it. An informer lists everything again after any error in a watch, and after
 * any refusal to open one except 429, so a watch that cannot reach the upstream is refused with 429.
 */
import { unansweredRead } from '../cache/reads.js'
import type { FreshnessSource, StateAtRevision } from '../model/freshness-source.js'
import { addInTurns } from '../feed/add-in-turns.js'
import type { FeedRequest, ResourceFeed } from '../feed/resource-feed.js'
import type { FeedStatus } from '../feed/feed-options.js'
import { learnCompactRevision } from '../feed/list-plan.js'
import { readState } from '../feed/read-pages.js'
import type { Key } from '../model/event.js'
import { resourceId } from '../model/resource.js'
import { nextRevision, type Revision, ZERO_REVISION } from '../model/revision.js'
import {
  BusyError,
  type EngineError,
  RefusedReadError,
  RefusedWatchError,
  RevisionExpiredError,
} from '../model/errors.js'
import type { Clock } from '../../support/clock.js'
import {
  UpstreamError,
  type UpstreamReader,
  type UpstreamWatch,
  type UpstreamWatcher,
  type WatchEnd,
} from '../upstream/upstream.js'

export interface UncachedFeedOptions {
  readonly upstream: UpstreamReader & UpstreamWatcher
  /** The prefix of the resource, or of one of its scopes. */
  readonly prefix: Key
  readonly isWatch: boolean
  readonly clock: Clock
  /** Called when the upstream's watch is lost, with a RevisionExpiredError if the client cannot resume. */
  readonly onLost: (error: EngineError) => void
}

const FLOOR_TIMEOUT_MS = 2_000

export class UncachedFeed implements ResourceFeed {
  readonly #request: FeedRequest
  readonly #options: UncachedFeedOptions
  readonly freshness: FreshnessSource
  #revision: Revision = ZERO_REVISION
  #watch: UpstreamWatch | null = null
  #isStopped = false

  constructor(request: FeedRequest, options: UncachedFeedOptions) {
    this.#request = request
    this.#options = options
    const { upstream } = options
    this.freshness = {
      // Reads need no further proof of freshness, because the state was read after the request arrived.
      trustsProgress: true,
      currentRevision: () => Promise.resolve(this.#revision),
      requestProgress: () => this.#watch?.requestProgress(),
      readState: (revision, signal) => this.#read(revision, signal),
      readKey: (key, signal) => upstream.readKey(key, signal === undefined ? {} : { signal }),
    }
  }

  get status(): FeedStatus {
    return { state: 'watching', revision: this.#revision, reason: null }
  }

  start(): void {}

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#watch?.close()
    this.#watch = null
  }

  /** Loads the current state. @throws EngineError */
  async loadNow(signal: AbortSignal): Promise<void> {
    await this.#hold(await this.#orUnavailable(this.#read(null, signal)), signal)
  }

  /** Loads one object, or an empty state if it does not exist. @throws EngineError */
  async loadOne(key: Key, signal: AbortSignal): Promise<void> {
    const { upstream } = this.#options
    // The object is read after the revision, so it is not older than that.
    const now = await this.#orUnavailable(upstream.currentRevision(signal))
    const keyValue = await this.#orUnavailable(upstream.readKey(key, { signal }))
    const keyValues = keyValue === null ? [] : [keyValue]
    await this.#hold({ revision: Math.max(now, keyValue?.modRevision ?? 0) as Revision, keyValues }, signal)
  }

  /**
   * Loads the state at `afterRevision`, with which the watch begins. If that revision is compacted, loads the oldest
   * readable state, and the cache then rejects the revision as too old.
   * @throws EngineError
   */
  async loadAt(afterRevision: Revision, signal: AbortSignal): Promise<void> {
    const now = await this.#orUnavailable(this.#options.upstream.currentRevision(signal))
    const revision = Math.min(now, afterRevision) as Revision
    try {
      await this.#hold(await this.#read(revision, signal), signal)
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.code !== 'compacted') throw this.#unanswered(error)
      const { upstream, prefix, clock } = this.#options
      const floor = await learnCompactRevision(upstream, {
        prefix,
        revision,
        clock,
        timeoutMs: FLOOR_TIMEOUT_MS,
        signal,
      })
      await this.#hold(await this.#orUnavailable(this.#read(floor, signal)), signal)
    }
  }

  /** Watches from the loaded state onwards, unless the feed has been stopped. */
  watch(): void {
    this.#watchAfter(this.#revision, false)
  }

  /** @param inParts whether the events since then are too large for one message. */
  #watchAfter(revision: Revision, inParts: boolean): void {
    if (this.#isStopped) return
    let position = revision
    const { upstream, prefix } = this.#options
    const { sink, metrics } = this.#request
    this.#watch = upstream.watch(
      { prefix, startRevision: nextRevision(revision), inParts },
      {
        onOpen: () => {},
        onBatches: (batches) => {
          metrics.received(batches.reduce((sum, { events }) => sum + events.length, 0))
          sink.apply(batches)
          position = batches.at(-1)?.revision ?? position
        },
        onProgress: (reached) => sink.progress(reached),
        onEnd: (end) => {
          const isTooLarge = end.kind === 'failed' && end.error.code === 'too-large'
          if (isTooLarge && !inParts) this.#watchAfter(position, true)
          else this.#options.onLost(errorOf(end, this.#revision))
        },
      },
    )
  }

  async #hold({ revision, keyValues }: StateAtRevision, signal: AbortSignal): Promise<void> {
    const replacement = this.#request.sink.replace(revision, 'initial')
    await addInTurns(keyValues, (part) => replacement.add(part), signal)
    replacement.commit()
    this.#request.sink.synced()
    this.#revision = revision
  }

  #read(revision: Revision | null, signal?: AbortSignal): Promise<StateAtRevision> {
    const { upstream, prefix, clock } = this.#options
    return readState({ upstream, prefix, revision, clock, signal })
  }

  async #orUnavailable<T>(work: Promise<T>): Promise<T> {
    try {
      return await work
    } catch (error) {
      throw this.#unanswered(error)
    }
  }

  #unanswered(error: unknown): unknown {
    if (!(error instanceof UpstreamError)) return error
    const { isWatch } = this.#options
    if (isWatch && error.code === 'unavailable') return lost('the storage did not answer', error)
    const name = resourceId(this.#request.resource)
    const unanswered = unansweredRead(error, name)
    const isRefused = isWatch && unanswered instanceof RefusedReadError
    return isRefused ? new RefusedWatchError(name, { cause: error }) : unanswered
  }
}

function lost(message: string, cause: unknown): BusyError {
  return new BusyError(message, 1, { cause })
}

function errorOf(end: WatchEnd, revision: Revision): EngineError {
  if (end.kind === 'compacted') return new RevisionExpiredError(revision, end.compactRevision)
  if (end.kind === 'contradicted') return new RevisionExpiredError(revision, nextRevision(end.revision))
  return lost('the watch on the storage is lost', end.error)
}
