/**
 * One stream of watches: creates, cancels and progress requests from the client, and the messages of all its watches to
 * it. Requests are handled one after another, as etcd does.
 *
 * The stream is one output for many watches: each message is whole, and when the stream is full, none of its watches
 * writes until it drains. Nothing is queued per watch, because cursors keep their places, and watches on etcd pause.
 */
import { MAX_WATCHES_PER_STREAM } from '../limits.js'
import { RefusedReadError, UnansweredError } from '../../engine/model/errors.js'
import { MIN_INITIAL_BYTES_PER_SECOND, STUCK_LIMIT_MS } from '../../engine/model/limits.js'
import type { Revision } from '../../engine/model/revision.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { RawUpstream } from '../../engine/upstream/upstream.js'
import { type Clock, sleep, type Timer } from '../../support/clock.js'
import { type Access, type Admitted, rightTo } from '../access.js'
import { type EtcdError, etcdErrorOf, permissionDenied, tooManyRequests } from '../etcd-error.js'
import { framed, type GrpcCall } from '../grpc-call.js'
import type { Identity } from '../identity.js'
import type { EtcdApiMetrics } from '../metrics.js'
import { isEmptyRange, type KeyRange } from '../key-range.js'
import type { ServedPrefix, ServedPrefixes } from '../served-prefixes.js'
import { WaitingRequests } from '../waiting-requests.js'
import type { Bridges } from './bridges.js'
import { CachedWatch } from './cached-watch.js'
import { ForwardedWatch } from './forwarded-watch.js'
import type { HeldWatches } from './held-watches.js'
import { NO_EVENTS, type SharedMessages } from './shared-messages.js'
import type { StreamWatch, WatchSink } from './stream-watch.js'
import { watchFields } from './watch-messages.js'
import { decodeWatchRequest, type WatchCreate } from './watch-requests.js'

export interface WatchContext {
  readonly prefixes: ServedPrefixes
  readonly raw: RawUpstream
  readonly identity: Identity
  readonly held: HeldWatches
  readonly bridges: Bridges
  readonly messages: SharedMessages
  readonly clock: Clock
  readonly metrics: Pick<EtcdApiMetrics, 'watches'>
  readonly isHidden: (range: KeyRange) => boolean
  /** Slots of all watches, and of those that are watches on etcd. */
  readonly watchers: IdentitySemaphore
  readonly forwardedWatches: IdentitySemaphore
  /** Slots of streams with watches. */
  readonly streams: IdentitySemaphore
}

/** The watch id of a message for the whole stream, and of a watch that was refused. */
const NO_WATCH = -1
/** How long a progress request may wait for watches that are behind, and how often it looks. */
const PROGRESS_WAIT_MS = 1_000
const PROGRESS_LOOK_MS = 5

/** For how long etcd is not asked again after it has not told its revision, because every request waits for that. */
const UNASKED_MS = 5_000

const NOWHERE = Promise.resolve(null)

interface Open {
  readonly watch: StreamWatch
  readonly prefix: ServedPrefix | null
  readonly release: () => void
}

export class WatchStream implements WatchSink {
  readonly #context: WatchContext
  readonly #call: GrpcCall
  readonly #access: Access
  readonly #watches = new Map<number, Open>()
  readonly #waiting = new WaitingRequests()
  readonly #onClose: () => void
  #isBusy = false
  #isFull = false
  #stuck: Timer | null = null
  #nextId = 0
  #askAgainMs = -Infinity
  #isAsking = false
  #isAskedAgain = false
  /** Whether it has one of the slots for streams. */
  #isAdmitted = false

  /** @param onClose called once, when the stream is over. */
  constructor(context: WatchContext, call: GrpcCall, access: Access, onClose: () => void) {
    this.#context = context
    this.#call = call
    this.#access = access
    this.#onClose = onClose
  }

