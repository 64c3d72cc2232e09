/**
 * A watch of keys that a cache holds. It is a cursor of the range's group, except while it waits for a future revision
 * (`held-watches.ts`), or for the events before the cache's history (`bridges.ts`). While the source refuses the cache, a
 * watch that begins is refused, wherever it comes from. If the cache is no longer served, it ends the stream instead.
 *
 *              ┌──────── held ◀──── the cache is behind its revision
 *              ▼
 *     begin ▶ cursor ────────────▶ begin     the history has dropped its next events
 *              ▲                     │
 *              └──────── bridge ◀────┘       until a run has passed the floor of the history
 */
import type { Cursor, WatchOutput } from '../../engine/broadcast/cursor.js'
import type { CursorStart } from '../../engine/broadcast/dispatcher.js'
import { RevisionExpiredError } from '../../engine/model/errors.js'
import type { Revision } from '../../engine/model/revision.js'
import { etcdErrorOf, permissionDenied, stopped } from '../etcd-error.js'
import type { EtcdApiMetrics, WatchSource } from '../metrics.js'
import { contains } from '../key-range.js'
import type { ServedPrefix } from '../served-prefixes.js'
import type { BridgeMember, Bridges } from './bridges.js'
import type { HeldWatches } from './held-watches.js'
import { NO_EVENTS } from './shared-messages.js'
import type { StreamWatch, WatchSink } from './stream-watch.js'
import type { UpstreamEvent } from './upstream-message.js'
import { groupOf } from './watch-encoding.js'
import { fragmentsOf, watchFields } from './watch-messages.js'
import type { WatchCreate } from './watch-requests.js'

export interface CachedWatchOptions {
  readonly prefix: ServedPrefix
  readonly create: WatchCreate
  readonly watchId: number
  readonly identity: string
  readonly sink: WatchSink
  readonly held: HeldWatches
  readonly bridges: Bridges
  readonly metrics: Pick<EtcdApiMetrics, 'watches'>
}

const nothing = (): void => {}

export class CachedWatch implements StreamWatch, WatchOutput, BridgeMember {
  readonly isCached = true
  readonly prevKv: boolean
  readonly #options: CachedWatchOptions
  readonly #fields: Uint8Array
  #cursor: Cursor | null = null
  #source: WatchSource | null = null
  /** The history that the cursor is in. */
  #history = ''
  #next = 0
  #isOver = false
  /** Ends the wait for a revision, or leaves the bridge. */
  #stopWaiting: () => void = nothing
  /** Whether it left a bridge because the stream was full. */
  #isDelayed = false

  constructor(options: CachedWatchOptions) {
    this.#options = options
    this.prevKv = options.create.prevKv
    this.#fields = watchFields({ watchId: options.watchId })
  }

  get next(): number {
    return this.#next
  }

  get isFull(): boolean {
    return this.#options.sink.isFull
  }

  get pendingBytes(): number {
    return this.#options.sink.pendingBytes
  }

