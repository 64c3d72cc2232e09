/** A sequence of WatchEvents (RFC 8742): the stream of a watch in Kubernetes' CBOR. */
import { encodeCbor } from '../../../kubernetes/codec/cbor/json-to-cbor.js'
import { EVENT_TYPES, type EventType } from '../../../engine/model/event-type.js'
import type { Framing } from './framing.js'

/** Up to the object, which is a document of its own with its own tag. */
const STARTS = new Map<EventType, Buffer>(
  EVENT_TYPES.map((type) => {
    const head = encodeCbor(Buffer.from(JSON.stringify({ type, object: null })))
    return [type, head.subarray(0, -1)]
  }),
)

/** `{"type":…,"object":…}` in CBOR, in parts. @param json the object. */
export function cborEvent(type: EventType, json: Buffer): readonly Buffer[] {
  return [STARTS.get(type)!, encodeCbor(json)]
}

export const cborSequence: Framing = {
  key: 'cbor-sequence',
  transport: null,
  frame: cborEvent,
  afterError: () => null,
  mark: null,
}