  start(): void {
    this.#call.read({
      onMessage: (message) => {
        this.#waiting.push(message)
        if (this.#waiting.isFull()) this.#call.pause()
        if (!this.#isBusy) void this.#work()
      },
      // As in etcd, the watches go on.
      onHalfClose: () => {},
      onDrain: () => this.#drained(),
      onClose: () => this.#close(),
    })
    this.#call.begin()
  }

  /** Whether a cache feeds any of its watches, so that the stream ends with them. */
  get isCached(): boolean {
    for (const { watch } of this.#watches.values()) if (watch.isCached) return true
    return false
  }

  /** Whether a watch of the stream gets nothing new, because the source of its cache has been silent for this long. */
  isSilent(ms: number): boolean {
    const prefixes = new Set([...this.#watches.values()].map(({ prefix }) => prefix))
    for (const prefix of prefixes) {
      if (prefix !== null && prefix.cache.source.disconnectedReason !== null && prefix.cache.source.ageMs > ms)
        return true
    }
    return false
  }

  // Requests

  async #work(): Promise<void> {
    this.#isBusy = true
    try {
      for (let message = this.#waiting.shift(); message !== undefined; message = this.#waiting.shift()) {
        if (this.#call.isOver) return
        if (!this.#waiting.isFull() && !this.#isFull) this.#call.resume()
        await this.#handle(message)
      }
    } catch (error) {
      this.fail(etcdErrorOf(error))
    } finally {
      this.#isBusy = false
    }
  }

  async #handle(message: Buffer): Promise<void> {
    const request = decodeWatchRequest(message)
    if (request.kind === 'create') return await this.#create(request.create, request.bytes)
    if (request.kind === 'cancel') return this.#cancel(request.watchId)
    if (request.kind === 'progress') void this.#reportProgress()
  }

  async #create(create: WatchCreate, bytes: Uint8Array): Promise<void> {
    const { prefixes, isHidden, watchers, forwardedWatches, streams } = this.#context
    const { range } = create
    await this.#context.identity.get()
    const prefix = prefixes.covering(range)
    let admitted: Admitted
    let leave: () => void
    try {
      if (prefix === null && isHidden(range)) throw permissionDenied('the range is not a declared prefix')
      admitted = await this.#access.check([rightTo('watch', range, prefix)])
      if (prefix?.cache.source.isRefusing === true) throw permissionDenied()
      if (this.#watches.size >= MAX_WATCHES_PER_STREAM) throw tooManyRequests()
      if (!this.#isAdmitted) this.#call.keep(await streams.acquire(admitted.identity, this.#call.signal))
      this.#isAdmitted = true
      leave = await (prefix === null ? forwardedWatches : watchers).acquire(admitted.identity, this.#call.signal)
    } catch (caught) {
      return this.#refuse(etcdErrorOf(caught))
    }
    const problem = isEmptyRange(range)
      ? 'mvcc: watcher range is empty'
      : this.#watches.has(create.watchId) && create.watchId !== 0
        ? 'mvcc: duplicate watch ID provided on the WatchStream'
        : create.startRevision < 0
          ? 'etcdserver: mvcc: required revision has been compacted'
          : null
    if (problem !== null || this.#call.isOver) {
      leave()
      const fields = watchFields({ watchId: NO_WATCH, created: true, canceled: true, cancelReason: problem ?? '' })
      return void this.send(fields, this.#revision(prefix), NO_EVENTS)
    }
    const watchId = create.watchId === 0 ? this.#freeId() : create.watchId
    try {
      await this.#open(create, bytes, watchId, prefix, admitted, leave)
    } catch (error) {
      leave()
      // etcd has begun to refuse this server, and the cache does not believe it yet.
      if (error instanceof RefusedReadError) return this.#refuse(permissionDenied(error))
      throw error
    }
  }

  async #open(
    create: WatchCreate,
    bytes: Uint8Array,
    watchId: number,
    prefix: ServedPrefix | null,
    admitted: Admitted,
    leave: () => void,
  ): Promise<void> {
    const { held, bridges, metrics } = this.#context
    const { identity } = admitted
    const watch =
      prefix === null
        ? new ForwardedWatch(this, watchId, this.#context, () => this.#context.isHidden(create.range))
        : new CachedWatch({ prefix, create, watchId, identity, sink: this, held, bridges, metrics })
    const current = prefix !== null && create.startRevision === 0 ? await this.#revisionNow(prefix) : null
    try {
      await admitted.confirm()
    } catch (error) {
      leave()
      return this.#refuse(etcdErrorOf(error))
    }
    if (this.#call.isOver) return leave()
    const stopChecks = admitted.keep(() => watch.revoke())
    const release = (): void => {
      stopChecks()
      leave()
    }
    this.#watches.set(watchId, { watch, prefix, release })
    if (watch instanceof ForwardedWatch) return await watch.open(bytes)
    this.send(watchFields({ watchId, created: true }), current ?? this.#revision(prefix), NO_EVENTS)
    if (current !== null) watch.beginAfter(current)
    else watch.begin(create.startRevision)
  }

  /**
   * Returns etcd's revision, for a watch of what follows it; or the cache's if etcd does not answer, as a member of etcd
   * that is cut off begins at its own. Before the first state there is none, and the stream ends.
   */
  async #revisionNow({ cache }: ServedPrefix): Promise<Revision> {
    const { clock } = this.#context
    if (cache.readiness.kind !== 'ready' || clock.monotonic() >= this.#askAgainMs) {
      try {
        return await cache.reads.sourceRevision()
      } catch (error) {
        if (!(error instanceof UnansweredError) || cache.readiness.kind !== 'ready') throw error
        this.#askAgainMs = clock.monotonic() + UNASKED_MS
      }
    }
    return cache.revision
  }

  /** Refuses one watch. Other errors end the stream. */
  #refuse(error: EtcdError): void {
    if (error.message === 'internal error' || error.message === 'context canceled') throw error
    const fields = watchFields({ watchId: NO_WATCH, created: true, canceled: true, cancelReason: error.goText })
    this.send(fields, this.#revision(null), NO_EVENTS)
  }

  #freeId(): number {
    while (this.#watches.has(this.#nextId)) this.#nextId++
    return this.#nextId++
  }

  #cancel(watchId: number): void {
    const open = this.#watches.get(watchId)
    if (open === undefined) return
    this.remove(watchId)
    this.send(watchFields({ watchId, canceled: true }), this.#revision(open.prefix), NO_EVENTS)
  }

  /** The newest revision that any cache of the stream has, or the given one. */
  #revision(prefix: ServedPrefix | null): number {
    let revision = prefix?.cache.revision ?? 0
    for (const open of this.#watches.values()) revision = Math.max(revision, open.prefix?.cache.revision ?? 0)
    if (revision > 0) return revision
    for (const any of this.#context.prefixes.list()) revision = Math.max(revision, any.cache.revision)
    return revision
  }

  /** Requests that come while one is being answered are answered together, after it. */
  async #reportProgress(): Promise<void> {
    this.#isAskedAgain = this.#isAsking
    if (this.#isAsking) return
    this.#isAsking = true
    do {
      this.#isAskedAgain = false
      await this.#answerProgress()
    } while (this.#isAskedAgain)
    this.#isAsking = false
  }

  /**
   * Answers a progress request once for the whole stream, when every watch has been sent everything up to a revision
   * that etcd has reached after the request. Like etcd, it gives no answer if a watch stays behind.
   */
  async #answerProgress(): Promise<void> {
    const over = new AbortController()
    try {
      const { clock } = this.#context
      const caches = new Set(
        [...this.#watches.values()].flatMap(({ prefix }) => (prefix === null ? [] : [prefix.cache])),
      )
      for (const cache of caches) {
        const revision = await cache.reads.sourceRevision()
        // A cache that cannot prove how far it has come reports that.
        if (cache.reads.trustsProgress) await cache.reads.waitUntil(revision, this.#call.signal)
      }
      const endMs = clock.monotonic() + PROGRESS_WAIT_MS
      // etcd does not answer while one of its own watches is behind.
      const late = sleep(clock, PROGRESS_WAIT_MS, over.signal).then(() => null)
      while (!this.#call.isOver && this.#watches.size > 0) {
        const revision = await Promise.race([this.#position(), late])
        if (revision !== null) return void this.send(watchFields({ watchId: NO_WATCH }), revision, NO_EVENTS)
        if (clock.monotonic() >= endMs) return
        await sleep(clock, PROGRESS_LOOK_MS)
      }
    } catch {
      // etcd does not answer, so there is no progress to report.
    } finally {
      over.abort()
    }
  }

  /** Returns the lowest position of all watches, if it is still theirs when all are known. */
  async #position(): Promise<number | null> {
    const before = [...this.#watches.values()]
    const asked = new Set(before)
    const forwarded = await Promise.all(before.map(({ watch }) => (watch.isCached ? NOWHERE : watch.position())))
    if (forwarded.some((revision, i) => revision === null && !before[i]!.watch.isCached)) return null
    let lowest = Math.min(...forwarded.map((revision) => revision ?? Infinity))
    // The positions of caches are read in one step, with nothing sent in between.
    for (const open of this.#watches.values()) {
      const { watch } = open
      // One that has been created in the meantime was not asked.
      if (!watch.isCached && !asked.has(open)) return null
      const revision = watch instanceof CachedWatch ? watch.positionNow : null
      if (watch.isCached && revision === null) return null
      lowest = Math.min(lowest, revision ?? Infinity)
    }
    return Number.isFinite(lowest) ? lowest : null
  }

  // WatchSink

  get isFull(): boolean {
    return this.#isFull
  }

  get pendingBytes(): number {
    return this.#call.pendingBytes
  }

  send(fields: Uint8Array, revision: number, events: Uint8Array): boolean {
    const { messages, identity } = this.#context
    return this.#pass(messages.message({ identity: identity.current, revision, fields, events }))
  }

  pass(parts: readonly Uint8Array[]): boolean {
    return this.#pass(framed(parts))
  }

  #pass(message: Buffer): boolean {
    if (this.#call.isOver) return false
    if (!this.#call.sendFramed(message)) this.#filled()
    return !this.#isFull
  }

  remove(watchId: number): void {
    const open = this.#watches.get(watchId)
    if (open === undefined) return
    this.#watches.delete(watchId)
    open.watch.close()
    open.release()
  }

  fail(error: EtcdError): void {
    this.#call.fail(error)
  }

  destroy(): void {
    this.#call.destroy()
  }

  #filled(): void {
    if (this.#isFull) return
    this.#isFull = true
    this.#call.pause()
    this.#limitStuck()
    for (const { watch } of this.#watches.values()) watch.block()
  }

  /** Resets a stream that stays full, if etcd has sent what it holds. What a cache has sent is bounded by its cursors. */
  #limitStuck(): void {
    const mostMs = STUCK_LIMIT_MS + (this.pendingBytes / MIN_INITIAL_BYTES_PER_SECOND) * 1_000
    this.#stuck = this.#context.clock.setTimer(mostMs, () => {
      for (const { watch } of this.#watches.values()) if (!watch.isCached) return this.destroy()
      this.#limitStuck()
    })
  }

  #drained(): void {
    if (!this.#isFull) return
    this.#isFull = false
    this.#stuck?.cancel()
    if (!this.#waiting.isFull()) this.#call.resume()
    for (const { watch } of this.#watches.values()) watch.resume()
  }

  #close(): void {
    this.#waiting.clear()
    this.#stuck?.cancel()
    for (const watchId of this.#watches.keys()) this.remove(watchId)
    this.#onClose()
  }
}
