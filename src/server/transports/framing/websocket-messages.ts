/**
 * Writes each event as one WebSocket message in one frame (RFC 6455, 5.2): text for JSON, binary for protobuf and CBOR. Only
 * clients mask, so the bytes are the same for every client, and a group shares them.
 */
import { totalLength } from '../../../engine/broadcast/wire-format.js'
import { encodeWatchEvent } from '../../../kubernetes/codec/protobuf/encode.js'
import { cborEvent } from './cbor-sequence.js'
import type { Framing } from './framing.js'
import { jsonEvent } from './json-lines.js'

const TEXT = 0x81
const BINARY = 0x82
/**
 * An empty ping, which keeps proxies from closing a quiet connection; the client's library answers it automatically.
 */
const PING = Buffer.from([0x89, 0])
/** Proxies close idle streams after 30 s at the earliest; most after 60. */
const PING_EVERY_MS = 25_000

const pings = { frame: () => PING, everyMs: PING_EVERY_MS }

export const webSocketJson: Framing = {
  key: 'websocket/json',
  transport: 'websocket',
  frame: (type, body) => message(TEXT, jsonEvent(type, body)),
  afterError: () => null,
  mark: pings,
}

export const webSocketProtobuf: Framing = {
  key: 'websocket/protobuf',
  transport: 'websocket',
  frame: (type, body) => message(BINARY, [encodeWatchEvent(type, body)]),
  afterError: () => null,
  mark: pings,
}

export const webSocketCbor: Framing = {
  key: 'websocket/cbor',
  transport: 'websocket',
  frame: (type, body) => message(BINARY, cborEvent(type, body)),
  afterError: () => null,
  mark: pings,
}

function message(kind: number, payload: readonly Buffer[]): readonly Buffer[] {
  return [header(kind, totalLength(payload)), ...payload]
}

function header(kind: number, length: number): Buffer {
  if (length < 126) return Buffer.from([kind, length])
  if (length < 65_536) return Buffer.from([kind, 126, length >> 8, length & 0xff])
  const bytes = Buffer.alloc(10)
  bytes[0] = kind
  bytes[1] = 127
  bytes.writeUInt32BE(Math.floor(length / 2 ** 32), 2)
  bytes.writeUInt32BE(length >>> 0, 6)
  return bytes
}
