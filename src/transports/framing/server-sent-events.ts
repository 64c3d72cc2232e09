/**
 * Events for an EventSource: `event:` the type, `data:` the object, `id:` a revision to go on after, which the browser
 * sends back as Last-Event-ID when it reconnects.
 *
 * A block without data is no event to the page, but its `id:` counts (WHATWG HTML, 9.2.6): so a position is told after
 * an initial state and every while, asked for or not. That also keeps proxies from closing a quiet stream, for which
 * comments would do too, and lets a client of a quiet resource resume where a comment would leave it to be expired.
 */
import type { Revision } from '../../model/revision.js'
import type { Framing } from './framing.js'

const DATA = Buffer.from('data: ', 'latin1')
const END = Buffer.from('\n\n', 'latin1')
/** The idle times of proxies begin at 30 s; most have 60. */
const MARK_EVERY_MS = 25_000
/** Between a lost connection and the next try, where nothing says otherwise. Browsers differ: 3 s, 5 s. */
const RETRY_MS = 2_000

export const serverSentEvents: Framing = {
  key: 'sse',
  transport: 'sse',
  frame: (type, body, resumeAfter) => {
    const id = resumeAfter === null ? '' : `id: ${resumeAfter}\n`
    return Buffer.concat([Buffer.from(`event: ${type}\n${id}`, 'latin1'), DATA, body, END])
  },
  /** How to come back: not before the time named, and afresh where the position is the trouble. */
  afterError: ({ code, details }) => {
    const lines: string[] = []
    if (code === 410) lines.push('id:')
    if (details?.retryAfterSeconds !== undefined) lines.push(`retry: ${details.retryAfterSeconds * 1000}`)
    return lines.length === 0 ? null : Buffer.from(`${lines.join('\n')}\n\n`, 'latin1')
  },
  mark: { frame: (revision: Revision) => Buffer.from(`id: ${revision}\n\n`, 'latin1'), everyMs: MARK_EVERY_MS },
}

/** Begins every stream: a wait that an earlier error asked for is over, and proxies see that the answer has begun. */
export const EVENT_STREAM_START = Buffer.from(`retry: ${RETRY_MS}\n\n`, 'latin1')
