/**
 * Keeps a local copy of a resource that follows the server, and notifies any number of handlers of its changes.
 *
 *     reflector ──▶ store (Indexer) ──▶ a queue per handler ──▶ handlers
 *
 * The store is changed before its handlers are notified, so a handler that reads the store finds the object of its
 * notification or a newer version. Handlers may be added and removed at any time. A handler that is added late is first
 * notified of all present objects. Objects are shared and must not be changed.
 */
import { Reflector, type ReflectorOptions, type ReflectorStatus, type ReflectorStore } from './reflector/reflector.js'
import { type KubeObject, type ObjectLike, treeCodec } from './reflector/tree-codec.js'
import type { Timer } from '../support/clock.js'
import { orAborted } from '../support/deadline.js'
import { activeClock } from './reflector/active-clock.js'
import { notifyUser } from './reflector/notify-user.js'
import type { Change } from './reflector/object-codec.js'
import { type Deferred, deferred } from './deferred.js'
import { isEqualTree } from './equal-trees.js'
import { Connection } from './connection.js'
import { type Handler, type HandlerOptions, HandlerRegistration } from './handler-registration.js'
import { HandlerQueue, MAX_QUEUED, type Notification } from './handler-queue.js'
import { Indexer, type IndexFunction } from './indexer.js'
import { Lister, NAMESPACE_INDEX } from './lister.js'
import { SavedState, type SavedStateOptions, type StateContents } from './saved-state.js'
import type { InvalidObject } from './values.js'

/** The resource that an informer follows, and how; the rest is as in `ReflectorOptions`. */
export interface InformerOptions<T extends ObjectLike = KubeObject> extends Omit<
  ReflectorOptions<T>,
  'codec' | 'store' | 'onStatus'
> {
  /** Indexes by name, in addition to the one by namespace. */
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>
  /**
   * Applied to each object before it is stored, to drop unused parts (managed fields, large annotations). It must keep
   * metadata.name, namespace and resourceVersion. An object for which it throws is in `invalid`, not in the store.
   */
  readonly transform?: (object: T) => T
  /**
   * Turns each object that the server sends into a T, or throws. The parse function of any validator library can be
   * used. `withValue` makes such a function from a validator of values. It runs before `transform` and must keep the
   * metadata. Rejected objects are not in the store but in `invalid`.
   */
  readonly validate?: (object: unknown) => T
  /** Keeps the last state, to start with it while the server is unreachable. */
  readonly saved?: SavedStateOptions
  /**
   * Called when `validate` or `transform` rejects an object, and with null when the object is valid again or gone. Default: an error
   * is logged, to the console if there is no logger.
   */
  onInvalid?(key: string, invalid: InvalidObject | null): void
  /** How often every handler is renotified of every object, as an update. Default: never. */
  readonly resyncMs?: number
  /** Default: the error is logged, to the console if there is no logger. */
  onHandlerError?(error: unknown): void
  onStatus?(status: InformerStatus): void
}

/** The progress of an informer. */
export interface InformerStatus extends ReflectorStatus {
  /** Whether the store has the server's current state and receives changes. */
  readonly isLive: boolean
  /**
   * Whether the server's last response denied this caller access to the resource (401, 403). The store keeps its
   * content.
   */
  readonly isRefused: boolean
}

/** As in `events()`; `key` is `namespace/name`. */
export type InformerEvent<T> = Notification<T>

/** How long a turn of the event loop may take before other work can run. A first state may have 100,000 objects. */
const SLICE_MS = 10

