/**
 * Builds the body of a list once and shares it. Requests that arrive while a body is being built share it; finished
 * bodies stay in an LRU bounded by bytes. Fairly shared slots limit the number of different bodies built or sent at
 * once, so a client that sends a storm of different lists gets 429 and cannot fill the memory.
 */
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import { ByteCache } from '../../../support/byte-cache.js'
import type { BodyBudget } from './body-budget.js'
import { type BodyReader, type Pieces, SharedBody } from './shared-body.js'

interface Entry {
  readonly body: SharedBody
  users: number
  readonly leave: () => void
}

export interface BodyUse {
  readonly body: BodyReader
  /** The body itself, for a caller that reads it at its own pace. */
  readonly shared: SharedBody
  /** Releases the body; the caller must call it when the response is sent or abandoned. */
  release(): void
}

/** The client that needs a slot to have a body built. */
export interface Requester {
  readonly identity: string
  readonly signal: AbortSignal
}

/** Memory of a finished body besides its bytes and its key, as measured. */
const ENTRY_BYTES = 1_280

export class BodyCache {
  readonly #finished: ByteCache<string, SharedBody>
  readonly #inUse = new Map<string, Entry>()
  /**
   * For each identity and body, the first request that waits for a slot; the identity's other requests for the body
   * wait behind it.
   */
  readonly #ahead = new Map<string, Promise<void>>()
  /** Requests waiting for a slot, by the key of the body. They stop waiting when another request begins to build it. */
  readonly #awaiting = new Map<string, Set<AbortController>>()
  readonly #semaphore: IdentitySemaphore
  readonly #budget: BodyBudget

  /** @param options `budget` counts the bodies being sent. */
  constructor(options: {
    readonly maxBytes: number
    readonly semaphore: IdentitySemaphore
    readonly budget: BodyBudget
  }) {
    this.#semaphore = options.semaphore
    this.#budget = options.budget
    this.#finished = new ByteCache({
      maxBytes: options.maxBytes,
      sizeOf: (body, key) => body.bytes + ENTRY_BYTES + 2 * key.length,
      entryShare: 1 / 2,
    })
  }

  /** Sets a new limit for the finished bodies; the least recently used beyond it are dropped at once. */
  resize(maxBytes: number): void {
    this.#finished.resize(maxBytes)
  }

  /** Drops the bodies that are not being sent. */
  clear(): void {
    this.#finished.clear()
  }

  /**
   * @param key everything that determines the bytes.
   * @throws TooManyRequestsError; the signal's reason when it aborts.
   */
  async use(key: string, requester: Requester, make: () => Pieces): Promise<BodyUse> {
    while (true) {
      const found = this.#find(key)
      if (found !== null) return found
      if (this.#budget.isSpent) {
        await this.#budget.enter(requester.signal)
        continue
      }
      const leave = this.#semaphore.tryAcquire(requester.identity) ?? (await this.#waitFor(key, requester))
      if (leave === null) continue
      const existing = this.#find(key)
      if (existing === null) return this.#begin(key, make, leave)
      leave()
      return existing
    }
  }

  /**
   * Waits for a slot; returns null when another request begins to build the body, or after waiting behind a request of
   * the same identity.
   */
  async #waitFor(key: string, { identity, signal }: Requester): Promise<(() => void) | null> {
    const place = `${identity}\n${key}`
    const ahead = this.#ahead.get(place)
    if (ahead !== undefined) {
      await ahead
      signal.throwIfAborted()
      return null
    }
    const buildStarted = new AbortController()
    const slot = this.#semaphore.acquire(identity, AbortSignal.any([signal, buildStarted.signal]))
    // The next request follows whether this one succeeds or fails.
    this.#ahead.set(place, slot.then(nothing, nothing))
    const awaiting = this.#awaiting.get(key) ?? new Set()
    this.#awaiting.set(key, awaiting.add(buildStarted))
    try {
      return await slot
    } catch (error) {
      if (buildStarted.signal.aborted && !signal.aborted) return null
      throw error
    } finally {
      this.#ahead.delete(place)
      awaiting.delete(buildStarted)
      if (awaiting.size === 0 && this.#awaiting.get(key) === awaiting) this.#awaiting.delete(key)
    }
  }

  /** Uses a body derived from another one in use, whose slot covers both. */
  useDerived(key: string, make: () => Pieces): BodyUse {
    return this.#find(key) ?? this.#begin(key, make, nothing)
  }

  #find(key: string): BodyUse | null {
    const finished = this.#finished.get(key)
    if (finished !== undefined) return readerOf(finished, nothing)
    const entry = this.#inUse.get(key)
    return entry === undefined || !entry.body.isWhole ? null : this.#join(key, entry)
  }

  #begin(key: string, make: () => Pieces, leave: () => void): BodyUse {
    const body = new SharedBody(make(), this.#budget, (complete) => this.#finished.set(key, complete))
    const entry: Entry = { body, users: 0, leave }
    this.#inUse.set(key, entry)
    for (const buildStarted of this.#awaiting.get(key) ?? []) buildStarted.abort()
    return this.#join(key, entry)
  }

  #join(key: string, entry: Entry): BodyUse {
    entry.users++
    return readerOf(entry.body, () => {
      entry.users--
      if (entry.users > 0) return
      entry.body.abandon()
      entry.body.settle()
      entry.leave()
      if (this.#inUse.get(key) === entry) this.#inUse.delete(key)
    })
  }
}

function readerOf(shared: SharedBody, onRelease: () => void): BodyUse {
  const body = shared.open()
  let isReleased = false
  return {
    body,
    shared,
    release: () => {
      if (isReleased) return
      isReleased = true
      body.close()
      onRelease()
    },
  }
}

const nothing = (): void => {}
