/**
 * The form of a watch's events, independent of the carrier (`framings.ts`), and the two forms of a Kubernetes watch.
 * For browsers see `server-sent-events.ts` and `websocket-messages.ts`, for long polls `poll-lines.ts`.
 */
import type { TransportKind, WireFormat } from '../../../engine/broadcast/wire-format.js'
import { EVENT_TYPES, type EventType } from '../../../engine/model/event-type.js'
import { encodeWatchEvent } from '../../../kubernetes/codec/protobuf/encode.js'

export interface Framing extends Pick<WireFormat, 'frame' | 'afterError' | 'mark'> {
  readonly key: string
  /** The transport name in metrics; null to use the carrier's. */
  readonly transport: TransportKind | null
}

const plain = (key: string, frame: Framing['frame']): Framing => ({
  key,
  transport: null,
  frame,
  afterError: () => null,
  mark: null,
})

const CLOSE = Buffer.from('}', 'latin1')
const CLOSE_LINE = Buffer.from('}\n', 'latin1')
const JSON_STARTS: ReadonlyMap<EventType, Buffer> = new Map(
  EVENT_TYPES.map((type) => [type, Buffer.from(`{"type":"${type}","object":`, 'latin1')]),
)

/** `{"type":…,"object":…}`, in parts. */
export function jsonEvent(type: EventType, body: Buffer): readonly Buffer[] {
  return [JSON_STARTS.get(type)!, body, CLOSE]
}

/** One JSON object per line. */
export const jsonLines = plain('json-lines', (type, body) => [JSON_STARTS.get(type)!, body, CLOSE_LINE])

/** Four bytes of length, big-endian, and a meta/v1 WatchEvent. */
export const protobufFrames = plain('protobuf-frames', (type, body) => {
  const event = encodeWatchEvent(type, body)
  const length = Buffer.allocUnsafe(4)
  length.writeUInt32BE(event.length)
  return [length, event]
})
