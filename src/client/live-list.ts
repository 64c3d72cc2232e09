/**
 * A resource as a page shows it. It runs one informer while it has subscribers, and offers a snapshot that changes only
 * when the visible content changes. The hooks of `distributary/react` are made for this class; other frameworks use
 * `subscribe` and `read` in the same way.
 *
 * The informer starts with the first subscriber and stops a moment after the last one has left, so that a component
 * that is mounted again at once (by React's StrictMode or on another page) finds the informer still running.
 */
import type { Timer } from '../support/clock.js'
import { type ListSnapshot, NOTHING, type ObjectSnapshot } from './live-snapshot.js'
import { activeClock } from './reflector/active-clock.js'
import { notifyUser } from './reflector/notify-user.js'
import { objectKey } from './reflector/object-codec.js'
import type { KubeObject, ObjectLike } from './reflector/tree-codec.js'
import { type InformerOptions, SharedInformer } from './shared-informer.js'
import type { InvalidObject } from './values.js'

/** The options of the informer, and how long it runs without subscribers. */
export interface LiveListOptions<T extends ObjectLike = KubeObject> extends InformerOptions<T> {
  /** How long the resource is still followed after the last subscriber has left. Default: 5 s. */
  readonly lingerMs?: number
}

/** A resource as a page shows it. */
export class LiveList<T extends ObjectLike = KubeObject> {
  readonly #options: LiveListOptions<T>
  readonly #listeners = new Set<() => void>()
  #informer: SharedInformer<T> | null = null
  #linger: Timer | null = null
  #flush: Timer | null = null
  #snapshot: ListSnapshot<T> = NOTHING
  /** The objects in the snapshot, by key. */
  #objects: ReadonlyMap<string, T> = new Map()
  #isClosed = false

  constructor(options: LiveListOptions<T>) {
    this.#options = options
  }

  /** Returns the current view. It is the same object until the view changes. */
  readonly read = (): ListSnapshot<T> => this.#snapshot

  /**
   * Calls `listener` whenever the result of `read` changes. The informer runs while there are subscribers.
   * @returns a function that unsubscribes.
   */
  readonly subscribe = (listener: () => void): (() => void) => {
    // The same function may subscribe twice.
    const own = (): void => listener()
    this.#listeners.add(own)
    this.#linger?.cancel()
    this.#linger = null
    if (this.#informer === null && !this.#isClosed) this.#start()
    return () => {
      if (!this.#listeners.delete(own) || this.#listeners.size > 0) return
      this.#linger = (this.#options.clock ?? activeClock).setTimer(this.#options.lingerMs ?? 5_000, () => {
        this.#linger = null
        void this.#stop()
      })
    }
  }

  /** Returns a function like `read` for one object. It returns the same snapshot until that object changes. */
  reader(name: string, namespace?: string): () => ObjectSnapshot<T> {
    const key = objectKey(namespace, name)
    let last: ObjectSnapshot<T> | null = null
    return () => {
      const { isLoaded, isLive, isRefused, reason } = this.#snapshot
      const invalid = this.#snapshot.invalid.find((one) => one.key === key)
      const object = this.#objects.get(key)
      const isSame =
        last !== null &&
        last.object === object &&
        last.invalid === invalid &&
        last.isLoaded === isLoaded &&
        last.isLive === isLive &&
        last.isRefused === isRefused &&
        last.reason === reason
      if (!isSame) last = { object, invalid, isLoaded, isLive, isRefused, reason }
      return last as ObjectSnapshot<T>
    }
  }

  /**
   * Closes the list for good and shows nothing any more. Use this when the user has logged out. Resolves when nothing
   * is running any more.
   */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#linger?.cancel()
    const stopping = this.#stop()
    this.#objects = new Map()
    this.#show(NOTHING)
    await stopping
  }

  #start(): void {
    const changed = (): void => this.#changed()
    const options = this.#options
    const informer: SharedInformer<T> = new SharedInformer<T>({
      ...options,
      onStatus: (status) => {
        changed()
        return options.onStatus?.(status)
      },
      onInvalid: (key, invalid) => {
        changed()
        return options.onInvalid?.(key, invalid)
      },
    })
    this.#informer = informer
    informer.addHandler({ added: changed, updated: changed, deleted: changed })
    informer.whenSynced().then(changed, () => undefined)
    informer.start()
  }

  async #stop(): Promise<void> {
    const informer = this.#informer
    this.#informer = null
    this.#flush?.cancel()
    this.#flush = null
    if (this.#snapshot.isLive) this.#show({ ...this.#snapshot, isLive: false })
    await informer?.stop()
  }

  /** All changes of one turn of the event loop are shown together. */
  #changed(): void {
    if (this.#informer === null) return
    // If access was refused, hide the content at once instead of with the next flush.
    if (this.#informer.status.isRefused) return this.#take()
    this.#flush ??= (this.#options.clock ?? activeClock).setTimer(0, () => this.#take())
  }

  #take(): void {
    this.#flush?.cancel()
    this.#flush = null
    const informer = this.#informer
    if (informer === null) return
    const { isLive, isRefused, reason } = informer.status
    if (isRefused) {
      this.#objects = new Map()
      return this.#show({ ...NOTHING, isRefused, reason })
    }
    // Until this informer has a state, the last state of an earlier informer stays visible.
    if (!informer.hasSynced) return this.#show({ ...this.#snapshot, isLive: false, isRefused, reason })
    const entries = [...informer.store.entries()].toSorted(byKey)
    const invalid = [...informer.invalid.values()].toSorted((a, b) => (a.key < b.key ? -1 : 1))
    this.#objects = new Map(entries)
    this.#show({
      items: sameOr(
        this.#snapshot.items,
        entries.map(([, object]) => object),
      ),
      invalid: sameOr<InvalidObject>(this.#snapshot.invalid, invalid),
      isLoaded: true,
      isLive,
      isRefused,
      reason,
    })
  }

  #show(snapshot: ListSnapshot<T>): void {
    const before = this.#snapshot
    const names = Object.keys(snapshot) as (keyof ListSnapshot<T>)[]
    if (names.every((name) => snapshot[name] === before[name])) return
    this.#snapshot = snapshot
    for (const listener of this.#listeners) notifyUser('a listener', this.#options.logger, listener)
  }
}

function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return a < b ? -1 : 1
}

/** Returns the previous array if its elements are the same, so that nothing that depends on the array is recomputed. */
function sameOr<E>(before: readonly E[], now: readonly E[]): readonly E[] {
  return before.length === now.length && now.every((one, i) => one === before[i]) ? before : now
}
