/** Reads the messages of etcd's own watches: all of one for a bridge, and very little of one that is passed on. */
import { BinaryReader } from '@bufbuild/protobuf/wire'
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
  readonly cancelReason: string
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
    cancelReason: '',
    isFragment: false,
    events,
  }
  readFields(message, {
    1: (reader) => readFields(reader.bytes(), { 3: (header) => (read.revision = safeInteger(header)) }),
    2: (reader) => (read.watchId = safeInteger(reader)),
    3: (reader) => (read.created = reader.bool()),
    4: (reader) => (read.canceled = reader.bool()),
    5: (reader) => (read.compactRevision = safeInteger(reader)),
    6: (reader) => (read.cancelReason = reader.string()),
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

export interface ForwardedMessage {
  readonly revision: number
  readonly watchId: number
  readonly canceled: boolean
  readonly cancelReason: string
  /** The message with another watch id, as a few slices of it, however many events it has. */
  withId(this: void, id: Uint8Array): Uint8Array[]
}

/** Reads the little that a message needs to be passed on. Its events are skipped, not read. */
export function readForwardedMessage(message: Uint8Array): ForwardedMessage {
  const read = { revision: 0, watchId: 0, canceled: false, cancelReason: '' }
  const before: Uint8Array[] = []
  const after: Uint8Array[] = []
  const reader = new BinaryReader(message)
  let from = 0
  while (reader.pos < reader.len) {
    const start = reader.pos
    const [number, wireType] = reader.tag()
    if (number === 1) readFields(reader.bytes(), { 3: (header) => (read.revision = safeInteger(header)) })
    else if (number === 2) read.watchId = safeInteger(reader)
    else if (number === 4) read.canceled = reader.bool()
    else if (number === 6) read.cancelReason = reader.string()
    else reader.skip(wireType, number)
    // etcd's id is left out, and another one goes behind the header.
    if (number > 2) continue
    const end = number === 1 ? reader.pos : start
    ;(number === 1 ? before : after).push(message.subarray(from, end))
    from = reader.pos
  }
  after.push(message.subarray(from))
  return { ...read, withId: (id) => [...before, id, ...after] }
}