  /** Begins with the events of a revision that the client has named. */
  begin(next: number): void {
    if (!this.#canBegin()) return
    this.#next = next
    const { cache } = this.#options.prefix
    const after = (next - 1) as Revision
    if (cache.readiness.kind === 'ready' && after <= cache.revision) this.#open({ kind: 'after', revision: after })
    else this.#hold(after, () => this.begin(next))
  }

  /** Begins after a revision that etcd has reached. */
  beginAfter(revision: Revision): void {
    if (!this.#canBegin()) return
    this.#next = revision + 1
    const { cache } = this.#options.prefix
    if (cache.readiness.kind === 'ready') this.#open({ kind: 'reached', revision })
    else this.#hold(0, () => this.beginAfter(revision))
  }

  /** Ends the watch if it cannot. */
  #canBegin(): boolean {
    if (this.#isOver) return false
    const { prefix, sink } = this.#options
    const { isRetired, source } = prefix.cache
    if (isRetired) sink.fail(stopped())
    else if (source.isRefusing) this.#refuse()
    return !isRetired && !source.isRefusing
  }

  #feedFrom(source: WatchSource | null): void {
    const { metrics } = this.#options
    if (this.#source !== null) metrics.watches(this.#source, -1)
    if (source !== null) metrics.watches(source, 1)
    this.#source = source
  }

  #hold(afterRevision: number, begin: () => void): void {
    this.#feedFrom('none')
    const { held, prefix } = this.#options
    this.#stopWaiting = held.hold(prefix.cache, afterRevision, () => {
      this.#stopWaiting = nothing
      begin()
    })
  }

  #open(start: CursorStart): void {
    const { prefix, create, identity, sink } = this.#options
    const { dispatcher, served } = prefix
    try {
      const cursor = dispatcher.open(
        {
          ...groupOf(served.resource, dispatcher.facts.paths.name, create.range, create),
          statePrefix: served.resource.etcdPrefix,
          identity,
          start,
          bookmarks: create.progressNotify,
          deadlineMs: Number.POSITIVE_INFINITY,
          onInitialComplete: nothing,
          onEnd: nothing,
        },
        this,
      )
      if (cursor.state === 'ended') return
      this.#cursor = cursor
      this.#feedFrom('cache')
      this.#history = prefix.cache.history.name
      if (sink.isFull) cursor.block()
    } catch (error) {
      if (error instanceof RevisionExpiredError) this.#bridge()
      else sink.fail(etcdErrorOf(error))
    }
  }

  #bridge(): void {
    this.#feedFrom('history')
    const { bridges, prefix } = this.#options
    this.#stopWaiting = bridges.enter(prefix.cache, this)
  }

  // WatchOutput

  write(events: Buffer): boolean {
    // A bookmark, which is a progress notification here, has no bytes of its own.
    if (events.length === 0) return this.#options.sink.send(this.#fields, this.#cursor?.revision ?? 0, NO_EVENTS)
    return this.#send(events, this.#options.prefix.cache.revision)
  }

  end(_bytes: Buffer | null, error: Error | null): void {
    const cursor = this.#cursor
    this.#cursor = null
    if (this.#isOver) return
    const { cache } = this.#options.prefix
    if (error instanceof RevisionExpiredError && cursor !== null) {
      // A restored etcd has other events under the same revisions, and would leave the watch waiting for the next new one.
      if (cache.history.name !== this.#history) this.compacted(Math.max(1, cache.revision))
      else this.begin(cursor.revision + 1)
    } else if (error === null && cache.source.isRefusing) this.#refuse()
    else this.#options.sink.fail(error === null ? stopped() : etcdErrorOf(error))
  }

  destroy(): void {
    this.#options.sink.destroy()
  }

  #send(events: Buffer, revision: number): boolean {
    const { sink, create, watchId } = this.#options
    if (!create.isFragmented) return sink.send(this.#fields, revision, events)
    const fragments = fragmentsOf(events)
    let isOpen = true
    for (const [i, fragment] of fragments.entries()) {
      const isLast = i === fragments.length - 1
      const fields = isLast ? this.#fields : watchFields({ watchId, isFragment: true })
      isOpen = sink.send(fields, revision, fragment)
    }
    return isOpen
  }

  // BridgeMember

  get wanted(): string {
    const { range, noPuts, noDeletes, prevKv } = this.#options.create
    return JSON.stringify([range.start, range.end, noPuts, noDeletes, prevKv])
  }

  wants({ key, isDelete }: UpstreamEvent): boolean {
    const { range, noPuts, noDeletes } = this.#options.create
    return contains(range, key) && !(isDelete ? noDeletes : noPuts)
  }

  deliver(events: Buffer, revision: number): void {
    this.#send(events, revision)
  }

  passTo(next: number): void {
    this.#next = next
  }

  leave(): void {
    this.#stopWaiting = nothing
    if (this.#options.sink.isFull) this.#isDelayed = true
    else this.begin(this.#next)
  }

  compacted(compactRevision: number): void {
    const { sink, watchId } = this.#options
    this.#stopWaiting = nothing
    // As in etcd, the header of such a response has no revision.
    sink.send(watchFields({ watchId, canceled: true, compactRevision }), 0, NO_EVENTS)
    sink.remove(watchId)
  }

  // StreamWatch

  /** The caller may no longer watch. */
  revoke(): void {
    if (!this.#isOver) this.#refuse()
  }

  /**
   * Ends the watch as etcd would. If etcd refuses this server, its clients get etcd's answer: after an error that seems to
   * pass, they would come back ten times a second.
   */
  #refuse(): void {
    const { sink, watchId, prefix } = this.#options
    const cancelReason = permissionDenied().goText
    sink.send(watchFields({ watchId, canceled: true, cancelReason }), prefix.cache.revision, NO_EVENTS)
    sink.remove(watchId)
  }

  close(): void {
    this.#isOver = true
    this.#feedFrom(null)
    this.#stopWaiting()
    this.#stopWaiting = nothing
    const cursor = this.#cursor
    this.#cursor = null
    cursor?.closed()
  }

  block(): void {
    this.#cursor?.block()
  }

  resume(): void {
    this.#cursor?.drained()
    if (!this.#isDelayed) return
    this.#isDelayed = false
    this.begin(this.#next)
  }

  position(): Promise<number | null> {
    return Promise.resolve(this.positionNow)
  }

  /** The revision up to which everything has been sent; null while that is not known. */
  get positionNow(): number | null {
    const cursor = this.#cursor
    if (cursor === null || cursor.isBlocked) return null
    return cursor.position
  }
}
