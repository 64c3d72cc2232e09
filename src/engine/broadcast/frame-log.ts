/**
 * One group's stream as bytes framed for its wire, held in segments. The log records the offset at which each revision
 * ends.
 *
 *     floorRevision
 *     startOffset ▼                                   ▼ endOffset
 *                 [ r4 | r7 r7 | r9 ][ r12 | r15 | r15 ]
 *                 └── segment ──────┘└── segment ──────┘
 *
 * Offsets count bytes since the group began and never repeat. Written bytes never change, because sockets hold slices
 * of them. A revision never straddles two segments, so every slice ends on a revision boundary. The log may be dropped
 * at any time: a cursor below `startOffset` falls back to the ring.
 */
import type { Revision } from '../model/revision.js'
import { type Checksum, EMPTY_CHECKSUM, joined } from '../../support/crc32.js'
import type { WriteUnit } from './wire-format.js'
import { SLICE_BYTES } from '../model/limits.js'

interface Segment {
  readonly buffer: Buffer
  readonly start: number
  used: number
}

/** Memory shared by several logs. */
export interface LogUsage {
  bytes: number
}

/**
 * The bytes that a cursor writes next. After the write, the cursor is at `endOffset` and has seen everything up to
 * `revision`.
 */
export interface LogSlice extends WriteUnit {
  readonly endOffset: number
  readonly revision: Revision
  /** The revision of the last event. */
  readonly eventRevision: Revision
  readonly events: number
}

interface KnownSlice {
  readonly at: number
  /** Whether the slice reaches the end of the log. Then it is stale as soon as the log or the head advances. */
  readonly isHead: boolean
  readonly slice: LogSlice
}

const SMALLEST_SEGMENT_BYTES = 2 * 1024
const LARGEST_SEGMENT_BYTES = 256 * 1024

export class FrameLog {
  #segments: Segment[] = []
  /** For each appended revision, ascending: the revision and its end offset. */
  #revisions: Revision[] = []
  #ends: number[] = []
  #start = 0
  #end = 0
  /** For each appended revision, the number of events appended up to its end offset since the group began. */
  #counts: number[] = []
  /** One checksum per appended revision on a compressed wire, otherwise empty. */
  #checksums: Checksum[] = []
  #startCount = 0
  #count = 0
  #floor: Revision
  #capacity = 0
  #nextSegmentBytes = SMALLEST_SEGMENT_BYTES
  /**
   * The last two slices, newest first. When a slice was cut at its size limit, the cursors of a pass alternate between
   * two offsets.
   */
  #slices: readonly KnownSlice[] = []

  /** @param usage shared by all logs under one limit. */
  constructor(
    revision: Revision,
    readonly usage: LogUsage = { bytes: 0 },
  ) {
    this.#floor = revision
  }

  /** A cursor can read from the log if it has seen everything up to this revision or a later one. */
  get floorRevision(): Revision {
    return this.#floor
  }

  get startOffset(): number {
    return this.#start
  }

  get endOffset(): number {
    return this.#end
  }

  /** Bytes of memory held by the log. */
  get capacity(): number {
    return this.#capacity
  }

