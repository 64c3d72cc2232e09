/**
 * Passes one feed of the primary to the workers that need it. Each frame is encoded once for all of them; a worker that
 * subscribes later first gets the state and history kept here.
 *
 * The state is kept raw, as etcd has it, and answers no reads: a read that a worker's cache cannot answer goes to the
 * feed's own freshness source. Each link drops its worker if the worker does not keep up.
 */
import { type Batch, inOwnMemory, type Key, type KeyValue } from '../../engine/model/event.js'
import type { Resource } from '../../engine/model/resource.js'
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import type { RingBounds } from '../../engine/cache/ring-buffer.js'
import type { CheckedCache } from '../../engine/model/checked-cache.js'
import type { FeedMetrics } from '../../engine/model/stage-metrics.js'
import type { FeedSink, ReplaceReason, Replacement } from '../../engine/model/feed-sink.js'
import type { OpenFeed, ResourceFeed } from '../../engine/feed/resource-feed.js'
import { writeKeyValues } from '../key-value-codec.js'
import { FrameWriter } from './frames.js'
import { batchFrames, pagesOf, replaceFrame, ToWorker } from './messages.js'
import { ReplayableState } from './replayable-state.js'

/** A worker, as a relay sees it. */
export interface RelaySubscriber {
  /** Sends a frame after every frame before it. */
  send(feed: number, frame: Buffer): void
  /** Sends frames produced one by one while there is room; frames sent for the same feed meanwhile come after them. */
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
 * The reasons of replacements, the worst last: a worker that has received neither of two completely gets the worse one.
 */
const SEVERITY: readonly ReplaceReason[] = ['coalesce', 'gap', 'history-changed', 'initial']

export class Relay implements FeedSink {
  readonly id: number
  readonly resource: Resource
  readonly prefix: Key
  readonly feed: ResourceFeed
  readonly #clock: Clock
  readonly #state: ReplayableState
  /** Each subscriber with the reason of the replacement still being sent to it; null if there is none. */
  readonly #subscribers = new Map<RelaySubscriber, ReplaceReason | null>()
  #position: Revision = ZERO_REVISION
  #hasState = false
  #isSynced = false
  /** `at` is by the machine's clock, which the workers share, so that time spent in a queue counts too. */
  #confirmation: { readonly at: number; readonly validMs: number } | null = null
  #trouble: { readonly kind: 'disconnected' | 'refused'; readonly reason: string } | null = null

  constructor(options: RelayOptions) {
    const { id, resource, openFeed, metrics, history, clock } = options
    this.id = id
    this.resource = resource
    this.prefix = resource.etcdPrefix
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

  /** Why nothing new arrives while the old state is still served; null when all is well, or when nothing was ever listed. */
  get disconnectedReason(): string | null {
    if (this.#trouble === null || (this.#trouble.kind === 'refused' && !this.#hasState)) return null
    return this.#trouble.reason
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
    else {
      if (this.#confirmation !== null) subscriber.send(this.id, this.#confirmedFrame(this.#confirmation))
      if (this.#trouble !== null) subscriber.send(this.id, this.#troubleFrame(this.#trouble))
    }
  }

  unsubscribe(subscriber: RelaySubscriber): void {
    this.#subscribers.delete(subscriber)
  }

  // Calls from the feed (FeedSink)

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
    for (const frame of batchFrames(this.id, batches)) this.#tell(frame)
  }

  progress(revision: Revision): void {
    this.#trouble = null
    this.#position = revision
    this.#tell(this.#progressFrame())
  }

  synced(): void {
    this.#trouble = null
    this.#isSynced = true
    this.#tell(this.#syncedFrame())
  }

  confirmed(ageMs: number, validMs: number): void {
    this.#confirmation = { at: this.#clock.monotonic() - ageMs, validMs }
    this.#tell(this.#confirmedFrame(this.#confirmation))
  }

  disconnected(reason: string): void {
    this.#trouble = { kind: 'disconnected', reason }
    this.#tell(this.#troubleFrame(this.#trouble))
  }

  refused(reason: string): void {
    this.#trouble = { kind: 'refused', reason }
    this.#tell(this.#troubleFrame(this.#trouble))
  }

  #tell(frame: Buffer): void {
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
    if (this.#isSynced) after.push(this.#syncedFrame())
    if (this.#confirmation !== null) after.push(this.#confirmedFrame(this.#confirmation))
    if (this.#trouble !== null) after.push(this.#troubleFrame(this.#trouble))
    const committed = (): void => {
      if (this.#subscribers.has(subscriber)) this.#subscribers.set(subscriber, null)
    }
    return (function* () {
      yield replaceFrame(id, revision, reason)
      for (const page of pagesOf(keyValues)) yield writeKeyValues(new FrameWriter(ToWorker.page).count(id), page).done()
      // From here on the worker holds this state: the next replacement has its own reason.
      committed()
      yield new FrameWriter(ToWorker.commit).count(id).done()
      yield* batchFrames(id, batches)
      yield* after
    })()
  }

  #progressFrame(): Buffer {
    return new FrameWriter(ToWorker.progress).count(this.id).number(this.#position).done()
  }

  #syncedFrame(): Buffer {
    return new FrameWriter(ToWorker.synced)
      .count(this.id)
      .byte(this.feed.freshness.trustsProgress ? 1 : 0)
      .done()
  }

  #confirmedFrame({ at, validMs }: { readonly at: number; readonly validMs: number }): Buffer {
    return new FrameWriter(ToWorker.confirmed).count(this.id).number(at).number(validMs).done()
  }

  #troubleFrame({ kind, reason }: { readonly kind: 'disconnected' | 'refused'; readonly reason: string }): Buffer {
    return new FrameWriter(ToWorker[kind]).count(this.id).text(reason).done()
  }
}

/** Returns the reason for a worker to which an earlier replacement is still being sent. */
function worse(unfinished: ReplaceReason | null, reason: ReplaceReason): ReplaceReason {
  if (unfinished === null) return reason
  return SEVERITY.indexOf(unfinished) > SEVERITY.indexOf(reason) ? unfinished : reason
}
