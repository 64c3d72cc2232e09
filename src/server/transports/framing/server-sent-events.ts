/**
 * Events for an EventSource: `event:` holds the type, `data:` the object, and `id:` a revision to continue after, which
 * the browser sends back as Last-Event-ID when it reconnects.
 *
 * A block without data does not reach the page as an event, but the browser remembers its `id:` (WHATWG HTML, 9.2.6).
 * So the stream sends its position after an initial state and at intervals, whether or not the client requested it.
 * Like a comment, that keeps proxies from closing a quiet stream; unlike a comment, it lets a client of a quiet
 * resource resume before its position expires.
 */
import type { Revision } from '../../../engine/model/revision.js'
import type { Framing } from './framing.js'

const DATA = Buffer.from('data: ', 'latin1')
const END = Buffer.from('\n\n', 'latin1')
/** No proxy closes idle streams before 30 s; most do so after 60 s. */
const MARK_EVERY_MS = 25_000
/**
 * The browser's delay between a lost connection and its next attempt, unless an error gives another. Browsers' own
 * defaults differ (3 s, 5 s).
 */
const RETRY_MS = 2_000

export const serverSentEvents: Framing = {
  key: 'sse',
  transport: 'sse',
  frame: (type, body, resumeAfter) => {
    const id = resumeAfter === null ? '' : `id: ${resumeAfter}\n`
    return [Buffer.from(`event: ${type}\n${id}`, 'latin1'), DATA, body, END]
  },
  /** Tells the browser when to reconnect, and to start over if its position caused the error. */
  afterError: ({ code, details }) => {
    const lines: string[] = []
    if (code === 410) lines.push('id:')
    if (details?.retryAfterSeconds !== undefined) lines.push(`retry: ${details.retryAfterSeconds * 1000}`)
    return lines.length === 0 ? null : Buffer.from(`${lines.join('\n')}\n\n`, 'latin1')
  },
  mark: { frame: (revision: Revision) => Buffer.from(`id: ${revision}\n\n`, 'latin1'), everyMs: MARK_EVERY_MS },
}

/**
 * The start of every stream: it resets a delay set by an earlier error, and shows proxies that the response has begun.
 */
export const EVENT_STREAM_START = Buffer.from(`retry: ${RETRY_MS}\n\n`, 'latin1')