  /**
   * Returns the offset at which the oldest segment begins that still fits into `bytes` together with all newer ones.
   * The newest segment is always kept.
   */
  offsetKeeping(bytes: number): number {
    let i = this.#segments.length - 1
    let kept = this.#segments[i]?.buffer.length ?? 0
    while (i > 0 && kept + this.#segments[i - 1]!.buffer.length <= bytes) kept += this.#segments[--i]!.buffer.length
    return this.#segments[i]?.start ?? this.#end
  }

  /** Appends all frames of one revision: `length` bytes, `events` events. */
  append(
    revision: Revision,
    frames: readonly Buffer[],
    length: number,
    events: number,
    checksum: Checksum | null = null,
  ): void {
    let segment = this.#segments.at(-1)
    if (segment === undefined || segment.used + length > segment.buffer.length) segment = this.#newSegment(length)
    for (const frame of frames) {
      frame.copy(segment.buffer, segment.used)
      segment.used += frame.length
    }
    this.#end += length
    this.#revisions.push(revision)
    this.#ends.push(this.#end)
    this.#count += events
    this.#counts.push(this.#count)
    if (checksum !== null) this.#checksums.push(checksum)
  }

  /** Returns the offset of a cursor that has seen everything up to `revision`. @throws RangeError below the floor. */
  offsetAfter(revision: Revision): number {
    if (revision < this.#floor) throw new RangeError(`revision ${revision} is below the log's floor ${this.#floor}`)
    let low = 0
    let high = this.#revisions.length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#revisions[middle]! <= revision) low = middle + 1
      else high = middle
    }
    return low === 0 ? this.#start : this.#ends[low - 1]!
  }

  /**
   * Returns the revision up to which a cursor at `offset` has seen everything: one less than the revision of the first
   * frame that it lacks. The last event written to it may be far older.
   *
   * @param offset at or above `startOffset`.
   */
  revisionAt(offset: number, headRevision: Revision): Revision {
    if (offset >= this.#end) return headRevision
    const first = offset < this.#start ? 0 : this.#boundaryAtOrAfter(offset + 1)
    return (this.#revisions[first]! - 1) as Revision
  }

  /**
   * Returns the bytes from `offset` to the end of its segment, or to the first revision boundary after `SLICE_BYTES`.
   * Cursors at the same offset share a slice.
   *
   * @param headRevision the dispatcher's revision, up to which a cursor at the end of the log has seen everything.
   */
  sliceFrom(offset: number, headRevision: Revision): LogSlice {
    for (const { at, isHead, slice } of this.#slices) {
      if (at !== offset) continue
      if (!isHead || (slice.endOffset === this.#end && slice.revision === headRevision)) return slice
    }
    let i = this.#segments.length - 1
    while (i > 0 && this.#segments[i]!.start > offset) i--
    const segment = this.#segments[i]!
    let endOffset = segment.start + segment.used
    let revision = headRevision
    let eventRevision = this.#revisions.at(-1)!
    let countAtEnd = this.#count
    if (endOffset - offset > SLICE_BYTES || endOffset < this.#end) {
      const cut = this.#boundaryAtOrAfter(Math.min(endOffset, offset + SLICE_BYTES))
      endOffset = this.#ends[cut]!
      countAtEnd = this.#counts[cut]!
      eventRevision = this.#revisions[cut]!
      // A cursor at the end of the log has seen everything up to the head, even if the newest revisions added no frame.
      if (endOffset < this.#end) revision = eventRevision
    }
    const bytes = segment.buffer.subarray(offset - segment.start, endOffset - segment.start)
    const checksum = this.#checksums.length === 0 ? null : this.#checksumOf(offset, endOffset)
    const slice = { bytes, checksum, endOffset, revision, eventRevision, events: countAtEnd - this.#countAt(offset) }
    const known = { at: offset, isHead: endOffset === this.#end, slice }
    const [newest] = this.#slices
    this.#slices = newest === undefined || newest.at === offset ? [known] : [known, newest]
    return slice
  }

  /** Frees the log because every cursor is at the head, `headRevision`. */
  release(headRevision: Revision): void {
    if (this.#segments.length === 0) return
    const [only] = this.#segments
    // Do not halve the size of a segment that is more than half full: its contents would need two segments, so two
    // writes.
    if (this.#segments.length === 1 && only!.used * 2 <= only!.buffer.length) {
      this.#nextSegmentBytes = Math.max(SMALLEST_SEGMENT_BYTES, this.#nextSegmentBytes >> 1)
    }
    this.#drop()
    this.#floor = headRevision
  }

  /** Frees the segments that end at or before `offset`; no cursor needs them any more. */
  trim(offset: number): void {
    let dropped = 0
    let bytes = 0
    while (dropped < this.#segments.length - 1 && this.#segments[dropped + 1]!.start <= offset) {
      bytes += this.#segments[dropped++]!.buffer.length
    }
    if (dropped === 0) return
    this.#segments = this.#segments.slice(dropped)
    this.#start = this.#segments[0]!.start
    const cut = this.#boundaryAtOrAfter(this.#start)
    this.#floor = this.#revisions[cut]!
    this.#revisions = this.#revisions.slice(cut + 1)
    this.#ends = this.#ends.slice(cut + 1)
    this.#startCount = this.#counts[cut]!
    this.#counts = this.#counts.slice(cut + 1)
    this.#checksums = this.#checksums.slice(cut + 1)
    this.#holds(this.#capacity - bytes)
    this.#slices = []
  }

  /** Starts over after `revision`, because the history has changed or no cursor reads the log. */
  reset(revision: Revision): void {
    this.#drop()
    this.#floor = revision
  }

  #drop(): void {
    this.#segments = []
    this.#holds(0)
    this.#revisions = []
    this.#ends = []
    this.#counts = []
    this.#checksums = []
    this.#startCount = this.#count
    this.#start = this.#end
    this.#slices = []
  }

  #checksumOf(offset: number, endOffset: number): Checksum {
    let checksum = EMPTY_CHECKSUM
    const first = offset <= this.#start ? 0 : this.#boundaryAtOrAfter(offset) + 1
    for (let i = first; i < this.#ends.length && this.#ends[i]! <= endOffset; i++) {
      checksum = joined(checksum, this.#checksums[i]!)
    }
    return checksum
  }

  #holds(bytes: number): void {
    this.usage.bytes += bytes - this.#capacity
    this.#capacity = bytes
  }

  #countAt(offset: number): number {
    if (offset <= this.#start) return this.#startCount
    return this.#counts[this.#boundaryAtOrAfter(offset)]!
  }

  #boundaryAtOrAfter(offset: number): number {
    let low = 0
    let high = this.#ends.length - 1
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#ends[middle]! < offset) low = middle + 1
      else high = middle
    }
    return low
  }

  #newSegment(length: number): Segment {
    // The segment size doubles while cursors lag and halves when they keep up, so that a quiet group of one watcher
    // does not hold 256 KB.
    if (this.#segments.length > 0) this.#nextSegmentBytes = Math.min(LARGEST_SEGMENT_BYTES, this.#nextSegmentBytes * 2)
    const buffer = Buffer.allocUnsafeSlow(Math.max(length, this.#nextSegmentBytes))
    const segment = { buffer, start: this.#end, used: 0 }
    this.#segments.push(segment)
    this.#holds(this.#capacity + buffer.length)
    return segment
  }
}
