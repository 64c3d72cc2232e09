/**
 * The watches of an embedded store, and the delivery of events and progress to them.
 *
 * A watch is a cursor into the store's log, without a queue. So a slow watch costs nothing and, as in etcd, ends with
 * `compacted` when the history that it still needs is gone. Handlers are never called from inside `watch()`, a write or
 * `close()`. Instead, a pass in a later turn of the event loop delivers to each watch everything that has accumulated
 * since the last pass.
 */
import { type Batch, eventKey, type Key, type KeyEvent } from '../../model/event.js'
import { nextRevision, type Revision, toRevision } from '../../model/revision.js'
import type { Clock, Timer } from '../../../support/clock.js'
import {
  type UpstreamWatch,
  UpstreamError,
  type WatchEnd,
  type WatchHandlers,
  type UpstreamWatchOptions,
} from '../upstream.js'
import type { MvccStore } from './mvcc-store.js'

export interface HubWatch {
  readonly prefix: Key
  readonly handlers: WatchHandlers
  /** The first revision that has not been delivered yet. */
  next: Revision
  isOpen: boolean
  isClosed: boolean
  end: WatchEnd | null
  wantsProgress: boolean
  /** Whether nothing has been delivered since the progress timer last fired. */
  isQuiet: boolean
}

/**
 * How many revisions are examined for one watch before it is the next watch's turn, because a long replay must not
 * block the event loop.
 */
const scanRevisions = 4096

export class WatchHub {
  protected store: MvccStore
  protected readonly watches = new Set<HubWatch>()
  readonly #clock: Clock
  readonly #progressIntervalMs: number
  #isScheduled = false
  #isClosed = false
  #progressTimer: Timer | null = null

  /** @param progressIntervalMs the interval at which quiet watches get a progress notification. */
  constructor(store: MvccStore, clock: Clock, progressIntervalMs: number) {
    this.store = store
    this.#clock = clock
    this.#progressIntervalMs = progressIntervalMs
  }

  watch({ prefix, startRevision }: UpstreamWatchOptions, handlers: WatchHandlers): UpstreamWatch {
    const error = this.#isClosed ? new UpstreamError('unavailable', 'the embedded store is closed') : null
    const watch: HubWatch = {
      prefix,
      handlers,
      // 0 means the next revision, as in etcd.
      next: startRevision === 0 ? nextRevision(this.store.revision) : startRevision,
      isOpen: false,
      isClosed: false,
      // Like everything else, an error is reported in a later turn of the event loop.
      end: error === null ? null : { kind: 'failed', error },
      wantsProgress: false,
      isQuiet: false,
    }
    this.watches.add(watch)
    this.#startProgressTimer()
    this.wake()
    return {
      requestProgress: () => {
        if (watch.isClosed) return
        watch.wantsProgress = true
        this.wake()
      },
      close: () => this.#close(watch),
    }
  }

  /** Schedules a pass, because there is something new to deliver. */
  wake(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.later(() => {
      this.#isScheduled = false
      for (const watch of this.watches) this.#deliver(watch)
    })
  }

  /** Whether a pass is scheduled. */
  protected get isScheduled(): boolean {
    return this.#isScheduled
  }

  /** Runs a pass in a later turn of the event loop. */
  protected later(pass: () => void): void {
    setImmediate(pass)
  }

  /** Whether anything may be delivered to the watch now. */
  protected isDeliverable(_watch: HubWatch): boolean {
    return true
  }

  close(): void {
    this.#isClosed = true
    this.#progressTimer?.cancel()
    this.#progressTimer = null
    for (const watch of this.watches) watch.isClosed = true
    this.watches.clear()
  }

  #deliver(watch: HubWatch): void {
    if (watch.end !== null) return this.#end(watch, watch.end)
    if (!this.isDeliverable(watch)) return
    if (!watch.isOpen) {
      watch.isOpen = true
      watch.handlers.onOpen()
      if (watch.isClosed || watch.end !== null) return
    }
    const { compactRevision, revision } = this.store
    if (watch.next < compactRevision) return this.#end(watch, { kind: 'compacted', compactRevision })
    const last = Math.min(revision, watch.next + scanRevisions - 1)
    const batches: Batch[] = []
    for (let at: number = watch.next; at <= last; at++) {
      const batch = this.store.batchAt(toRevision(at))
      const under = batch === undefined ? null : batchUnder(batch, watch.prefix)
      if (under !== null) batches.push(under)
    }
    if (last >= watch.next) watch.next = toRevision(last + 1)
    if (batches.length > 0) {
      watch.isQuiet = false
      watch.handlers.onBatches(batches)
    }
    if (last < revision) return this.wake()
    if (watch.wantsProgress) this.#sendProgress(watch, revision)
  }

  /**
   * Sends progress only to a watch at the head. A watch of a future revision gets none, because it has not received the
   * events before its start.
   */
  #sendProgress(watch: HubWatch, revision: Revision): void {
    if (watch.isClosed || watch.end !== null || watch.next !== revision + 1) return
    watch.wantsProgress = false
    watch.isQuiet = false
    watch.handlers.onProgress(revision)
  }

  #end(watch: HubWatch, end: WatchEnd): void {
    this.#close(watch)
    watch.handlers.onEnd(end)
  }

  #close(watch: HubWatch): void {
    watch.isClosed = true
    this.watches.delete(watch)
    if (this.watches.size > 0) return
    this.#progressTimer?.cancel()
    this.#progressTimer = null
  }

  #startProgressTimer(): void {
    if (this.#isClosed) return
    this.#progressTimer ??= this.#clock.setTimer(this.#progressIntervalMs, () => {
      this.#progressTimer = null
      if (this.watches.size === 0) return
      for (const watch of this.watches) {
        if (watch.isQuiet) watch.wantsProgress = true
        watch.isQuiet = true
      }
      this.#startProgressTimer()
      this.wake()
    })
  }
}

/**
 * Returns the part of a batch under a prefix; null if that is empty. If all events are under the prefix, returns the
 * batch itself.
 */
function batchUnder(batch: Batch, prefix: Key): Batch | null {
  const { events } = batch
  if (events.length === 1) return isUnder(events[0] as KeyEvent, prefix) ? batch : null
  const under = events.filter((event) => isUnder(event, prefix))
  if (under.length === events.length) return batch
  return under.length === 0 ? null : { revision: batch.revision, events: under }
}

function isUnder(event: KeyEvent, prefix: Key): boolean {
  return eventKey(event).startsWith(prefix)
}
