/** One handler of an informer: its queue, and the loop that empties it. */
import { type Deferred, deferred } from './deferred.js'
import { HandlerQueue, type Notification } from './handler-queue.js'

/** Each may be async: the next notification of this handler waits for it, other handlers do not. */
export interface Handler<T> {
  /** @param isInitial it was there when the handler was added, or in the informer's first state. */
  added?(object: T, isInitial: boolean): void | Promise<void>
  /** Also for a resync, with the same object twice. */
  updated?(object: T, previous: T): void | Promise<void>
  /** @param isFinalStateUnknown `object` is the last that was known; its deletion itself was not seen. */
  deleted?(object: T, isFinalStateUnknown: boolean): void | Promise<void>
}

export interface HandlerOptions {
  /**
   * Notifications kept exactly as they happened; beyond that several of one object become one, so that no more wait than
   * this and the objects there are. Default: 1,024.
   */
  readonly maxQueued?: number
  /** What a handler throws. Default: it is logged. The next notification follows all the same. */
  onError?(error: unknown): void
}

export class HandlerRegistration<T> {
  readonly #handler: Handler<T>
  readonly #queue: HandlerQueue<T>
  readonly #onError: (error: unknown) => void
  readonly #onRemove: () => void
  #isRunning = false
  #isRemoved = false
  #isInitialQueued = false
  /** Initial notifications that have not been handled. */
  #initialLeft = 0
  readonly #synced: Deferred<void> = deferred()

  /** For the informer only. */
  constructor(handler: Handler<T>, options: HandlerOptions, onError: (error: unknown) => void, onRemove: () => void) {
    this.#handler = handler
    this.#queue = new HandlerQueue(options.maxQueued ?? 1_024)
    this.#onError = (error) => (options.onError === undefined ? onError(error) : options.onError(error))
    this.#onRemove = onRemove
  }

  /** The handler has handled everything that was there at first. */
  get hasSynced(): boolean {
    return this.#isInitialQueued && this.#initialLeft === 0
  }

  /** Resolves when `hasSynced`, and when the handler is removed before. */
  get synced(): Promise<void> {
    return this.#synced.promise
  }

  /** Notifications that wait. */
  get queued(): number {
    return this.#queue.length
  }

  /** Notifications that were merged because too many waited. */
  get coalesced(): number {
    return this.#queue.coalesced
  }

  /** It hears nothing more, also not of what waits; a call that runs is not interrupted. */
  remove(): void {
    if (this.#isRemoved) return
    this.#isRemoved = true
    this.#queue.clear()
    this.#synced.resolve()
    this.#onRemove()
  }

  /** For the informer only. */
  notify(notification: Notification<T>): void {
    if (this.#isRemoved) return
    if (notification.type === 'added' && notification.isInitial) this.#initialLeft++
    this.#queue.push(notification)
    if (this.#isRunning) return
    this.#isRunning = true
    // Not here: the informer goes on first, and every handler sees the store as it is after the change.
    queueMicrotask(() => void this.#drain())
  }

  /** For the informer only: everything that is initial has been notified. */
  initialQueued(): void {
    this.#isInitialQueued = true
    this.#settle()
  }

  async #drain(): Promise<void> {
    for (let item = this.#queue.shift(); item !== null; item = this.#queue.shift()) {
      try {
        const handled = this.#call(item)
        if (handled !== undefined) await handled
      } catch (error) {
        this.#onError(error)
      }
      if (item.type === 'added' && item.isInitial) this.#initialLeft--
    }
    this.#isRunning = false
    // Initial ones that were merged away have been handled too: nothing waits any more.
    this.#initialLeft = 0
    this.#settle()
  }

  #settle(): void {
    if (this.hasSynced) this.#synced.resolve()
  }

  #call(item: Notification<T>): void | Promise<void> {
    const handler = this.#handler
    if (item.type === 'added') return handler.added?.(item.object, item.isInitial)
    if (item.type === 'updated') return handler.updated?.(item.object, item.previous)
    return handler.deleted?.(item.object, item.isFinalStateUnknown)
  }
}
