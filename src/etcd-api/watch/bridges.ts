/**
 * Watches from below the history of a cache. Until a watch has caught up with the history, its events come from a watch
 * on etcd, which all such watches of a prefix share: after a restart, thousands of clients may resume at once.
 *
 *     etcd ──one watch of the prefix, from the lowest revision──▶ run ──▶ member, member, …
 *                                                                          │
 *     cache ◀── continues from the history, once a run has passed its floor┘
 *
 * A run delivers whole revisions. So when it has passed the floor of the history, the next event of a member is there,
 * and nothing is missed between the two. In a quiet prefix this takes a progress report, which is only believed from an
 * etcd whose progress can be trusted.
 *
 * Events are delivered in pieces, and members that want the same of a piece share its bytes. A member whose stream stays
 * full leaves, and starts again where it was, so a stream never holds much more than one piece.
 */
import { MAX_BRIDGES } from '../limits.js'
import { SLICE_BYTES } from '../../engine/model/limits.js'
import type { WatchCache } from '../../engine/cache/watch-cache.js'
import { type Key, keyToBytes, prefixEnd } from '../../engine/model/event.js'
import { InOrder } from '../../engine/upstream/in-order.js'
import type { RawStream, RawUpstream } from '../../engine/upstream/upstream.js'
import { type Clock, sleep, type Timer } from '../../support/clock.js'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { type UpstreamEvent, type UpstreamMessage, readUpstreamMessage } from './upstream-message.js'

export const WATCH_PATH = '/etcdserverpb.Watch/Watch'

export interface BridgeMember {
  /** The first revision that it has not been sent. */
  readonly next: number
  /** Whether its stream takes nothing now. */
  readonly isFull: boolean
  /** What it wants, as text: members with the same text want the same events and bytes. */
  readonly wanted: string
  wants(event: UpstreamEvent): boolean
  readonly prevKv: boolean
  /** @param events of whole revisions. @param revision etcd's when it sent them. */
  deliver(events: Buffer, revision: number): void
  /** Everything before `next` has been delivered. */
  passTo(next: number): void
  /** The member has left the bridge, because it can begin again at `next`, or must. */
  leave(): void
  /** etcd no longer has the events from `next` on. */
  compacted(revision: number): void
}

/** Members that arrive within this time share a run. */
const GATHER_MS = 20
const PROGRESS_MS = 100
/** The delay before members of a run that failed begin again. */
const RETRY_MS = 1_000
/** How long a run waits for members whose streams are full, and how often it looks. */
const PATIENCE_MS = 100
const LOOK_MS = 5

const PROGRESS_REQUEST = new BinaryWriter().tag(3, WireType.LengthDelimited).fork().join().finish()

export class Bridges {
  readonly #raw: RawUpstream
  readonly #clock: Clock
  readonly #bridges = new Map<WatchCache, Bridge>()

  constructor(raw: RawUpstream, clock: Clock) {
    this.#raw = raw
    this.#clock = clock
  }

