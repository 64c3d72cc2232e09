/** One JSON object per line: the stream of a Kubernetes watch. */
import type { EventType } from '../../broadcast/wire.js'
import type { Framing } from '../framing.js'

const END = Buffer.from('}\n', 'latin1')
const STARTS = new Map<EventType, Buffer>(
  (['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const).map((type) => [
    type,
    Buffer.from(`{"type":"${type}","object":`, 'latin1'),
  ]),
)

export function jsonLine(type: EventType, body: Buffer): Buffer {
  return Buffer.concat([STARTS.get(type)!, body, END])
}

export const jsonLines: Framing = {
  key: 'json-lines',
  transport: null,
  frame: jsonLine,
  afterError: () => null,
  mark: null,
}
