/**
 * Bodies of lists, made once and shared: those being made, by everyone who asks meanwhile; finished ones, in an LRU
 * bounded by bytes. How many different ones may be in the making or on their way at one time is bounded too, so that a
 * storm of different lists costs a 429 and not the memory.
 */
import { LRUCache } from 'lru-cache'
import type { Slots } from './slots.js'
import { type Pieces, SharedBody } from './shared-body.js'

interface Entry {
  readonly body: SharedBody
  users: number
  readonly releaseSlot: () => void
}

export interface BodyUse {
  readonly body: SharedBody
  /** Once, when the answer is sent or given up. */
  release(): void
}

export class BodyCache {
  readonly #finished: LRUCache<string, SharedBody>
  readonly #inUse = new Map<string, Entry>()
  readonly #slots: Slots

  constructor(options: { readonly maxBytes: number; readonly slots: Slots }) {
    this.#slots = options.slots
    this.#finished = new LRUCache({
      maxSize: options.maxBytes,
      // One body may take half of the cache and no more.
      maxEntrySize: Math.ceil(options.maxBytes / 2),
      sizeCalculation: (body: SharedBody) => body.bytes + 256,
    })
  }

  /** Forgets what nobody is being sent. */
  clear(): void {
    this.#finished.clear()
  }

  get bytes(): number {
    return this.#finished.calculatedSize
  }

  /** @param key everything that the bytes depend on. @throws TooManyRequestsError */
  use(key: string, make: () => Pieces): BodyUse {
    return this.#use(key, make, () => this.#slots.take())
  }

  /** A body made of another that is in use: that one's slot is enough. */
  useDerived(key: string, make: () => Pieces): BodyUse {
    return this.#use(key, make, () => () => {})
  }

  #use(key: string, make: () => Pieces, takeSlot: () => () => void): BodyUse {
    const finished = this.#finished.get(key)
    if (finished !== undefined) return { body: finished, release: () => {} }
    let entry = this.#inUse.get(key)
    if (entry === undefined) {
      const releaseSlot = takeSlot()
      const body = new SharedBody(make(), (complete) => this.#finished.set(key, complete))
      entry = { body, users: 0, releaseSlot }
      this.#inUse.set(key, entry)
    }
    entry.users++
    const used = entry
    let isReleased = false
    return {
      body: entry.body,
      release: () => {
        if (isReleased) return
        isReleased = true
        used.users--
        if (used.users > 0) return
        used.body.abandon()
        used.releaseSlot()
        if (this.#inUse.get(key) === used) this.#inUse.delete(key)
      },
    }
  }
}