/** A local copy of a resource that follows the server, with any number of handlers. */
export class SharedInformer<T extends ObjectLike = KubeObject> {
  readonly store: Indexer<T>
  readonly lister: Lister<T>
  readonly #options: InformerOptions<T>
  readonly #codec = treeCodec<T>({ sharesStrings: true })
  /** Objects that `validate` or `transform` rejects now, by key. They are not in the store. */
  readonly invalid: ReadonlyMap<string, InvalidObject>
  readonly #connection: Connection
  readonly #saved: SavedState | null
  readonly #invalid = new Map<string, InvalidObject>()
  /**
   * Objects as the server sent them, kept only if states are saved and the store holds something else; otherwise null.
   */
  readonly #received: Map<string, T> | null
  #reflector: Reflector<T>
  #state: ReflectorStatus['state'] = 'idle'
  readonly #handlers = new Set<HandlerRegistration<T>>()
  /** The queues of each `events()`. */
  readonly #streams = new Set<HandlerQueue<T>>()
  /** The calls that wait for the first state. A promise shared by all would also keep those that have given up. */
  readonly #waiting = new Set<Deferred<void>>()
  #isSynced = false
  /** Whether the store is between two states. */
  #isReplacing = false
  #isStarted = false
  #isStopped = false
  #resyncTimer: Timer | null = null

  constructor(options: InformerOptions<T>) {
    this.#options = options
    this.store = new Indexer({ indexes: options.indexes ?? {} })
    this.store.addIndex(NAMESPACE_INDEX, ({ metadata }) => [metadata?.namespace ?? ''])
    this.lister = new Lister(this.store)
    this.invalid = this.#invalid
    this.#saved = this.#savedState()
    const keepsAsSent = options.validate === undefined && options.transform === undefined
    this.#received = this.#saved === null || keepsAsSent ? null : new Map()
    this.#connection = new Connection(() => this.#connectionChanged())
    this.#reflector = this.#makeReflector(options.afterResourceVersion)
  }

