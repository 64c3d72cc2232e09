/** One handler of an informer: its queue, and the loop that empties it. */
import { type Deferred, deferred } from './deferred.js'
import { HandlerQueue, type Notification } from './handler-queue.js'

/** Each method may be async. The next notification of this handler then waits for it, but other handlers do not. */
export interface Handler<T> {
  /** @param isInitial whether the object existed when the handler was added, or was in the informer's first state. */
  added?(object: T, isInitial: boolean): void | Promise<void>
  /** Also called for a resync, with the same object twice. */
  updated?(object: T, previous: T): void | Promise<void>
  /**
   * @param isFinalStateUnknown whether `object` is only the last known state, because the deletion itself was not seen.
   */
  deleted?(object: T, isFinalStateUnknown: boolean): void | Promise<void>
}

/** How a handler is called. */
export interface HandlerOptions {
  /**
   * How many notifications are queued exactly as they happened. Beyond that, the notifications of one object are
   * merged, so at most this many plus one per object wait. Default: 1,024.
   */
  readonly maxQueued?: number
  /** Called with an error thrown by a handler. Default: the informer's `onHandlerError`. Either way, the next notification follows. */
  onError?(error: unknown): void
}

/** A handler that was added to an informer: its progress, and how to remove it. */
export class HandlerRegistration<T> {
  readonly #handler: Handler<T>
  readonly #queue: HandlerQueue<T>
  readonly #onError: (error: unknown) => void
  readonly #onRemove: () => void
  #isInitialQueued = false
  /** The number of initial notifications not handled yet. */
  #initialLeft = 0
  readonly #synced: Deferred<void> = deferred()

  /** For the informer only. @param onError must not throw. */
  constructor(handler: Handler<T>, maxQueued: number, onError: (error: unknown) => void, onRemove: () => void) {
    this.#handler = handler
    this.#queue = new HandlerQueue(maxQueued)
    this.#onError = onError
    this.#onRemove = onRemove
    void this.#run()
  }

  /** Whether the handler has processed all initial notifications. */
  get hasSynced(): boolean {
    return this.#isInitialQueued && this.#initialLeft === 0
  }

  /** Resolves when `hasSynced`, or when the handler is removed first. */
  get synced(): Promise<void> {
    return this.#synced.promise
  }

  /** The number of waiting notifications. */
  get queued(): number {
    return this.#queue.length
  }

  /** The number of notifications that were merged because too many waited. */
  get coalesced(): number {
    return this.#queue.coalesced
  }

  /** Stops all notifications, including waiting ones; a running call is not interrupted. */
  remove(): void {
    this.#queue.end()
    this.#synced.resolve()
    this.#onRemove()
  }

  /** For the informer only. */
  notify(notification: Notification<T>): void {
    if (notification.type === 'added' && notification.isInitial) this.#initialLeft++
    this.#queue.push(notification)
  }

  /** For the informer only: all initial notifications have been queued. */
  initialQueued(): void {
    this.#isInitialQueued = true
    this.#settle()
  }

  /**
   * Handlers are called asynchronously, after the informer has finished the change, so each handler sees the store as
   * it is after the change.
   */
  async #run(): Promise<void> {
    for (let item = await this.#queue.take(); item !== null; item = await this.#queue.take()) {
      // Another handler may have removed this one in the meantime.
      if (this.#queue.isEnded) return
      try {
        const handled = this.#call(item)
        if (handled !== undefined) await handled
      } catch (error) {
        this.#onError(error)
      }
      if (item.type === 'added' && item.isInitial) this.#initialLeft--
      if (this.#queue.length > 0) continue
      // Nothing is waiting, so initial notifications that were merged away count as handled.
      this.#initialLeft = 0
      this.#settle()
    }
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
