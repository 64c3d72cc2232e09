/**
 * Watchers that receive the same bytes, because they share a matcher, an encoding and a wire. Each event is encoded and
 * framed once for all of them and appended to the group's log. Bytes that differ between watchers are written outside
 * the log, on revision boundaries.
 */
import type { CacheBatch } from '../cache/cache-batch.js'
import type { Snapshot } from '../cache/store.js'
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'
import type { BodyEncoder } from '../model/body-encoder.js'
import type { Bookmark } from '../model/bookmark.js'
import { getOrMake } from '../../support/memo.js'
import type { Scratch } from '../../support/scratch.js'
import { FrameLog, type LogUsage } from './frame-log.js'
import { InitialFrames } from './initial-frames.js'
import type { Matcher, MatchedEvent } from './matcher.js'
import { type Member, Members } from './members.js'
import {
  type EventUnit,
  errorUnit,
  NO_EVENTS,
  type WireFormat,
  type WriteUnit,
  packed,
  totalLength,
  writeUnit,
} from './wire-format.js'

/** An initial state begun less than this long ago is shared with new watchers that accept its revision. */
const INITIAL_SHARE_MS = 2_000

/** The encoded objects of one batch, by encoder: groups that differ only in their wire share them. */
export type Bodies = Map<BodyEncoder['key'], Map<StoredObject, Buffer | null>>

/** Frames of events, in consecutive parts. */
interface Frames {
  readonly parts: readonly Buffer[]
  readonly events: number
}

/**
 * Returns the level of a number of watchers. Each level covers a factor of two, and larger numbers have higher levels.
 */
export function watchersLevel(watchers: number): number {
  return 32 - Math.clz32(watchers)
}

export class Group<M extends Member = Member> {
  readonly log: FrameLog
  readonly members = new Members<M>()
  /** Whether the group is in the pump's queue; written only by the pump. */
  isDirty = false
  #watchers = 0
  #identity: string | null = null
  #flow = ''
  /** Monotonic milliseconds at which the newest event in the log was received. */
  receivedAtMs = 0
  readonly #initial = new Map<Revision, InitialFrames>()
  #bookmarkRevision = -1
  #bookmark: WriteUnit | null = null

  constructor(
    readonly key: string,
    readonly matcher: Matcher,
    readonly encoder: BodyEncoder,
    readonly wire: WireFormat,
    revision: Revision,
    logUsage: LogUsage,
  ) {
    this.log = new FrameLog(revision, logUsage)
  }

  /** The number of watchers, in any state. */
  get watchers(): number {
    return this.#watchers
  }

  /**
   * The flow to which the group belongs; the pump shares its time evenly between flows. A flow contains one caller's
   * groups with about equally many watchers. Groups that several callers share form flows without a caller. So
   * thousands of groups with one watcher each delay neither other callers' groups nor a group with a hundred watchers.
   */
  get flow(): string {
    return this.#flow
  }

