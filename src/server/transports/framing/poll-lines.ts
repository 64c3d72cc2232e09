/**
 * Events for a long poll. Each event is a line, and the events of a revision are followed by a line with only the
 * revision. `poll-output.ts` turns the lines into one document. All polls for the same bytes share the lines.
 */
import type { Revision } from '../../../engine/model/revision.js'
import { type Framing, jsonEvent } from './framing.js'

const LINE = Buffer.from('\n', 'latin1')

const revisionLine = (revision: Revision | null): Buffer =>
  Buffer.from(revision === null ? '' : `${revision}\n`, 'latin1')

export const pollLines: Framing = {
  key: 'poll',
  transport: null,
  frame: (type, body, resumeAfter) => [
    ...jsonEvent(type, body),
    LINE,
    ...(resumeAfter === null ? [] : [revisionLine(resumeAfter)]),
  ],
  afterError: () => null,
  // A poll ends before a second mark is due. Its last mark says how far the poll has come.
  mark: { frame: revisionLine, hasPosition: true, everyMs: 3_600_000 },
}
