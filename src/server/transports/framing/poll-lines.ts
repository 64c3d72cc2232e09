/**
 * Events for a long poll: a line for each, and after the events of a revision a line with only the revision.
 * `poll-output.ts` makes one document of them; the lines are shared by all polls for the same bytes.
 */
import type { Revision } from '../../../engine/model/revision.js'
import { type Framing, jsonEvent } from './framing.js'

const LINE = Buffer.from('\n', 'latin1')

const revisionLine = (revision: Revision): Buffer => Buffer.from(`${revision}\n`, 'latin1')

export const pollLines: Framing = {
  key: 'poll',
  transport: null,
  frame: (type, body, resumeAfter) => [
    ...jsonEvent(type, body),
    LINE,
    ...(resumeAfter === null ? [] : [revisionLine(resumeAfter)]),
  ],
  afterError: () => null,
  // A poll ends before another one is due; the last one says how far it has come.
  mark: { frame: revisionLine, everyMs: 3_600_000 },
}
