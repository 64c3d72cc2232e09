/**
 * What one handler has still to be told. A handler that takes its time (an async one) holds up nobody else: its
 * notifications wait here, exactly as they happened up to `maxQueued`, and beyond that as one per object, what it was
 * when the handler last heard of it and what it is now. So the queue never holds more than `maxQueued` and the objects.
 */
export type Notification<T> =
  | { readonly type: 'added'; readonly key: string; readonly object: T; readonly isInitial: boolean }
  | { readonly type: 'updated'; readonly key: string; readonly object: T; readonly previous: T }
  | { readonly type: 'deleted'; readonly key: string; readonly object: T; readonly isFinalStateUnknown: boolean }

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

  constructor(maxQueued: number) {
    this.#maxQueued = maxQueued
  }

  get length(): number {
    return this.#length
  }

  /** Notifications that were merged into a waiting one. */
  get coalesced(): number {
    return this.#coalesced
  }

  push(notification: Notification<T>): void {
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
  }

  shift(): Notification<T> | null {
    const entry = this.#head
    if (entry === null) return null
    this.#remove(entry)
    return entry.notification
  }

  clear(): void {
    this.#head = null
    this.#tail = null
    this.#last.clear()
    this.#length = 0
  }

  /** false when the two must both be told. */
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
      // It came and went unseen.
      this.#remove(entry)
      return true
    }
    if (later.type === 'added' && earlier.type === 'deleted') {
      // The handler holds the earlier object: to it, this is a change of it.
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
