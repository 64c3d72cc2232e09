/**
 * The notifications that one handler, or one `events()`, has yet to receive. They wait here, so that a slow (async)
 * handler does not delay the others. Up to `maxQueued` of them are kept exactly as they happened. Beyond that, the
 * notifications of an object are merged into one, from the object that the handler last saw to the current one. So the
 * queue never has more than `maxQueued` entries plus one per object.
 */
export type Notification<T> =
  | { readonly type: 'added'; readonly key: string; readonly object: T; readonly isInitial: boolean }
  | { readonly type: 'updated'; readonly key: string; readonly object: T; readonly previous: T }
  | { readonly type: 'deleted'; readonly key: string; readonly object: T; readonly isFinalStateUnknown: boolean }

/** The default of `maxQueued`. */
export const MAX_QUEUED = 1_024

interface Entry<T> {
  notification: Notification<T>
  previous: Entry<T> | null
  next: Entry<T> | null
}

export class HandlerQueue<T> {
  readonly #maxQueued: number
  #head: Entry<T> | null = null
  #tail: Entry<T> | null = null
  /** The newest entry of each key. */
  readonly #last = new Map<string, Entry<T>>()
  #length = 0
  #coalesced = 0
  #isEnded = false
  /** Ends the wait of `take`. */
  #wake: (() => void) | null = null

  constructor(maxQueued: number) {
    this.#maxQueued = maxQueued
  }

  get length(): number {
    return this.#length
  }

  /** The number of notifications that were merged into a waiting one. */
  get coalesced(): number {
    return this.#coalesced
  }

  get isEnded(): boolean {
    return this.#isEnded
  }

  push(notification: Notification<T>): void {
    if (this.#isEnded) return
    const waiting = this.#last.get(notification.key)
    if (this.#length >= this.#maxQueued && waiting !== undefined && this.#merge(waiting, notification)) {
      this.#coalesced++
      return
    }
    const entry: Entry<T> = { notification, previous: this.#tail, next: null }
    if (this.#tail === null) this.#head = entry
    else this.#tail.next = entry
    this.#tail = entry
    this.#last.set(notification.key, entry)
    this.#length++
    this.#wake?.()
  }

  /** Returns the next notification, once there is one; null after `end`. Only one call may wait. */
  async take(): Promise<Notification<T> | null> {
    while (this.#head === null && !this.#isEnded) await new Promise<void>((resolve) => (this.#wake = resolve))
    this.#wake = null
    const entry = this.#head
    if (entry === null) return null
    this.#remove(entry)
    return entry.notification
  }

  /** Drops all waiting notifications, and all later ones. */
  end(): void {
    this.#isEnded = true
    this.#head = null
    this.#tail = null
    this.#last.clear()
    this.#length = 0
    this.#wake?.()
  }

  /** Merges two notifications of one object. Returns false if both must be delivered. */
  #merge(entry: Entry<T>, later: Notification<T>): boolean {
    const earlier = entry.notification
    if (later.type === 'updated' && earlier.type !== 'deleted') {
      entry.notification = { ...earlier, object: later.object }
      return true
    }
    if (later.type === 'deleted' && earlier.type === 'updated') {
      entry.notification = later
      return true
    }
    if (later.type === 'deleted' && earlier.type === 'added') {
      // The object was created and deleted before the handler was notified of it.
      this.#remove(entry)
      return true
    }
    if (later.type === 'added' && earlier.type === 'deleted') {
      // The handler knows the earlier object, so to the handler this is a change.
      entry.notification = { type: 'updated', key: later.key, object: later.object, previous: earlier.object }
      return true
    }
    return false
  }

  #remove(entry: Entry<T>): void {
    if (entry.previous === null) this.#head = entry.next
    else entry.previous.next = entry.next
    if (entry.next === null) this.#tail = entry.previous
    else entry.next.previous = entry.previous
    const { key } = entry.notification
    if (this.#last.get(key) === entry) this.#last.delete(key)
    this.#length--
  }
}
