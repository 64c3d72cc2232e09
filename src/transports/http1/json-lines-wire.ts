/** One JSON object per line, the stream of a Kubernetes watch; with or without HTTP/1.1 chunks around each revision. */
import { type EventType, type Wire, chunkEnvelope } from '../../broadcast/wire.js'

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

/** For a socket that we write chunks to ourselves. */
export const chunkedJsonLines: Wire = {
  key: 'json-lines/chunked',
  transport: 'http1',
  frame: jsonLine,
  envelope: chunkEnvelope,
  afterError: () => null,
}

/** For a stream that is framed below us: HTTP/2, or a response of Node's own. */
export const plainJsonLines: Wire = { ...chunkedJsonLines, key: 'json-lines', envelope: null }
