/**
 * Decodes the two messages of etcd that carry keys and values, RangeResponse and WatchResponse, into our model.
 *
 * Source: etcd api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto, which define the field numbers. Unknown fields are
 * skipped, as protobuf requires.
 */
import type { Batch, Key, KeyEvent, KeyValue } from '../../model/event.js'
import { type Revision, ZERO_REVISION } from '../../model/revision.js'
import { WireCursor } from './wire-cursor.js'

export interface RangeResponse {
  /** The store's revision at the time of the response, which may be newer than the revision that was read. */
  readonly headerRevision: Revision
  readonly keyValues: readonly KeyValue[]
  readonly more: boolean
  readonly count: number
}

export interface WatchMessage {
  readonly headerRevision: Revision
  /** -1 if the response is for every watcher of the stream, or for none. */
  readonly watchId: number
  readonly created: boolean
  readonly canceled: boolean
  readonly compactRevision: Revision
  readonly cancelReason: string
  /** Whether the response continues with the next message. */
  readonly isFragment: boolean
  /**
   * Whole revisions, because etcd never splits a revision over two responses. A live response is one transaction, and a
   * response to a watch that catches up stops at a revision boundary (server/storage/mvcc/watcher_group.go,
   * `eventBatch.add`; unchanged since 3.4). Only a *fragmented* response may be cut anywhere: the last revision of a
   * fragment may continue in the next one.
   */
  readonly batches: readonly Batch[]
}

const VARINT = 0
const BYTES = 2
const field = (number: number, wireType: number): number => (number << 3) | wireType

const HEADER_REVISION = field(3, VARINT)

const RANGE_HEADER = field(1, BYTES)
const RANGE_KVS = field(2, BYTES)
const RANGE_MORE = field(3, VARINT)
const RANGE_COUNT = field(4, VARINT)

const STREAM_RANGE = field(1, BYTES)

const WATCH_HEADER = field(1, BYTES)
const WATCH_ID = field(2, VARINT)
const WATCH_CREATED = field(3, VARINT)
const WATCH_CANCELED = field(4, VARINT)
const WATCH_COMPACT_REVISION = field(5, VARINT)
const WATCH_CANCEL_REASON = field(6, BYTES)
const WATCH_FRAGMENT = field(7, VARINT)
const WATCH_EVENTS = field(11, BYTES)

const EVENT_TYPE = field(1, VARINT)
const EVENT_KV = field(2, BYTES)

const KV_KEY = field(1, BYTES)
const KV_CREATE_REVISION = field(2, VARINT)
const KV_MOD_REVISION = field(3, VARINT)
const KV_VERSION = field(4, VARINT)
const KV_VALUE = field(5, BYTES)
const KV_LEASE = field(6, VARINT)

/** The number of bytes decoded in one part. This takes a few tenths of a millisecond. */
const PART_BYTES = 64 * 1024

type Open<T> = { -readonly [K in keyof T]: T[K] }

/** Decodes a message part by part. */
class Decoding<Result> {
  readonly #cursor: WireCursor
  readonly #read: (cursor: WireCursor, tag: number) => void

  /** @param result the object that `read` fills; complete only after the last part. */
  constructor(
    message: Buffer,
    readonly result: Result,
    read: (cursor: WireCursor, tag: number) => void,
  ) {
    this.#cursor = new WireCursor(message)
    this.#read = read
  }

  /** @returns whether there is more to decode. @throws UpstreamError 'protocol' */
  part(): boolean {
    const cursor = this.#cursor
    const { length } = cursor.bytes
    const end = Math.min(length, cursor.pos + PART_BYTES)
    while (cursor.pos < end) this.#read(cursor, cursor.tag())
    return cursor.pos < length
  }

  /** @throws UpstreamError 'protocol' */
  whole(): Result {
    while (this.part());
    return this.result
  }
}

/**
 * @param isPage whether values become slices of the message, because they make up most of it. A caller that keeps such
 * a value must copy it, as `kubernetes/codec/ingest.ts` does.
 */
export function rangeDecoding(message: Buffer, isPage = false): Decoding<RangeResponse> {
  const keyValues: KeyValue[] = []
  const response: Open<RangeResponse> = { headerRevision: ZERO_REVISION, keyValues, more: false, count: 0 }
  return new Decoding(message, response, (cursor, tag) => {
    if (tag === RANGE_KVS) keyValues.push(readKeyValue(cursor, cursor.length(), isPage))
    else if (tag === RANGE_HEADER) response.headerRevision = readHeaderRevision(cursor, cursor.length())
    else if (tag === RANGE_MORE) response.more = cursor.bool()
    else if (tag === RANGE_COUNT) response.count = cursor.int64()
    else cursor.pass(tag)
  })
}

