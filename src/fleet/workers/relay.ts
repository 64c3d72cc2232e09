/**
 * Passes one feed of the primary to the workers that need it. Each frame is encoded once for all of them; a worker that
 * subscribes later first gets the state and history kept here.
 *
 * The state is kept raw, as etcd has it. It answers no reads. A read that a worker's cache cannot answer goes to the
 * feed's own freshness source. Each link drops its worker if the worker does not keep up.
 */
import { type Batch, inOwnMemory, type KeyValue } from '../../engine/model/event.js'
import type { Resource } from '../../engine/model/resource.js'
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import type { RingBounds } from '../../engine/cache/ring-buffer.js'
import type { CheckedCache } from '../../engine/model/checked-cache.js'
import type { FeedMetrics } from '../../engine/model/stage-metrics.js'
import type { EarlierHistory, FeedSink, ReplaceReason, Replacement } from '../../engine/model/feed-sink.js'
import type { OpenFeed, ResourceFeed } from '../../engine/feed/resource-feed.js'
import { bytesOf, pagesOf, writeKeyValues } from '../key-value-codec.js'
import { batchFrames, type FeedMessage, feedFrame, feedSource } from './messages.js'
import { ReplayableState } from './replayable-state.js'

/** A worker, as a relay sees it. */
export interface RelaySubscriber {
  /** Sends a frame after all earlier frames. */
  send(feed: number, frame: Buffer): void
  /**
   * Sends frames produced one by one while there is room; frames sent for the same feed in the meantime come after
   * them.
   */
  sendAll(feed: number, frames: Iterator<Buffer>): void
}

export interface RelayOptions {
  readonly id: number
  readonly resource: Resource
  readonly openFeed: OpenFeed
  readonly metrics: FeedMetrics
  readonly history: RingBounds
  readonly clock: Clock
}

/**
 * The reasons for replacements, from the mildest to the worst. If a worker has received neither of two replacements
 * completely, it gets the worse reason.
 */
const SEVERITY: readonly ReplaceReason[] = ['coalesce', 'gap', 'history-changed', 'initial']

export class Relay implements FeedSink {
  readonly id: number
  readonly resource: Resource
  readonly source: string
  readonly feed: ResourceFeed
  readonly #clock: Clock
  readonly #state: ReplayableState
  /** Each subscriber with the reason of the replacement still being sent to it; null if there is none. */
  readonly #subscribers = new Map<RelaySubscriber, ReplaceReason | null>()
  #position: Revision = ZERO_REVISION
  #hasState = false
  #isSynced = false
  /** As last reported by the feed; null before its first report. */
  #isSeeking: boolean | null = null
  #confirmation: Extract<FeedMessage, { kind: 'confirmed' }> | null = null
  #trouble: Extract<FeedMessage, { kind: 'disconnected' | 'refused' }> | null = null

