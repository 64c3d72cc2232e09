/**
 * The messages of a stream, and their bytes.
 *
 * Every message carries its own fence: the epoch of the publisher that wrote it and the revision it follows. So a
 * reader of the stream detects every hole, repetition and foreign message from the data itself, whatever the broker
 * does. A batch is never split between messages. A message that is too large for NATS is sent in numbered parts, which
 * are not used before the last has arrived. JSON was rejected, because a message consists mostly of values, and values
 * are bytes.
 *
 *     magic 'D' │ format │ kind │ flags │ part u16 │ parts u16 │ epoch f64 │ previous f64 │ revision f64 │ settled f64
 *     │
 *     sentAt f64 │ body … │ fingerprint, if a flag says so … │ crc32 u32
 */
import { crc32 } from 'node:zlib'
import type { DigestedHistory, DigestedPut } from '../../engine/feed/history-fingerprint.js'
import type { Batch } from '../../engine/model/event.js'
import { type Revision, toRevision } from '../../engine/model/revision.js'
import { ByteReader, ByteWriter } from '../byte-codec.js'
import { readBatches, writeBatches } from '../key-value-codec.js'
import { BrokerError } from '../broker.js'
import { isSealed } from './signed-envelope.js'

export interface Header {
  /** The publisher's number. Each publisher that takes over the stream increments it. */
  readonly epoch: number
  /** The stream's revision before this message. */
  readonly previous: Revision
  /** The stream's revision after this message. */
  readonly revision: Revision
  /** The newest revision delivered as events or state; `revision` may be higher because of progress messages. */
  readonly settled: Revision
  /**
   * When the message was written, in Unix milliseconds by the publisher's clock. In a claim, in a mark written while etcd
   * does not answer, and in what a publisher writes before it has caught up, a time at which etcd had the content.
   */
  readonly sentAt: number
  /**
   * Whether the publisher has proven that it reached the revision that etcd had when the publisher began. If so, edges
   * may answer reads.
   */
  readonly isSynced: boolean
  /** Whether this etcd's responses to progress requests can be trusted. */
  readonly trustsProgress: boolean
}

export type Body =
  | { readonly kind: 'batches'; readonly batches: readonly Batch[] }
  /** Nothing changed up to `revision`. */
  | { readonly kind: 'progress' }
  /** A publisher takes over, and continues from the end of the stream. */
  | { readonly kind: 'claim' }
  /** A whole state replaces everything before it; its snapshot is in the object store. */
  | { readonly kind: 'state'; readonly reason: StateReason; readonly snapshot: string }

export type StateReason = 'gap' | 'coalesce' | 'history-changed'

export interface Origin {
  /** Names the etcd that was read. */
  readonly clusterId: string
  /**
   * The fingerprint of the history up to this message, by which the next publisher recognizes the history. Every mark
   * has a fingerprint, and so does one in eight messages of batches. For the other messages, a reader computes it from
   * the last fingerprint before them.
   */
  readonly fingerprint?: DigestedHistory
}

export type Message = Header & Body & Origin

/** A place in a stream, and everything known from the messages up to there. */
export interface StreamPlace extends Pick<Message, 'epoch' | 'revision' | 'clusterId' | 'isSynced'> {
  /** The last message. */
  readonly sequence: number
}

/** One piece of a message, as written. */
export interface Part {
  readonly index: number
  readonly count: number
  readonly header: Header
  readonly kind: Body['kind']
  readonly hasFingerprint: boolean
  readonly bytes: Buffer
}

const SYNCED = 1
const TRUSTS_PROGRESS = 2
const HAS_FINGERPRINT = 4
const KINDS: readonly Body['kind'][] = ['batches', 'progress', 'claim', 'state']
const MAGIC = 0x44
const FORMAT = 2
const HEADER_BYTES = 8 + 5 * 8
const CRC_BYTES = 4

/** @param maxBytes the size of one part, including its header. @returns at least one part, in writing order. */
export function encodeMessage(message: Message, maxBytes: number): Buffer[] {
  const body = encodeBody(message)
  const room = maxBytes - HEADER_BYTES - CRC_BYTES
  const count = Math.max(1, Math.ceil(body.length / room))
  const parts: Buffer[] = []
  for (let index = 0; index < count; index++) {
    const piece = body.subarray(index * room, (index + 1) * room)
    const part = Buffer.allocUnsafe(HEADER_BYTES + piece.length + CRC_BYTES)
    part[0] = MAGIC
    part[1] = FORMAT
    part[2] = KINDS.indexOf(message.kind)
    part[3] = flagsOf(message)
    part.writeUInt16BE(index, 4)
    part.writeUInt16BE(count, 6)
    part.writeDoubleBE(message.epoch, 8)
    part.writeDoubleBE(message.previous, 16)
    part.writeDoubleBE(message.revision, 24)
    part.writeDoubleBE(message.settled, 32)
    part.writeDoubleBE(message.sentAt, 40)
    piece.copy(part, HEADER_BYTES)
    part.writeUInt32BE(crc32(part.subarray(0, part.length - CRC_BYTES)), part.length - CRC_BYTES)
    parts.push(part)
  }
  return parts
}

