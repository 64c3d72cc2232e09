/** Watch events in protobuf: each a WatchEvent message after its length in four bytes, big end first. */
import { encodeWatchEvent } from '../../codec/protobuf/encode.js'
import { type EventType, type Wire, chunkEnvelope } from '../../broadcast/wire.js'

function frame(type: EventType, body: Buffer): Buffer {
  const event = encodeWatchEvent(type, body)
  const framed = Buffer.allocUnsafe(4 + event.length)
  framed.writeUInt32BE(event.length)
  event.copy(framed, 4)
  return framed
}

export const chunkedProtobuf: Wire = {
  key: 'protobuf/chunked',
  transport: 'http1',
  frame,
  envelope: chunkEnvelope,
  afterError: () => null,
}

export const plainProtobuf: Wire = { ...chunkedProtobuf, key: 'protobuf', envelope: null }