/** Returns the RangeResponse in a RangeStreamResponse. @throws UpstreamError 'protocol' */
export function rangeOfStream(message: Buffer): Buffer {
  const cursor = new WireCursor(message)
  while (cursor.pos < message.length) {
    const tag = cursor.tag()
    if (tag !== STREAM_RANGE) {
      cursor.pass(tag)
      continue
    }
    const length = cursor.length()
    return message.subarray(cursor.pos, cursor.pos + length)
  }
  return message.subarray(message.length)
}

export function watchDecoding(message: Buffer): Decoding<WatchMessage> {
  const batches: OpenBatch[] = []
  const response: Open<WatchMessage> = {
    headerRevision: ZERO_REVISION,
    watchId: 0,
    created: false,
    canceled: false,
    compactRevision: ZERO_REVISION,
    cancelReason: '',
    isFragment: false,
    batches,
  }
  return new Decoding(message, response, (cursor, tag) => {
    if (tag === WATCH_EVENTS) readEvent(cursor, cursor.length(), batches)
    else if (tag === WATCH_HEADER) response.headerRevision = readHeaderRevision(cursor, cursor.length())
    else if (tag === WATCH_ID) response.watchId = cursor.int64()
    else if (tag === WATCH_CREATED) response.created = cursor.bool()
    else if (tag === WATCH_CANCELED) response.canceled = cursor.bool()
    else if (tag === WATCH_COMPACT_REVISION) response.compactRevision = cursor.int64() as Revision
    else if (tag === WATCH_CANCEL_REASON) response.cancelReason = cursor.latin1()
    else if (tag === WATCH_FRAGMENT) response.isFragment = cursor.bool()
    else cursor.pass(tag)
  })
}

function readHeaderRevision(cursor: WireCursor, length: number): Revision {
  const end = cursor.pos + length
  let revision = 0
  while (cursor.pos < end) {
    const tag = cursor.tag()
    if (tag === HEADER_REVISION) revision = cursor.int64()
    else cursor.pass(tag)
  }
  return revision as Revision
}

interface OpenBatch extends Batch {
  readonly events: KeyEvent[]
}

function readEvent(cursor: WireCursor, length: number, batches: OpenBatch[]): void {
  const end = cursor.pos + length
  let isDelete = false
  let keyValue: KeyValue | null = null
  while (cursor.pos < end) {
    const tag = cursor.tag()
    if (tag === EVENT_KV) keyValue = readKeyValue(cursor, cursor.length())
    else if (tag === EVENT_TYPE) isDelete = cursor.int64() === 1
    else cursor.pass(tag)
  }
  keyValue ??= EMPTY_KEY_VALUE
  const event: KeyEvent = isDelete ? { type: 'delete', key: keyValue.key } : { type: 'put', keyValue }
  const revision = keyValue.modRevision
  const last = batches.at(-1)
  if (last?.revision === revision) last.events.push(event)
  else batches.push({ revision, events: [event] })
}

function readKeyValue(cursor: WireCursor, length: number, isSlice = false): KeyValue {
  const end = cursor.pos + length
  let key = ''
  let value = EMPTY
  let createRevision = 0
  let modRevision = 0
  let version = 0
  let leaseId = '0'
  while (cursor.pos < end) {
    const tag = cursor.tag()
    switch (tag) {
      case KV_KEY:
        key = cursor.latin1()
        break
      case KV_VALUE: {
        const size = cursor.length()
        value = isSlice
          ? cursor.bytes.subarray(cursor.pos, cursor.pos + size)
          : ownBytes(cursor.bytes, cursor.pos, size)
        cursor.pos += size
        break
      }
      case KV_CREATE_REVISION:
        createRevision = cursor.int64()
        break
      case KV_MOD_REVISION:
        modRevision = cursor.int64()
        break
      case KV_VERSION:
        version = cursor.int64()
        break
      case KV_LEASE:
        leaseId = cursor.int64Text()
        break
      default:
        cursor.pass(tag)
    }
  }
  return {
    key: key as Key,
    value,
    createRevision: createRevision as Revision,
    modRevision: modRevision as Revision,
    version,
    leaseId,
  }
}

const EMPTY: Buffer = Buffer.alloc(0)

const EMPTY_KEY_VALUE: KeyValue = {
  key: '' as Key,
  value: EMPTY,
  createRevision: 0 as Revision,
  modRevision: 0 as Revision,
  version: 0,
  leaseId: '0',
}

/** A value smaller than this is cheaper in a shared slab than in separate memory. */
const OWN_MEMORY_BYTES = 2048

/**
 * Returns a slice if the value makes up at least half of the memory behind the message, otherwise a copy. A slice keeps
 * all of that memory alive, which may be a whole read of the socket.
 */
function ownBytes(message: Buffer, at: number, size: number): Buffer {
  if (size === 0) return EMPTY
  if (size >= OWN_MEMORY_BYTES && size * 2 >= message.buffer.byteLength) return message.subarray(at, at + size)
  const copy = Buffer.allocUnsafe(size)
  message.copy(copy, 0, at, at + size)
  return copy
}