  enter(identity: string): void {
    if (this.#watchers === 0) this.#identity = identity
    else if (this.#identity !== identity) this.#identity = null
    this.#setWatchers(this.#watchers + 1)
  }

  leave(): void {
    this.#setWatchers(this.#watchers - 1)
  }

  /** Returns the frames of one revision's events, or null when there is nothing to deliver. */
  #framesOf(
    matchedEvents: readonly MatchedEvent[],
    revision: Revision,
    bodies: Bodies | null,
    isFirst = false,
  ): Frames | null {
    const shown =
      this.encoder.isSame === null ? matchedEvents : matchedEvents.filter((matchedEvent) => this.#isShown(matchedEvent))
    if (shown.length === 0) return null
    const known = bodies === null ? null : getOrMake(bodies, this.encoder.key, () => new Map())
    const encoded: (Buffer | null)[] = []
    const types: MatchedEvent['type'][] = []
    const parts: Buffer[] = []
    let events = 0
    for (let i = 0; i < shown.length; i++) {
      const { type, object, event } = shown[i]!
      const isStillFirst = isFirst && encoded.every((body) => body === null)
      let body = isStillFirst ? this.encoder.encodeFirst!(object, revision) : known?.get(object)
      if (body === undefined) {
        const { encodeChange } = this.encoder
        body = encodeChange === undefined ? this.encoder.encode(object, revision) : encodeChange(event)
        known?.set(object, body)
      }
      encoded.push(body)
      types.push(type)
    }
    const last = encoded.findLastIndex((body) => body !== null)
    if (last === -1) return null
    for (let i = 0; i <= last; i++) {
      const body = encoded[i]!
      // Only the last frame says where to resume, because a client cannot resume inside a revision.
      if (body === null) continue
      parts.push(...this.wire.frame(types[i]!, body, i === last ? revision : null))
      events++
    }
    return { parts, events }
  }

  /** Appends one revision's events to the log. @returns the number of bytes. */
  append(batch: CacheBatch, matchedEvents: readonly MatchedEvent[], bodies: Bodies): number {
    const frames = this.#framesOf(matchedEvents, batch.revision, bodies)
    if (frames === null) return 0
    const { parts, checksum } = packed(this.wire, frames.parts)
    const length = totalLength(parts)
    this.log.append(batch.revision, parts, length, frames.events, checksum)
    this.receivedAtMs = batch.receivedAtMs
    return length
  }

  /** Encodes one revision's events for a cursor that reads from the ring instead of the log. */
  replay(batch: CacheBatch, isFirst: boolean): EventUnit {
    const matchedEvents: MatchedEvent[] = []
    for (const event of batch.events) {
      const matchedEvent = this.matcher.match(event)
      if (matchedEvent !== null) matchedEvents.push(matchedEvent)
    }
    const frames = this.#framesOf(matchedEvents, batch.revision, null, isFirst)
    return frames === null ? NO_EVENTS : { ...writeUnit(this.wire, frames.parts), events: frames.events }
  }

  /** Returns a bookmark as a write unit. */
  bookmark(bookmark: Bookmark): WriteUnit {
    const { revision, endsInitialEvents } = bookmark
    if (!endsInitialEvents && this.#bookmark !== null && this.#bookmarkRevision === revision) return this.#bookmark
    const unit = writeUnit(this.wire, this.wire.frame('BOOKMARK', this.encoder.bookmark(bookmark), revision))
    if (!endsInitialEvents) {
      this.#bookmark = unit
      this.#bookmarkRevision = revision
    }
    return unit
  }

  /** Returns the mark, as `Mark.frame` does. Call it only if the wire has marks. */
  mark(revision: Revision | null): WriteUnit {
    return writeUnit(this.wire, [this.wire.mark!.frame(revision)])
  }

  error(error: Error): WriteUnit {
    return errorUnit(this.wire, this.encoder.failure(error))
  }

  /** @param minRevision the oldest acceptable revision of a shared state; null accepts only the snapshot's own. */
  initialFrames(snapshot: Snapshot, prefix: Key, minRevision: Revision | null, nowMs: number): InitialFrames {
    for (const shared of this.#initial.values()) {
      if (shared.hasFailed) continue
      const isFreshEnough = minRevision !== null && shared.revision >= minRevision
      if (shared.revision === snapshot.revision || (isFreshEnough && nowMs - shared.startedAtMs < INITIAL_SHARE_MS)) {
        shared.users++
        return shared
      }
    }
    let isFirst = this.encoder.encodeFirst !== null
    const frame = (object: StoredObject, scratch: Scratch): readonly Buffer[] | null => {
      const body = isFirst
        ? this.encoder.encodeFirst!(object, object.modRevision)
        : this.encoder.encode(object, object.modRevision, scratch)
      if (body === null) return null
      isFirst = false
      return this.wire.frame('ADDED', body, null)
    }
    const pack = (parts: readonly Buffer[]): WriteUnit => writeUnit(this.wire, parts, true)
    const matches = (object: StoredObject): boolean => this.matcher.matches(object)
    const frames = new InitialFrames(snapshot, prefix, matches, frame, pack, nowMs)
    frames.users = 1
    this.#initial.set(frames.revision, frames)
    return frames
  }

  releaseInitial(frames: InitialFrames): void {
    frames.users--
    if (frames.users === 0 && this.#initial.get(frames.revision) === frames) this.#initial.delete(frames.revision)
  }

  #isShown({ type, event }: MatchedEvent): boolean {
    return type !== 'MODIFIED' || !this.encoder.isSame!(event.previous!, event.object!)
  }

  #setWatchers(watchers: number): void {
    const level = watchersLevel(watchers)
    const owner = this.#identity === null ? '' : `\n${this.#identity}`
    this.#watchers = watchers
    this.#flow = `${level}${owner}`
  }
}
