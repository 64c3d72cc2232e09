/**
 * Writes each event as one WebSocket message in one frame (RFC 6455, 5.2): text for JSON, binary for protobuf.
 * Only clients mask their frames. The server's bytes are the same for every client, so a group shares them.
 */
import { totalLength } from '../../../engine/broadcast/wire-format.js'
import { encodeWatchEvent } from '../../../kubernetes/codec/protobuf/encode.js'
import { type Framing, jsonEvent } from './framing.js'

const TEXT = 0x81
const BINARY = 0x82
/**
 * An empty ping, which keeps proxies from closing a quiet connection; the client's library answers it automatically.
 */
const PING = Buffer.from([0x89, 0])
/** No proxy closes idle streams before 30 s; most do so after 60 s. */
const PING_EVERY_MS = 25_000

const webSocket = (encoding: string, frame: Framing['frame']): Framing => ({
  key: `websocket/${encoding}`,
  transport: 'websocket',
  frame,
  afterError: () => null,
  mark: { frame: () => PING, hasPosition: false, everyMs: PING_EVERY_MS },
})

export const webSocketJson = webSocket('json', (type, body) => message(TEXT, jsonEvent(type, body)))
export const webSocketProtobuf = webSocket('protobuf', (type, body) => message(BINARY, [encodeWatchEvent(type, body)]))

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