  /** Only the first call has an effect, and none after `stop`. */
  start(): void {
    if (this.#isStarted || this.#isStopped) return
    this.#isStarted = true
    if (this.#saved === null) this.#reflector.start()
    else void this.#startAfter(this.#saved)
    this.#armResync()
  }

  /** Handlers get no more notifications. The informer cannot be started again. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#resyncTimer?.cancel()
    for (const { reject } of this.#waiting) reject(stoppedBeforeSync())
    for (const handler of this.#handlers) handler.remove()
    for (const stream of this.#streams) stream.end()
    // The last state is taken now, while the position is known.
    const saving = this.#saved?.close()
    await this.#reflector.stop()
    await saving
  }

  /** Starts, and stops when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    if (!signal.aborted) {
      this.start()
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    }
    await this.stop()
  }

  /**
   * Whether the store has its first state, either from the server or a saved one (see `status.isLive`). Handlers may
   * still be working on that state (see their own `hasSynced`).
   */
  get hasSynced(): boolean {
    return this.#isSynced
  }

  /** Resolves when `hasSynced`. @throws Error when the informer is stopped first; the signal's reason. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.#isSynced) return
    if (this.#isStopped) throw stoppedBeforeSync()
    const waiter = deferred()
    this.#waiting.add(waiter)
    try {
      await orAborted(waiter.promise, signal)
    } finally {
      this.#waiting.delete(waiter)
    }
  }

  get status(): InformerStatus {
    const { isLive, isRefused } = this.#connection
    return { ...this.#reflector.status, isLive, isRefused }
  }

  addHandler(handler: Handler<T>, options: HandlerOptions = {}): HandlerRegistration<T> {
    const registration: HandlerRegistration<T> = new HandlerRegistration(
      handler,
      options.maxQueued ?? MAX_QUEUED,
      (error) => this.#handlerFailed(error, options),
      () => this.#handlers.delete(registration),
    )
    if (this.#isStopped) {
      registration.remove()
      return registration
    }
    this.#handlers.add(registration)
    for (const [key, object] of this.store.entries()) {
      registration.notify({ type: 'added', key, object, isInitial: true })
    }
    if (this.#isSynced) registration.initialQueued()
    return registration
  }

  /**
   * Yields every present object and every later change, until the signal aborts or the informer stops. For a slow
   * consumer, several changes of one object are merged, as for a slow handler.
   */
  async *events(
    options: { readonly signal?: AbortSignal; readonly maxQueued?: number } = {},
  ): AsyncGenerator<InformerEvent<T>, void, undefined> {
    const { signal, maxQueued = MAX_QUEUED } = options
    if (signal?.aborted || this.#isStopped) return
    const queue = new HandlerQueue<T>(maxQueued)
    const end = (): void => queue.end()
    signal?.addEventListener('abort', end, { once: true })
    this.#streams.add(queue)
    for (const [key, object] of this.store.entries()) queue.push({ type: 'added', key, object, isInitial: true })
    try {
      for (let event = await queue.take(); event !== null; event = await queue.take()) yield event
    } finally {
      this.#streams.delete(queue)
      signal?.removeEventListener('abort', end)
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<InformerEvent<T>, void, undefined> {
    return this.events()
  }

  #makeReflector(after: string | undefined): Reflector<T> {
    const { afterResourceVersion: _, ...options } = this.#options
    const saved = this.#saved
    const store: ReflectorStore<T> = {
      replace: async (items) => {
        await this.#replace(items)
        saved?.replaced()
      },
      change: (change) => {
        this.#change(change)
        saved?.touch()
      },
      bookmark: () => saved?.touch(),
    }
    const { transport } = options
    return new Reflector({
      ...options,
      transport: this.#connection.transport(saved === null ? transport : saved.transport(transport)),
      codec: this.#codec,
      store,
      ...(after === undefined ? {} : { afterResourceVersion: after }),
      onStatus: ({ state }) => {
        const before = this.#state
        this.#state = state
        this.#connection.moved(before, state)
        return options.onStatus?.(this.status)
      },
    })
  }

  #connectionChanged(): void {
    if (this.#connection.isRefused) this.#saved?.forget()
    else if (this.#connection.isLive) this.#saved?.touch()
    notifyUser('onStatus', this.#options.logger, () => this.#options.onStatus?.(this.status))
  }

  #savedState(): SavedState | null {
    const { saved, path, logger = console, clock = activeClock } = this.#options
    if (saved === undefined) return null
    if (this.#options.afterResourceVersion !== undefined) {
      throw new Error('afterResourceVersion cannot be combined with a saved state, which has its own')
    }
    const onError = (err: unknown): void => {
      if (saved.onError === undefined) logger.error({ path, err }, 'the state cannot be saved')
      else saved.onError(err)
    }
    return new SavedState({ ...saved, onError }, this.#options, clock, () => this.#contents())
  }

  async #startAfter(saved: SavedState): Promise<void> {
    const state = await saved.load()
    if (this.#isStopped) return
    if (state !== null) {
      await this.#replace(state.items as T[])
      if (this.#isStopped) return
      if (state.continues) this.#reflector = this.#makeReflector(state.resourceVersion)
    }
    this.#reflector.start()
  }

  /** The state to save; null while the store is between two states. */
  #contents(): StateContents | null {
    const { resumePosition } = this.#reflector
    if (resumePosition === null || this.#isReplacing) return null
    const items = this.#received ?? this.store
    return { resourceVersion: resumePosition, items: [...items.values()] }
  }

  /**
   * Takes a whole state. Objects that are not in it were deleted without a notification. The reflector waits until this
   * is done.
   */
  async #replace(items: readonly T[]): Promise<void> {
    const unseen = new Set([...this.store.keys(), ...this.#invalid.keys()])
    this.#isReplacing = true
    await this.#inTurns(items, (object) => {
      const key = this.#codec.keyOf(object)
      unseen.delete(key)
      this.#put(key, object)
    })
    await this.#inTurns(unseen, (key) => this.#delete(key, null))
    this.#isReplacing = false
    if (this.#isSynced || this.#isStopped) return
    this.#isSynced = true
    for (const handler of this.#handlers) handler.initialQueued()
    for (const { resolve } of this.#waiting) resolve()
  }

  #change({ type, key, object }: Change<T>): void {
    if (type === 'DELETED') this.#delete(key, object)
    else this.#put(key, object)
  }

  /** Renotifies every handler of every object. */
  async #resync(): Promise<void> {
    await this.#inTurns([...this.store.entries()], ([key, object]) => {
      if (this.store.get(key) === object) this.#notify({ type: 'updated', key, object, previous: object })
    })
  }

  /** Calls `each` for all elements, and lets sockets run in between. Ends early if the informer is stopped. */
  async #inTurns<E>(all: Iterable<E>, each: (one: E) => void): Promise<void> {
    let done = 0
    let until = performance.now() + SLICE_MS
    for (const one of all) {
      if (this.#isStopped) return
      each(one)
      if (++done % 64 !== 0 || performance.now() < until) continue
      // A timer lets sockets run, which a microtask would not.
      await new Promise<void>((resolve) => void setTimeout(resolve, 0))
      until = performance.now() + SLICE_MS
    }
  }

  /** @param last the state at the deletion; null if the deletion itself was not seen. */
  #delete(key: string, last: T | null): void {
    this.#received?.delete(key)
    if (this.#invalid.has(key)) this.#accept(key)
    const previous = this.store.delete(key)
    if (previous === undefined) return
    // Stored objects were already validated and transformed, but the last state in a deletion was not.
    const object = last === null ? previous : (this.#made(last, null) ?? previous)
    this.#notify({ type: 'deleted', key, object, isFinalStateUnknown: last === null })
  }

  #put(key: string, sent: T): void {
    const rejected = this.#invalid.get(key)
    if (rejected !== undefined && isSame(rejected.object as T, sent)) return
    this.#received?.set(key, sent)
    const object = this.#made(sent, (error) => this.#reject({ key, object: sent, error }))
    if (object === undefined) return
    // A relist delivers mostly known objects.
    const held = this.store.get(key)
    if (held !== undefined && isSame(held, object)) return
    if (rejected !== undefined) this.#accept(key)
    const previous = this.store.set(key, object)
    if (previous === undefined) this.#notify({ type: 'added', key, object, isInitial: !this.#isSynced })
    else this.#notify({ type: 'updated', key, object, previous })
  }

  /** Returns the object in the form in which it is stored; undefined when `validate` or `transform` rejects it. */
  #made(sent: T, onError: ((error: unknown) => void) | null): T | undefined {
    const { validate = (object) => object as T, transform = (object) => object } = this.#options
    try {
      return transform(validate(sent))
    } catch (error) {
      onError?.(error)
      return undefined
    }
  }

  /** Removes the last valid version from the store, because the object is no longer that. */
  #reject(invalid: InvalidObject): void {
    const { key, error } = invalid
    const { path, logger = console } = this.#options
    this.#invalid.set(key, invalid)
    if (this.#options.onInvalid !== undefined) this.#reportInvalid(key, invalid)
    else logger.error({ path, key, err: error }, 'an object is invalid')
    const previous = this.store.delete(key)
    if (previous !== undefined) this.#notify({ type: 'deleted', key, object: previous, isFinalStateUnknown: true })
  }

  #accept(key: string): void {
    this.#invalid.delete(key)
    this.#reportInvalid(key, null)
  }

  #reportInvalid(key: string, invalid: InvalidObject | null): void {
    notifyUser('onInvalid', this.#options.logger, () => this.#options.onInvalid?.(key, invalid))
  }

  #notify(notification: Notification<T>): void {
    for (const handler of this.#handlers) handler.notify(notification)
    for (const stream of this.#streams) stream.push(notification)
  }

  #armResync(): void {
    const { resyncMs, clock = activeClock } = this.#options
    if (resyncMs === undefined || resyncMs <= 0 || this.#isStopped) return
    this.#resyncTimer = clock.setTimer(resyncMs, () => {
      if (this.#isSynced) void this.#resync()
      this.#armResync()
    })
  }

  #handlerFailed(error: unknown, own: HandlerOptions): void {
    const { logger, path } = this.#options
    notifyUser('the handler of errors', logger, () => {
      if (own.onError !== undefined) return own.onError(error)
      if (this.#options.onHandlerError !== undefined) return this.#options.onHandlerError(error)
      return (logger ?? console).error({ path, err: error }, 'a handler failed')
    })
  }
}

function stoppedBeforeSync(): Error {
  return new Error('the informer was stopped before it had synced')
}

/**
 * Whether both are the same version of the same object. The resourceVersion alone cannot prove that, because an etcd
 * restored from a backup reuses revisions for different contents.
 */
function isSame(a: ObjectLike, b: ObjectLike): boolean {
  const version = a.metadata?.resourceVersion
  return version !== undefined && version === b.metadata?.resourceVersion && isEqualTree(a, b)
}
