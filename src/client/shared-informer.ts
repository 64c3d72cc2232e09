/**
 * Keeps a local copy of a resource that follows the server, and notifies any number of handlers of its changes.
 *
 *     reflector ──▶ DeltaFIFO ──▶ store (Indexer) ──▶ a queue per handler ──▶ handlers
 *
 * The store is changed before its handlers are notified, so a handler that reads the store finds at least the object of
 * its notification. Handlers may be added and removed at any time; one added late is first notified of all present
 * objects. Objects are shared and must not be changed.
 */
import { Reflector, type ReflectorOptions, type ReflectorStatus } from './reflector/reflector.js'
import { type KubeObject, type ObjectLike, treeCodec } from './reflector/tree-codec.js'
import type { Timer } from '../support/clock.js'
import { activeClock } from './reflector/active-clock.js'
import { objectKey } from './reflector/object-codec.js'
import { AsyncQueue } from './async-queue.js'
import { deferred } from './deferred.js'
import { type Delta, DeltaFifo } from './delta-fifo.js'
import { type Handler, type HandlerOptions, HandlerRegistration } from './handler-registration.js'
import type { Notification } from './handler-queue.js'
import { Indexer, type IndexFunction } from './indexer.js'
import { Lister, NAMESPACE_INDEX } from './lister.js'

/** The resource that an informer follows, and how; the rest is as in `ReflectorOptions`. */
export interface InformerOptions<T extends ObjectLike = KubeObject> extends Omit<
  ReflectorOptions<T>,
  'codec' | 'store' | 'onStatus'
> {
  /** Indexes by name, besides the one by namespace. */
  readonly indexes?: Readonly<Record<string, IndexFunction<T>>>
  /**
   * Applied to each object before it is stored, to drop unused parts (managed fields, large annotations). It must keep
   * metadata.name, namespace and resourceVersion.
   */
  readonly transform?: (object: T) => T
  /** How often every handler is renotified of every object, as an update. Default: never. */
  readonly resyncMs?: number
  /** Default: the error is logged. */
  onHandlerError?(error: unknown): void
  onStatus?(status: ReflectorStatus): void
}

/** As in `events()`; `key` is `namespace/name`. */
export type InformerEvent<T> = Notification<T>

/**
 * How long one turn of the event loop may take before other work gets its turn: a first state may have 100,000 objects.
 */
const SLICE_MS = 10

/** A local copy of a resource that follows the server, with any number of handlers. */
export class SharedInformer<T extends ObjectLike = KubeObject> {
  readonly store: Indexer<T>
  readonly lister: Lister<T>
  readonly #options: InformerOptions<T>
  readonly #fifo: DeltaFifo<T>
  readonly #reflector: Reflector<T>
  readonly #handlers = new Set<HandlerRegistration<T>>()
  /** The functions that end each `events()`. */
  readonly #streams = new Set<() => void>()
  readonly #synced = deferred()
  #isSynced = false
  #isDraining = false
  #isStarted = false
  #isStopped = false
  #resyncTimer: Timer | null = null

  constructor(options: InformerOptions<T>) {
    this.#options = options
    const codec = treeCodec<T>({ sharesStrings: true })
    this.store = new Indexer({ indexes: options.indexes ?? {} })
    this.store.addIndex(NAMESPACE_INDEX, ({ metadata }) => [metadata?.namespace ?? ''])
    this.lister = new Lister(this.store)
    this.#fifo = new DeltaFifo({ keyOf: (object) => codec.keyOf(object), known: this.store })
    this.#fifo.onItem(() => this.#schedule())
    this.#reflector = new Reflector({ ...options, codec, store: this.#fifo })
    // Callers need not await it.
    this.#synced.promise.catch(() => undefined)
  }

  /** Only the first call has an effect. */
  start(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#reflector.start()
    this.#armResync()
  }

  /** Handlers get no more notifications. The informer cannot be started again. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#resyncTimer?.cancel()
    this.#synced.reject(new Error('the informer was stopped before it had synced'))
    for (const handler of this.#handlers) handler.remove()
    for (const end of this.#streams) end()
    await this.#reflector.stop()
  }

  /** Starts, and stops when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    if (!signal.aborted) {
      this.start()
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
    }
    await this.stop()
  }

  /** Whether the first state is in the store. Handlers may still be working on it: see their own `hasSynced`. */
  get hasSynced(): boolean {
    return this.#isSynced
  }

