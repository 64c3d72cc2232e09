/**
 * Events for an EventSource: `event:` holds the type, `data:` the object, and `id:` a revision to continue after, which
 * the browser sends back as Last-Event-ID when it reconnects.
 *
 * A block without data does not reach the page as an event, but the browser remembers its `id:` (WHATWG HTML, 9.2.6).
 * So the stream sends its position after an initial state and whenever the position has moved on without an event, which
 * lets a client of a quiet resource resume before its position expires. Where the position is the same as before, a
 * comment keeps proxies from closing the stream, because some clients deliver a block without data as an empty event.
 */
import type { Revision } from '../../../engine/model/revision.js'
import { randomInteger, systemRandom } from '../../../support/random.js'
import type { Framing } from './framing.js'

const DATA = Buffer.from('data: ', 'latin1')
const END = Buffer.from('\n\n', 'latin1')
/** No proxy closes idle streams before 30 s; most do so after 60 s. */
const MARK_EVERY_MS = 25_000
const COMMENT = Buffer.from(':\n\n', 'latin1')
/**
 * The browser's delay between a lost connection and its next attempt, unless an error gives another. It is random for
 * each stream, so that a restart does not bring all clients back at the same moment. Browsers' own defaults are 3 s and
 * 5 s, the same for everybody.
 */
const RETRY_MS = { min: 1_000, max: 5_000 }

export const serverSentEvents: Framing = {
  key: 'sse',
  transport: 'sse',
  frame: (type, body, resumeAfter) => {
    const id = resumeAfter === null ? '' : `id: ${resumeAfter}\n`
    return [Buffer.from(`event: ${type}\n${id}`, 'latin1'), DATA, body, END]
  },
  /** Tells the browser when to reconnect, and to start over if its position caused the error. */
  afterError: ({ mustRestart, retryAfterSeconds }) => {
    const lines: string[] = []
    if (mustRestart) lines.push('id:')
    if (retryAfterSeconds !== undefined) lines.push(`retry: ${retryAfterSeconds * 1000}`)
    return lines.length === 0 ? null : Buffer.from(`${lines.join('\n')}\n\n`, 'latin1')
  },
  mark: {
    frame: (revision: Revision | null) => (revision === null ? COMMENT : Buffer.from(`id: ${revision}\n\n`, 'latin1')),
    hasPosition: true,
    everyMs: MARK_EVERY_MS,
  },
}

/**
 * Returns the start of a stream: it resets a delay set by an earlier error, and shows proxies that the response has
 * begun.
 */
export function eventStreamStart(): Buffer {
  return Buffer.from(`retry: ${randomInteger(systemRandom, RETRY_MS.min, RETRY_MS.max)}\n\n`, 'latin1')
}
