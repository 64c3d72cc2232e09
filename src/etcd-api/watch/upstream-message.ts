/** Reads the messages of etcd's own watches, for watches that are bridged or forwarded. */
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire'
import { type Key, keyFromBytes } from '../../engine/model/event.js'
import { bufferOf } from '../../support/buffer-of.js'
import { readFields } from '../../support/protobuf-fields.js'
import { safeInteger } from '../requests.js'
import { fieldsExcept } from '../status.js'
import { field, joinedParts } from '../responses.js'
import { EVENTS_FIELD } from './watch-encoding.js'

export interface UpstreamEvent {
  readonly key: Key
  readonly modRevision: number
  readonly isDelete: boolean
  readonly hasPrevious: boolean
  /** The bytes that it takes. */
  readonly length: number
  /** The event as a field of a WatchResponse. @param withPrevious whether to keep the previous key-value. */
  bytes(withPrevious: boolean): Buffer
}

export interface UpstreamMessage {
  readonly revision: number
  readonly watchId: number
  readonly created: boolean
  readonly canceled: boolean
  readonly compactRevision: number
  /** Whether the next message goes on with the same events, maybe within a revision. */
  readonly isFragment: boolean
  readonly events: readonly UpstreamEvent[]
}

const PREVIOUS_FIELD: ReadonlySet<number> = new Set([3])

export function readUpstreamMessage(message: Uint8Array): UpstreamMessage {
  const events: UpstreamEvent[] = []
  const read = {
    revision: 0,
    watchId: 0,
    created: false,
    canceled: false,
    compactRevision: 0,
    isFragment: false,
    events,
  }
  readFields(message, {
    1: (reader) => readFields(reader.bytes(), { 3: (header) => (read.revision = safeInteger(header)) }),
    2: (reader) => (read.watchId = safeInteger(reader)),
    3: (reader) => (read.created = reader.bool()),
    4: (reader) => (read.canceled = reader.bool()),
    5: (reader) => (read.compactRevision = safeInteger(reader)),
    7: (reader) => (read.isFragment = reader.bool()),
    [EVENTS_FIELD]: (reader) => events.push(readEvent(reader.bytes())),
  })
  return read
}

function readEvent(bytes: Uint8Array): UpstreamEvent {
  let key = '' as Key
  const event = { modRevision: 0, isDelete: false, hasPrevious: false }
  readFields(bytes, {
    1: (reader) => (event.isDelete = reader.int32() === 1),
    2: (reader) =>
      readFields(reader.bytes(), {
        1: (kv) => (key = keyFromBytes(bufferOf(kv.bytes()))),
        3: (kv) => (event.modRevision = safeInteger(kv)),
      }),
    3: (reader) => {
      reader.bytes()
      event.hasPrevious = true
    },
  })
  let whole: Buffer | null = null
  let bare: Buffer | null = null
  return {
    ...event,
    key,
    length: bytes.length,
    bytes: (withPrevious) => {
      if (withPrevious || !event.hasPrevious) return (whole ??= joinedParts(field(EVENTS_FIELD, [bytes])))
      return (bare ??= joinedParts(field(EVENTS_FIELD, fieldsExcept(bytes, PREVIOUS_FIELD))))
    },
  }
}

/** Returns the parts of a WatchResponse around its header and its watch id: what comes before and after the id. */
export function withoutWatchId(message: Uint8Array): { readonly header: Uint8Array[]; readonly rest: Uint8Array[] } {
  const reader = new BinaryReader(message)
  const header: Uint8Array[] = []
  const rest: Uint8Array[] = []
  while (reader.pos < reader.len) {
    const start = reader.pos
    const [number, wireType] = reader.tag()
    reader.skip(wireType, number)
    const part = message.subarray(start, reader.pos)
    if (number === 1 && wireType === WireType.LengthDelimited) header.push(part)
    else if (number !== 2) rest.push(part)
  }
  return { header, rest }
}
