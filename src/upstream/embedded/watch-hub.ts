/**
 * The watches of an embedded store: who is told what, and when.
 *
 * A watch is a cursor into the store's log, not a queue, so a watch that is held costs nothing and, as in etcd, is ended
 * with `compacted` when the history it still needs is gone. Handlers are never called from inside `watch()`, a write or
 * `close()`: a pass runs in a later turn of the event loop and hands each watch everything that gathered since.
 */
import type { Batch, Key, KeyEvent } from '../../model/event.js'
import { nextRevision, type Revision, toRevision } from '../../model/revision.js'
import type { Clock, Timer } from '../../support/clock.js'
import {
  type UpstreamWatch,
  UpstreamError,
  type WatchEnd,
  type WatchHandlers,
  type UpstreamWatchOptions,
} from '../upstream.js'
import type { MvccStore } from './mvcc-store.js'

export interface WatchHubOptions {
  readonly clock: Clock
  /** Whether `requestProgress` is answered. Told periodically it is always right. */
  readonly trustsProgress: boolean
  /** A watch that was sent nothing for this long is sent its progress, in milliseconds. */
  readonly progressIntervalMs: number
}

interface Watch {
  readonly prefix: Key
  readonly handlers: WatchHandlers
  /** The first revision that has not been handed over. */
  next: Revision
  isOpen: boolean
  isClosed: boolean
  end: WatchEnd | null
  wantsProgress: boolean
  /** Sent nothing since the last periodic progress. */
  isQuiet: boolean
}

/** Revisions looked at for one watch before others have their turn: a deep replay must not hold up the event loop. */
const scanRevisions = 4096

export class WatchHub {
  readonly #options: WatchHubOptions
  #store: MvccStore
  readonly #watches = new Set<Watch>()
  readonly #held = new Set<Key>()
  #isStalled = false
  #deliveryDelayMs = 0
  #isScheduled = false
  #isClosed = false
  #progressTimer: Timer | null = null
  #idleCallbacks: (() => void)[] = []

  constructor(store: MvccStore, options: WatchHubOptions) {
    this.#store = store
    this.#options = options
  }

  get size(): number {
    return this.#watches.size
  }

