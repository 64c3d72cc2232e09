/**
 * Frames encoded events for one kind of connection. A wire format is stateless, so a group can frame an event once for
 * all its watchers.
 */
import type { EventType } from '../model/event-type.js'
import type { Revision } from '../model/revision.js'
import type { Failure } from '../model/body-encoder.js'
import { type Checksum, checksumOf, joined } from '../../support/crc32.js'
import { deflateBlock, storedBlocks } from './gzip.js'

export type TransportKind = 'http1' | 'http2' | 'websocket' | 'sse' | 'grpc'

/**
 * Which parts of a gzip stream are compressed, once for the whole group. Initial states are large and shared. A single
 * event is small and may have only one watcher, so it is compressed only for clients that request that. For others, the
 * gzip stream contains it as a stored block.
 */
export type Compression = 'none' | 'initial-state' | 'everything'

export interface WireFormat {
  /** Unique for each way of framing; part of a group's key. */
  readonly key: string
  /** The transport's name in metrics. */
  readonly transport: TransportKind
  /**
   * @param body the encoded object.
   * @param resumeAfter the revision after which a client that has this event may resume; null in the middle of a
   * revision, in the initial state and on an error.
   * @returns the event in consecutive parts.
   */
  frame(type: EventType, body: Buffer, resumeAfter: Revision | null): readonly Buffer[]
  /** The bytes around the frames of one write unit (all events of a revision): an HTTP/1.1 chunk, or nothing. */
  readonly envelope: Envelope | null
  /**
   * Returns the bytes after an ERROR that tell the client how to reconnect (SSE's `retry:` and `id:`); null for none.
   */
  afterError(failure: Failure): Buffer | null
  /** The mark for a quiet watcher, also sent after its initial state. null if the client would take it for an event. */
  readonly mark: Mark | null
  readonly compression: Compression
}

/** Bytes that are not an event to the client but show it that the stream is alive, and how far it has come. */
export interface Mark {
  /** @param revision the watcher's position; null when the client knows it already, or when it is undecided. */
  frame(revision: Revision | null): Buffer
  /** Whether marks tell the client its position (SSE's `id:`), so that a quiet watcher needs no bookmark for that. */
  readonly hasPosition: boolean
  /** The longest silence in milliseconds, because proxies close idle connections. */
  readonly everyMs: number
}

export interface Envelope {
  before(length: number): Buffer
  readonly after: Buffer
}

/** One HTTP/1.1 chunk: the length in hex, the bytes, CRLF (RFC 9112, 7.1). */
export const chunkEnvelope: Envelope = {
  before: (length) => Buffer.from(`${length.toString(16)}\r\n`, 'latin1'),
  after: Buffer.from('\r\n', 'latin1'),
}

/** Bytes written in one step, or as part of one. */
export interface WriteUnit {
  readonly bytes: Buffer
  /** The checksum of the uncompressed bytes; null when nothing was compressed. */
  readonly checksum: Checksum | null
}

export interface EventUnit extends WriteUnit {
  readonly events: number
}

/** Nothing to write, because the watcher sees none of a batch's events or no object of the state is ready yet. */
export const NO_EVENTS: EventUnit = { bytes: Buffer.alloc(0), checksum: null, events: 0 }

/** Wraps frames as one write unit, without joining its parts. */
export function packed(
  { compression, envelope }: WireFormat,
  frames: readonly Buffer[],
  isInitialState = false,
): { readonly parts: readonly Buffer[]; readonly checksum: Checksum | null } {
  if (compression === 'none') return { parts: enclosed(envelope, frames), checksum: null }
  const bytes = Buffer.concat(frames)
  const blocks = isInitialState || compression === 'everything' ? [deflateBlock(bytes)] : storedBlocks(bytes)
  return { parts: enclosed(envelope, blocks), checksum: checksumOf(bytes) }
}

export function writeUnit(wire: WireFormat, frames: readonly Buffer[], isInitialState = false): WriteUnit {
  const { parts, checksum } = packed(wire, frames, isInitialState)
  return { bytes: Buffer.concat(parts), checksum }
}

/** Joins several units into one; returns a single one unchanged. */
export function joinedUnits(units: readonly EventUnit[]): EventUnit {
  if (units.length < 2) return units[0] ?? NO_EVENTS
  let checksum: Checksum | null = null
  let events = 0
  for (const unit of units) {
    if (unit.checksum !== null) checksum = checksum === null ? unit.checksum : joined(checksum, unit.checksum)
    events += unit.events
  }
  return { bytes: Buffer.concat(units.map(({ bytes }) => bytes)), checksum, events }
}

/** Returns an ERROR with everything that follows it on this wire. */
export function errorUnit(wire: WireFormat, failure: Failure): WriteUnit {
  const frame = wire.frame('ERROR', failure.body, null)
  const after = wire.afterError(failure)
  return writeUnit(wire, after === null ? frame : [...frame, after])
}

export function enclosed(envelope: Envelope | null, parts: readonly Buffer[]): readonly Buffer[] {
  return envelope === null ? parts : [envelope.before(totalLength(parts)), ...parts, envelope.after]
}

export function totalLength(buffers: readonly Buffer[]): number {
  let length = 0
  for (const buffer of buffers) length += buffer.length
  return length
}
