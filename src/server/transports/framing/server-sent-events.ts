/**
 * Events for an EventSource: `event:` holds the type, `data:` the object, and `id:` a revision to go on after, which the
 * browser sends back as Last-Event-ID when it reconnects.
 *
 * A block without data is no event to the page, but its `id:` counts (WHATWG HTML, 9.2.6). So the stream tells its position
 * after an initial state and at intervals, asked for or not. That keeps proxies from closing a quiet stream, as a comment
 * would too, and lets a client of a quiet resource resume where after a comment its position would have expired.
 */
import type { Revision } from '../../../engine/model/revision.js'
import type { Framing } from './framing.js'

const DATA = Buffer.from('data: ', 'latin1')
const END = Buffer.from('\n\n', 'latin1')
/** Proxies close idle streams after 30 s at the earliest; most after 60. */
const MARK_EVERY_MS = 25_000
/** The browser's pause between a lost connection and its next try, unless an error names another. Browsers' own defaults differ (3 s, 5 s). */
const RETRY_MS = 2_000

export const serverSentEvents: Framing = {
  key: 'sse',
  transport: 'sse',
  frame: (type, body, resumeAfter) => {
    const id = resumeAfter === null ? '' : `id: ${resumeAfter}\n`
    return [Buffer.from(`event: ${type}\n${id}`, 'latin1'), DATA, body, END]
  },
  /** Tells the browser when to come back, and to begin afresh where its position was the error. */
  afterError: ({ code, details }) => {
    const lines: string[] = []
    if (code === 410) lines.push('id:')
    if (details?.retryAfterSeconds !== undefined) lines.push(`retry: ${details.retryAfterSeconds * 1000}`)
    return lines.length === 0 ? null : Buffer.from(`${lines.join('\n')}\n\n`, 'latin1')
  },
  mark: { frame: (revision: Revision) => Buffer.from(`id: ${revision}\n\n`, 'latin1'), everyMs: MARK_EVERY_MS },
}

/** The start of every stream: it ends a pause that an earlier error asked for, and shows proxies that the answer has begun. */
export const EVENT_STREAM_START = Buffer.from(`retry: ${RETRY_MS}\n\n`, 'latin1')
