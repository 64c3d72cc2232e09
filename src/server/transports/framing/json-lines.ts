/** One JSON object per line: the stream of a Kubernetes watch. */
import { EVENT_TYPES, type EventType } from '../../../engine/model/event-type.js'
import type { Framing } from './framing.js'

const CLOSE = Buffer.from('}', 'latin1')
const CLOSE_LINE = Buffer.from('}\n', 'latin1')
const STARTS = new Map<EventType, Buffer>(
  EVENT_TYPES.map((type) => [type, Buffer.from(`{"type":"${type}","object":`, 'latin1')]),
)

/** `{"type":…,"object":…}`, in parts. */
export function jsonEvent(type: EventType, body: Buffer): readonly Buffer[] {
  return [STARTS.get(type)!, body, CLOSE]
}

export const jsonLines: Framing = {
  key: 'json-lines',
  transport: null,
  frame: (type, body) => [STARTS.get(type)!, body, CLOSE_LINE],
  afterError: () => null,
  mark: null,
}