/** @throws BrokerError `corrupt` */
export function decodePart(data: Buffer): Part {
  if (isSealed(data)) throw corrupt('is signed, but this replica has no --nats-signing-key-file')
  if (data.length < HEADER_BYTES + CRC_BYTES || data[0] !== MAGIC) throw corrupt('was not written by distributary')
  if (data[1] !== FORMAT) throw corrupt(`has format ${data[1]}, so another version wrote it`)
  const end = data.length - CRC_BYTES
  if (crc32(data.subarray(0, end)) !== data.readUInt32BE(end)) throw corrupt('does not match its checksum')
  const kind = KINDS[data[2] ?? 255]
  if (kind === undefined) throw corrupt(`is of unknown kind ${data[2]}`)
  const flags = data[3] ?? 0
  const header = {
    epoch: numberIn(data, 8, isCount),
    previous: numberIn(data, 16, isCount) as Revision,
    revision: numberIn(data, 24, isCount) as Revision,
    settled: numberIn(data, 32, isCount) as Revision,
    sentAt: numberIn(data, 40, Number.isFinite),
    isSynced: (flags & SYNCED) !== 0,
    trustsProgress: (flags & TRUSTS_PROGRESS) !== 0,
  }
  const bytes = data.subarray(HEADER_BYTES, end)
  const hasFingerprint = (flags & HAS_FINGERPRINT) !== 0
  return { index: data.readUInt16BE(4), count: data.readUInt16BE(6), header, kind, hasFingerprint, bytes }
}

/** Reads a message from all its parts, in order. @throws BrokerError `corrupt` */
export function joinParts(parts: readonly Part[]): Message {
  const [first] = parts
  if (first === undefined) throw corrupt('has no part')
  const bytes = parts.length === 1 ? first.bytes : Buffer.concat(parts.map((part) => part.bytes))
  try {
    const reader = new ByteReader(bytes, 'copied')
    const clusterId = reader.text()
    const message = { ...first.header, clusterId, ...decodeBody(first.kind, reader) }
    if (message.kind === 'batches' && !isInOrder(message)) throw corrupt('has batches out of order')
    return first.hasFingerprint ? { ...message, fingerprint: readFingerprint(reader) } : message
  } catch (error) {
    if (error instanceof BrokerError) throw error
    throw new BrokerError('corrupt', 'a message in the stream cannot be read', { cause: error })
  }
}

function numberIn(data: Buffer, offset: number, isPossible: (value: number) => boolean): number {
  const value = data.readDoubleBE(offset)
  if (!isPossible(value)) throw corrupt(`has ${value} in its header`)
  return value
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0
}

/** Whether the batches ascend from the revision that the message continues to the one that it ends at. */
function isInOrder({ batches, previous, revision: end }: Header & Extract<Body, { kind: 'batches' }>): boolean {
  let at = previous
  for (const { revision } of batches) {
    if (revision <= at) return false
    at = revision
  }
  return at <= end
}

function corrupt(what: string): BrokerError {
  return new BrokerError('corrupt', `a message in the stream ${what}`)
}

const REASONS: readonly StateReason[] = ['gap', 'coalesce', 'history-changed']

function flagsOf({ isSynced, trustsProgress, fingerprint }: Header & Origin): number {
  const flags = (isSynced ? SYNCED : 0) | (trustsProgress ? TRUSTS_PROGRESS : 0)
  return flags | (fingerprint === undefined ? 0 : HAS_FINGERPRINT)
}

/** Encodes the cluster id, the body, and the fingerprint if there is one. */
function encodeBody(body: Body & Origin): Buffer {
  const writer = new ByteWriter()
  writer.text(body.clusterId)
  switch (body.kind) {
    case 'batches':
      writeBatches(writer, body.batches)
      break
    case 'state':
      writer.byte(REASONS.indexOf(body.reason))
      writer.text(body.snapshot)
      break
    case 'progress':
    case 'claim':
      break
    default:
      body satisfies never
  }
  if (body.fingerprint !== undefined) writeFingerprint(writer, body.fingerprint)
  return writer.done()
}

function decodeBody(kind: Body['kind'], reader: ByteReader): Body {
  switch (kind) {
    case 'batches':
      return { kind, batches: readBatches(reader) }
    case 'progress':
    case 'claim':
      return { kind }
    case 'state': {
      const reason = REASONS[reader.byte()]
      if (reason === undefined) throw corrupt('gives an unknown reason')
      return { kind, reason, snapshot: reader.text() }
    }
    default:
      return kind satisfies never
  }
}

function writeFingerprint(writer: ByteWriter, fingerprint: DigestedHistory): void {
  const { puts, lastDelete, keyCount } = fingerprint
  writer.byte((keyCount === null ? 0 : 1) | (lastDelete === null ? 0 : 2))
  if (keyCount !== null) writer.number(keyCount)
  if (lastDelete !== null) writer.key(lastDelete.key).number(lastDelete.revision)
  writer.count(puts.length)
  for (const { key, createRevision, modRevision, version, digest } of puts) {
    writer.key(key).number(createRevision).number(modRevision).number(version).bytes(digest)
  }
}

function readFingerprint(reader: ByteReader): DigestedHistory {
  const flags = reader.byte()
  const keyCount = (flags & 1) === 0 ? null : reader.number()
  const lastDelete = (flags & 2) === 0 ? null : { key: reader.key(), revision: toRevision(reader.number()) }
  const puts: DigestedPut[] = []
  for (let left = reader.count(); left > 0; left--) {
    puts.push({
      key: reader.key(),
      createRevision: toRevision(reader.number()),
      modRevision: toRevision(reader.number()),
      version: reader.number(),
      digest: reader.bytes(),
    })
  }
  return { puts, lastDelete, keyCount }
}