  /** @param refusal why the watch cannot be had: it is told so in `onEnd`, as everything else is told, later. */
  watch(
    { prefix, startRevision }: UpstreamWatchOptions,
    handlers: WatchHandlers,
    refusal: UpstreamError | null = null,
  ): UpstreamWatch {
    const error = this.#isClosed ? new UpstreamError('unavailable', 'the embedded store is closed') : refusal
    const watch: Watch = {
      prefix,
      handlers,
      // 0 means "what comes next", as in etcd.
      next: startRevision === 0 ? nextRevision(this.#store.revision) : startRevision,
      isOpen: false,
      isClosed: false,
      end: error === null ? null : { kind: 'failed', error },
      wantsProgress: false,
      isQuiet: false,
    }
    this.#watches.add(watch)
    this.#startProgressTimer()
    this.wake()
    return {
      requestProgress: () => {
        if (watch.isClosed || !this.#options.trustsProgress) return
        watch.wantsProgress = true
        this.wake()
      },
      close: () => this.#close(watch),
    }
  }

  /** There is something new to hand over: a pass will run. */
  wake(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    const pass = (): void => {
      this.#isScheduled = false
      this.#pass()
      if (this.#isScheduled) return
      for (const callback of this.#idleCallbacks.splice(0)) callback()
    }
    if (this.#deliveryDelayMs === 0) setImmediate(pass)
    else this.#options.clock.setTimer(this.#deliveryDelayMs, pass)
  }

  /** Resolves when everything that can be handed over now has been. */
  delivered(): Promise<void> {
    if (!this.#isScheduled) return Promise.resolve()
    return new Promise((resolve) => this.#idleCallbacks.push(resolve))
  }

  /** Every running watch ends as when its connection breaks; what it had not been handed is not handed over. */
  cut(error: UpstreamError): void {
    for (const watch of this.#watches) watch.end ??= { kind: 'failed', error }
    this.wake()
  }

  /** Watches whose prefix starts with `prefix` are handed nothing until it is released. */
  hold(prefix: Key): void {
    this.#held.add(prefix)
  }

  release(prefix?: Key): void {
    if (prefix === undefined) this.#held.clear()
    else this.#held.delete(prefix)
    this.wake()
  }

  /** A stalled hub hands over nothing at all: the connection is there, the bytes are not. */
  setStalled(isStalled: boolean): void {
    this.#isStalled = isStalled
    this.wake()
  }

  setDeliveryDelay(delayMs: number): void {
    this.#deliveryDelayMs = delayMs
  }

  /** Goes on with another history; the caller cuts the watches of the old one. */
  replaceStore(store: MvccStore): void {
    this.#store = store
  }

  close(): void {
    this.#isClosed = true
    this.#progressTimer?.cancel()
    this.#progressTimer = null
    for (const watch of this.#watches) watch.isClosed = true
    this.#watches.clear()
  }

  #pass(): void {
    for (const watch of this.#watches) this.#deliver(watch)
  }

  #deliver(watch: Watch): void {
    if (watch.end !== null) return this.#end(watch, watch.end)
    if (this.#isStalled || this.#isHeld(watch.prefix)) return
    if (!watch.isOpen) {
      watch.isOpen = true
      watch.handlers.onOpen()
      if (watch.isClosed || watch.end !== null) return
    }
    const { compactRevision, revision } = this.#store
    if (watch.next < compactRevision) return this.#end(watch, { kind: 'compacted', compactRevision })
    const last = Math.min(revision, watch.next + scanRevisions - 1)
    const batches: Batch[] = []
    for (let at: number = watch.next; at <= last; at++) {
      const batch = this.#store.batchAt(toRevision(at))
      const under = batch === undefined ? null : batchUnder(batch, watch.prefix)
      if (under !== null) batches.push(under)
    }
    if (last >= watch.next) watch.next = toRevision(last + 1)
    if (batches.length > 0) {
      watch.isQuiet = false
      watch.handlers.onBatches(batches)
    }
    if (last < revision) return this.wake()
    if (watch.wantsProgress) this.#tellProgress(watch, revision)
  }

  /** Only at the head, and not to a watch of the future, which has not been handed what lies before its start. */
  #tellProgress(watch: Watch, revision: Revision): void {
    if (watch.isClosed || watch.end !== null || watch.next !== revision + 1) return
    watch.wantsProgress = false
    watch.isQuiet = false
    watch.handlers.onProgress(revision)
  }

  #end(watch: Watch, end: WatchEnd): void {
    this.#close(watch)
    watch.handlers.onEnd(end)
  }

  #close(watch: Watch): void {
    watch.isClosed = true
    this.#watches.delete(watch)
    if (this.#watches.size > 0) return
    this.#progressTimer?.cancel()
    this.#progressTimer = null
  }

  #isHeld(prefix: Key): boolean {
    for (const held of this.#held) if (prefix.startsWith(held)) return true
    return false
  }

  #startProgressTimer(): void {
    if (this.#isClosed) return
    this.#progressTimer ??= this.#options.clock.setTimer(this.#options.progressIntervalMs, () => {
      this.#progressTimer = null
      if (this.#watches.size === 0) return
      for (const watch of this.#watches) {
        if (watch.isQuiet) watch.wantsProgress = true
        watch.isQuiet = true
      }
      this.#startProgressTimer()
      this.wake()
    })
  }
}

/** The part of a batch that lies under a prefix; the batch itself, uncopied, when that is all of it. */
function batchUnder(batch: Batch, prefix: Key): Batch | null {
  const { events } = batch
  if (events.length === 1) return isUnder(events[0] as KeyEvent, prefix) ? batch : null
  const under = events.filter((event) => isUnder(event, prefix))
  if (under.length === events.length) return batch
  return under.length === 0 ? null : { revision: batch.revision, events: under }
}

function isUnder(event: KeyEvent, prefix: Key): boolean {
  return (event.type === 'put' ? event.keyValue.key : event.key).startsWith(prefix)
}