  constructor(options: RelayOptions) {
    const { id, resource, openFeed, metrics, history, clock } = options
    this.id = id
    this.resource = resource
    this.source = feedSource(resource)
    this.#clock = clock
    this.#state = new ReplayableState(history)
    const state = this.#state
    const positionOf = (): Revision | null => (this.#hasState ? this.#position : null)
    const checked: CheckedCache = {
      get revision() {
        return positionOf()
      },
      stateAt: (revision) => (revision === positionOf() ? state.newest() : null),
    }
    this.feed = openFeed({ resource, sink: this, metrics, checked })
  }

  /**
   * Why nothing new arrives while the old state is still served; null when all is well, or when nothing was ever
   * listed.
   */
  get disconnectedReason(): string | null {
    if (this.#trouble === null || (this.#trouble.kind === 'refused' && !this.#hasState)) return null
    return this.#trouble.reason
  }

  /** Whether there is a state to serve. */
  get isLoaded(): boolean {
    return this.#hasState
  }

  get subscribers(): number {
    return this.#subscribers.size
  }

  setHistoryBounds(bounds: RingBounds): void {
    this.#state.setBounds(bounds, this.#clock.monotonic())
  }

  subscribe(subscriber: RelaySubscriber): void {
    this.#subscribers.set(subscriber, 'initial')
    if (this.#hasState) this.#hand(subscriber, 'initial')
    else for (const frame of this.#statusFrames()) subscriber.send(this.id, frame)
  }

  unsubscribe(subscriber: RelaySubscriber): void {
    this.#subscribers.delete(subscriber)
  }

  // Calls from the feed (FeedSink)

  countKeys(): number {
    let count = 0
    for (const _key of this.#state.newest()) count++
    return count
  }

  replace(revision: Revision, reason: ReplaceReason): Replacement {
    let keyValues: KeyValue[] = []
    return {
      add: (page) => {
        for (const keyValue of page) keyValues.push(inOwnMemory(keyValue))
      },
      commit: () => {
        this.#state.reset(revision, keyValues)
        keyValues = []
        this.#position = revision
        this.#hasState = true
        for (const [subscriber, unfinished] of this.#subscribers) this.#hand(subscriber, worse(unfinished, reason))
      },
      abort: () => {
        keyValues = []
      },
    }
  }

  apply(batches: readonly Batch[]): void {
    const last = batches.at(-1)
    if (last === undefined) return
    this.#trouble = null
    const receivedAtMs = this.#clock.monotonic()
    for (const batch of batches) this.#state.append(batch, receivedAtMs)
    this.#position = last.revision
    if (this.#subscribers.size === 0) return
    for (const frame of batchFrames(this.id, batches)) this.#broadcast(frame)
  }

  seeking(isSeeking: boolean): void {
    this.#isSeeking = isSeeking
    this.#broadcast(this.#seekingFrame(isSeeking))
  }

  earlier(after: Revision, until: Revision): EarlierHistory {
    const replaced: KeyValue[] = []
    const batches: Batch[] = []
    return {
      add: (part) => void replaced.push(...part.map(inOwnMemory)),
      apply: (part) => void batches.push(...part),
      commit: () => {
        const isTaken = this.#state.precede({ after, until, replaced, batches }, this.#clock.monotonic())
        if (!isTaken || this.#subscribers.size === 0) return isTaken
        this.#broadcast(feedFrame({ kind: 'earlier', feed: this.id, after, until }))
        for (const page of pagesOf(replaced)) this.#broadcast(pageFrame(this.id, page))
        for (const frame of batchFrames(this.id, batches, 'earlier-batches')) this.#broadcast(frame)
        this.#broadcast(feedFrame({ kind: 'earlier-commit', feed: this.id }))
        return true
      },
    }
  }

  progress(revision: Revision): void {
    this.#trouble = null
    this.#position = revision
    this.#broadcast(this.#progressFrame())
  }

  synced(): void {
    this.#trouble = null
    this.#isSynced = true
    this.#broadcast(this.#syncedFrame())
  }

  confirmed(ageMs: number, validMs: number): void {
    // By the machine's clock, so that time spent in a queue is part of the age.
    const atMs = this.#clock.monotonic() - ageMs
    this.#confirmation = { kind: 'confirmed', feed: this.id, atMs, validMs }
    this.#broadcast(feedFrame(this.#confirmation))
  }

  disconnected(reason: string): void {
    // A worker that joins now must not open watches that a refusal has just ended.
    const isRefused = this.#hasState && this.#trouble?.kind === 'refused'
    this.#trouble = { kind: isRefused ? 'refused' : 'disconnected', feed: this.id, reason }
    this.#broadcast(feedFrame(this.#trouble))
  }

  refused(reason: string, isLasting: boolean): void {
    if (this.#hasState && !isLasting) return this.disconnected(reason)
    this.#trouble = { kind: 'refused', feed: this.id, reason }
    this.#broadcast(feedFrame(this.#trouble))
  }

  #broadcast(frame: Buffer): void {
    for (const subscriber of this.#subscribers.keys()) subscriber.send(this.id, frame)
  }

  #hand(subscriber: RelaySubscriber, reason: ReplaceReason): void {
    this.#subscribers.set(subscriber, reason)
    subscriber.sendAll(this.id, this.#whole(subscriber, reason))
  }

  /** Yields the frames of everything known at the time of the call, as if the feed had just delivered it. */
  #whole(subscriber: RelaySubscriber, reason: ReplaceReason): Generator<Buffer, void, void> {
    const { id } = this
    const { revision, keyValues, batches } = this.#state.replay()
    const position = this.#position
    const after: Buffer[] = []
    if (position > (batches.at(-1)?.revision ?? revision)) after.push(this.#progressFrame())
    // Also after the search: the frame that reports its end may be among those that this state replaces.
    if (this.#isSeeking !== null) after.push(this.#seekingFrame(this.#isSeeking))
    if (this.#isSynced) after.push(this.#syncedFrame())
    after.push(...this.#statusFrames())
    const committed = (): void => {
      if (this.#subscribers.has(subscriber)) this.#subscribers.set(subscriber, null)
    }
    return (function* () {
      yield feedFrame({ kind: 'replace', feed: id, revision, reason })
      for (const page of pagesOf(keyValues)) {
        yield pageFrame(id, page)
      }
      // From here on the worker holds this state, so the next replacement has its own reason.
      committed()
      yield feedFrame({ kind: 'commit', feed: id })
      yield* batchFrames(id, batches)
      yield* after
    })()
  }

  #progressFrame(): Buffer {
    return feedFrame({ kind: 'progress', feed: this.id, revision: this.#position })
  }

  #syncedFrame(): Buffer {
    return feedFrame({ kind: 'synced', feed: this.id, trustsProgress: this.feed.freshness.trustsProgress })
  }

  #seekingFrame(isSeeking: boolean): Buffer {
    return feedFrame({ kind: 'seeking', feed: this.id, isSeeking })
  }

  /** The frames of the last confirmation and the last trouble, if there are any. */
  #statusFrames(): Buffer[] {
    return [this.#confirmation, this.#trouble].flatMap((message) => (message === null ? [] : [feedFrame(message)]))
  }
}

function pageFrame(feed: number, page: readonly KeyValue[]): Buffer {
  return feedFrame({ kind: 'page', feed }, (writer) => writeKeyValues(writer, page), bytesOf(page))
}

/** Returns the reason for a worker to which an earlier replacement is still being sent. */
function worse(unfinished: ReplaceReason | null, reason: ReplaceReason): ReplaceReason {
  if (unfinished === null) return reason
  return SEVERITY.indexOf(unfinished) > SEVERITY.indexOf(reason) ? unfinished : reason
}