  /** Resolves when `hasSynced`. @throws Error when it is stopped before; the signal's reason. */
  async whenSynced(signal?: AbortSignal): Promise<void> {
    if (signal === undefined) return this.#synced.promise
    signal.throwIfAborted()
    const aborted = deferred<never>()
    const onAbort = (): void => aborted.reject(signal.reason as Error)
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await Promise.race([this.#synced.promise, aborted.promise])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  get status(): ReflectorStatus {
    return this.#reflector.status
  }

  addHandler(handler: Handler<T>, options: HandlerOptions = {}): HandlerRegistration<T> {
    const registration: HandlerRegistration<T> = new HandlerRegistration(
      handler,
      options,
      (error) => this.#handlerFailed(error),
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
    const { signal } = options
    if (signal?.aborted) return
    const queue = new AsyncQueue<InformerEvent<T>>()
    const keyOf = ({ metadata }: T): string => objectKey(metadata?.namespace, metadata?.name ?? '')
    const registration = this.addHandler(
      {
        // Each is passed on when the previous one was taken: until then the rest waits, and merges, in the queue.
        added: (object, isInitial) => queue.hand({ type: 'added', key: keyOf(object), object, isInitial }),
        updated: (object, previous) => queue.hand({ type: 'updated', key: keyOf(object), object, previous }),
        deleted: (object, isFinalStateUnknown) =>
          queue.hand({ type: 'deleted', key: keyOf(object), object, isFinalStateUnknown }),
      },
      options,
    )
    const end = (): void => queue.end()
    signal?.addEventListener('abort', end, { once: true })
    this.#streams.add(end)
    try {
      for (let event = await queue.take(); event !== null; event = await queue.take()) yield event
    } finally {
      this.#streams.delete(end)
      signal?.removeEventListener('abort', end)
      registration.remove()
      queue.end()
    }
  }

  [Symbol.asyncIterator](): AsyncGenerator<InformerEvent<T>, void, undefined> {
    return this.events()
  }

  #schedule(): void {
    if (this.#isDraining) return
    this.#isDraining = true
    queueMicrotask(() => this.#drain())
  }

  #drain(): void {
    const until = performance.now() + SLICE_MS
    for (let popped = 0; ; popped++) {
      if (this.#isStopped) return
      const item = this.#fifo.pop()
      if (item === null) break
      for (const delta of item.deltas) this.#apply(item.key, delta, item.isOfFirstState)
      if (popped % 64 === 63 && performance.now() > until) {
        // A timer, not a microtask: sockets get their turn in between.
        setTimeout(() => this.#drain(), 0)
        return
      }
    }
    this.#isDraining = false
    if (this.#isSynced || !this.#fifo.hasSynced) return
    this.#isSynced = true
    for (const handler of this.#handlers) handler.initialQueued()
    this.#synced.resolve()
  }

  #apply(key: string, delta: Delta<T>, isNew: boolean): void {
    if (delta.type === 'Deleted') {
      const previous = this.store.delete(key)
      if (previous === undefined) return
      // Stored objects are already transformed; a deletion's last state from the server is not.
      const { isFinalStateUnknown } = delta
      const object = isFinalStateUnknown ? previous : this.#transformed(delta.object)
      return this.#notify({ type: 'deleted', key, object, isFinalStateUnknown })
    }
    // A relist delivers mostly known objects. (A resync reports them anyway.)
    const held = isNew || delta.type === 'Sync' ? undefined : this.store.get(key)
    if (held !== undefined && isSame(held, delta.object)) return
    const object = delta.type === 'Sync' ? delta.object : this.#transformed(delta.object)
    const previous = this.store.set(key, object)
    if (previous === undefined) this.#notify({ type: 'added', key, object, isInitial: !this.#isSynced })
    else this.#notify({ type: 'updated', key, object, previous })
  }

  #transformed(object: T): T {
    const { transform } = this.#options
    return transform === undefined ? object : transform(object)
  }

  #notify(notification: Notification<T>): void {
    for (const handler of this.#handlers) handler.notify(notification)
  }

  #armResync(): void {
    const { resyncMs, clock = activeClock } = this.#options
    if (resyncMs === undefined || resyncMs <= 0 || this.#isStopped) return
    this.#resyncTimer = clock.setTimer(resyncMs, () => {
      if (this.#isSynced) this.#fifo.resync()
      this.#armResync()
    })
  }

  #handlerFailed(error: unknown): void {
    const { logger, path } = this.#options
    if (this.#options.onHandlerError !== undefined) this.#options.onHandlerError(error)
    else logger?.error({ path, err: error }, 'a handler failed')
  }
}

/**
 * Whether both are the same version of the same object, not only by resourceVersion: a key may have been deleted and
 * recreated in a restored etcd.
 */
function isSame(a: ObjectLike, b: ObjectLike): boolean {
  return (
    a.metadata?.resourceVersion !== undefined &&
    a.metadata.resourceVersion === b.metadata?.resourceVersion &&
    a.metadata.uid === b.metadata.uid
  )
}