  /** Adds a member. Nothing is delivered from within this call. @returns a function that removes it. */
  enter(cache: WatchCache, member: BridgeMember): () => void {
    let bridge = this.#bridges.get(cache)
    if (bridge === undefined) {
      const forget = (): void => void this.#bridges.delete(cache)
      bridge = new Bridge(cache, this.#raw, this.#clock, forget)
      this.#bridges.set(cache, bridge)
    }
    return bridge.enter(member)
  }

  /** The number of watches on etcd. */
  get running(): number {
    let running = 0
    for (const bridge of this.#bridges.values()) running += bridge.running
    return running
  }

  close(): void {
    for (const bridge of this.#bridges.values()) bridge.close()
  }
}

/** The runs of one prefix. */
class Bridge {
  readonly #cache: WatchCache
  readonly #raw: RawUpstream
  readonly #clock: Clock
  readonly #onEmpty: () => void
  readonly #waiting = new Set<BridgeMember>()
  readonly #runs = new Set<Run>()
  #gather: Timer | null = null

  constructor(cache: WatchCache, raw: RawUpstream, clock: Clock, onEmpty: () => void) {
    this.#cache = cache
    this.#raw = raw
    this.#clock = clock
    this.#onEmpty = onEmpty
  }

  get running(): number {
    return this.#runs.size
  }

  enter(member: BridgeMember): () => void {
    this.#waiting.add(member)
    this.#startIn(GATHER_MS)
    return () => {
      this.#waiting.delete(member)
      for (const run of this.#runs) run.remove(member)
      this.#tidy()
    }
  }

  close(): void {
    this.#gather?.cancel()
    for (const run of this.#runs) run.close()
  }

  #startIn(ms: number): void {
    if (this.#waiting.size === 0) return
    this.#gather ??= this.#clock.setTimer(ms, () => {
      this.#gather = null
      this.#place()
    })
  }

  #place(): void {
    for (const member of this.#waiting) {
      for (const run of this.#runs) if (this.#waiting.has(member) && run.add(member)) this.#waiting.delete(member)
    }
    if (this.#waiting.size === 0 || this.#runs.size >= MAX_BRIDGES) return
    const members = [...this.#waiting]
    this.#waiting.clear()
    const run = new Run(this.#cache, this.#clock, members, (left, isFailed) => {
      this.#runs.delete(run)
      // Such a member would try for as long as it is refused. It leaves, and gets that answer.
      if (this.#cache.source.isRefusing || this.#cache.isRetired) for (const member of left) member.leave()
      else for (const member of left) this.#waiting.add(member)
      this.#startIn(isFailed ? RETRY_MS : GATHER_MS)
      this.#tidy()
    })
    this.#runs.add(run)
    void run.start(this.#raw)
  }

  #tidy(): void {
    if (this.#waiting.size > 0 || this.#runs.size > 0) return
    this.#gather?.cancel()
    this.#gather = null
    this.#onEmpty()
  }
}

/** One watch on etcd. */
class Run {
  readonly #cache: WatchCache
  readonly #clock: Clock
  readonly #members: Set<BridgeMember>
  readonly #onOver: (left: Iterable<BridgeMember>, isFailed: boolean) => void
  readonly #startRevision: number
  #stream: RawStream | null = null
  /** Everything up to this revision has been delivered. */
  #position: number
  #progress: Timer | null = null
  #isOver = false
  /** The events of the last revision of a fragment, which the next fragment may continue. */
  #cut: readonly UpstreamEvent[] = []
  readonly #steps = new InOrder((isBusy) => {
    if (isBusy) this.#stream?.pause()
    else this.#stream?.resume()
  })

  constructor(
    cache: WatchCache,
    clock: Clock,
    members: readonly BridgeMember[],
    onOver: (left: Iterable<BridgeMember>, isFailed: boolean) => void,
  ) {
    this.#cache = cache
    this.#clock = clock
    this.#members = new Set(members)
    this.#onOver = onOver
    this.#startRevision = Math.max(1, Math.min(...members.map(({ next }) => next)))
    this.#position = this.#startRevision - 1
  }

  async start(raw: RawUpstream): Promise<void> {
    try {
      const stream = await raw.stream(WATCH_PATH, {
        onMessage: (message) => this.#steps.do(() => this.#receive(message)),
        onEnd: () => this.#steps.do(() => this.#end(true)),
      })
      if (this.#isOver) return stream.cancel()
      this.#stream = stream
      stream.send(watchOf(this.#cache.prefix, this.#startRevision))
      this.#askForProgress()
    } catch {
      this.#end(true)
    }
  }

  /** @returns false if the run has passed what the member needs. */
  add(member: BridgeMember): boolean {
    if (this.#isOver || member.next <= this.#position) return false
    this.#members.add(member)
    return true
  }

  remove(member: BridgeMember): void {
    if (this.#members.delete(member) && this.#members.size === 0) this.#end(false)
  }

  close(): void {
    this.#isOver = true
    this.#steps.stop()
    this.#progress?.cancel()
    this.#stream?.cancel()
  }

  #askForProgress(): void {
    this.#progress = this.#clock.setTimer(PROGRESS_MS, () => {
      if (this.#cache.isRetired) return this.#passTo(this.#position)
      if (this.#cache.reads.trustsProgress) this.#stream?.send(PROGRESS_REQUEST)
      this.#askForProgress()
    })
  }

  #receive(bytes: Buffer): void | Promise<void> {
    if (this.#isOver) return
    let message: UpstreamMessage
    try {
      message = readUpstreamMessage(bytes)
    } catch {
      return this.#end(true)
    }
    if (message.canceled) return this.#canceled(message)
    if (message.created) return
    if (message.events.length > 0) return this.#deliver(this.#wholeRevisions(message), message.revision)
    // The answer to a request is for all watches of the stream, and may come too early from an old etcd.
    else if (message.watchId !== -1 || this.#cache.reads.trustsProgress) this.#passTo(message.revision)
  }

  #wholeRevisions({ events, isFragment }: UpstreamMessage): readonly UpstreamEvent[] {
    const all = [...this.#cut, ...events]
    const last = all.at(-1)!.modRevision
    const end = isFragment ? all.findLastIndex(({ modRevision }) => modRevision !== last) + 1 : all.length
    this.#cut = all.slice(end)
    return all.slice(0, end)
  }

  async #deliver(events: readonly UpstreamEvent[], revision: number): Promise<void> {
    for (const piece of piecesOf(events)) {
      for (let ms = 0; ms < PATIENCE_MS && this.#hasFull; ms += LOOK_MS) await sleep(this.#clock, LOOK_MS)
      if (this.#isOver) return
      this.#deliverPiece(piece, revision)
    }
  }

  get #hasFull(): boolean {
    for (const member of this.#members) if (member.isFull) return true
    return false
  }

  #deliverPiece(events: readonly UpstreamEvent[], revision: number): void {
    const shared = new Map<string, Buffer>()
    for (const member of this.#members) {
      if (member.isFull) {
        this.#members.delete(member)
        member.leave()
        continue
      }
      const from = Math.max(member.next, events[0]!.modRevision)
      const key = `${from} ${member.wanted}`
      let bytes = shared.get(key)
      if (bytes === undefined) {
        const wanted = events.filter((event) => event.modRevision >= from && member.wants(event))
        bytes = Buffer.concat(wanted.map((event) => event.bytes(member.prevKv)))
        shared.set(key, bytes)
      }
      if (bytes.length > 0) member.deliver(bytes, revision)
    }
    this.#passTo(events.at(-1)!.modRevision)
  }

  #passTo(position: number): void {
    if (position > this.#position) this.#position = position
    const { isRetired, history } = this.#cache
    const hasReached = isRetired || this.#position >= history.floorRevision
    for (const member of this.#members) {
      if (member.next <= this.#position) member.passTo(this.#position + 1)
      if (!hasReached) continue
      this.#members.delete(member)
      member.leave()
    }
    if (this.#members.size === 0) this.#end(false)
  }

  #canceled({ compactRevision, cancelReason }: UpstreamMessage): void {
    if (compactRevision === 0) {
      this.#stream?.refused(cancelReason)
      return this.#end(true)
    }
    for (const member of this.#members) {
      if (member.next >= compactRevision) continue
      this.#members.delete(member)
      member.compacted(compactRevision)
    }
    // The others begin again, above the compaction.
    this.#end(false)
  }

  #end(isFailed: boolean): void {
    if (this.#isOver) return
    this.close()
    this.#onOver(this.#members, isFailed)
  }
}

/** Cuts events between revisions, into pieces of about `SLICE_BYTES`. */
function* piecesOf(events: readonly UpstreamEvent[]): Generator<readonly UpstreamEvent[]> {
  let start = 0
  let bytes = 0
  for (const [i, { modRevision, length }] of events.entries()) {
    if (bytes >= SLICE_BYTES && modRevision !== events[i - 1]!.modRevision) {
      yield events.slice(start, i)
      start = i
      bytes = 0
    }
    bytes += length
  }
  if (start < events.length) yield events.slice(start)
}

/** Asks for fragments, because a thousand revisions with their previous values may exceed any limit. */
function watchOf(prefix: Key, startRevision: number): Uint8Array {
  return new BinaryWriter()
    .tag(1, WireType.LengthDelimited)
    .fork()
    .tag(1, WireType.LengthDelimited)
    .bytes(keyToBytes(prefix))
    .tag(2, WireType.LengthDelimited)
    .bytes(keyToBytes(prefixEnd(prefix)))
    .tag(3, WireType.Varint)
    .int64(startRevision)
    .tag(4, WireType.Varint)
    .bool(true)
    .tag(6, WireType.Varint)
    .bool(true)
    .tag(8, WireType.Varint)
    .bool(true)
    .join()
    .finish()
}
