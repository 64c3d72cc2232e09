/**
 * Fresh: a consistent list, or a watch with a consistent initial state, is never older than a write that had returned
 * before the request; one not older than N is at N or later; one at exactly N is at N.
 */
import { type Revision, ZERO_REVISION } from '../../src/engine/model/revision.js'
import type { RecordedHistory, ReferenceHistory, WriteRecord } from '../support/history.js'
import { streamOf } from './stream.js'
import { Violation } from './violation.js'

export function fresh(history: RecordedHistory, reference: ReferenceHistory): Violation[] {
  const violations: Violation[] = []
  const writes = history.writes.toSorted((a, b) => a.returnedAtMs - b.returnedAtMs)
  for (const { name, asked, revision, requestedAtMs } of history.lists) {
    const report = (message: string): void => void violations.push(new Violation('fresh', name, message))
    if (asked.kind === 'exact') {
      if (revision !== asked.revision) report(`is at ${revision}, asked at exactly ${asked.revision}`)
      continue
    }
    const bound = asked.kind === 'consistent' ? newestBefore(writes, requestedAtMs) : asked.revision
    if (revision < bound) report(`is at ${revision}, older than ${bound} (${asked.kind})`)
  }
  for (const watch of history.watches) {
    const { start, name, requestedAtMs } = watch
    if (start.kind !== 'initial') continue
    const { afterRevision } = streamOf(watch, reference)
    // Where the stream does not mark the border, it is assumed as early as possible: only the mark shows the real one.
    if (afterRevision === null || !start.hasEndMark) continue
    const bound = start.notOlderThan === 'consistent' ? newestBefore(writes, requestedAtMs) : start.notOlderThan
    if (afterRevision >= bound) continue
    violations.push(new Violation('fresh', name, `its initial state is at ${afterRevision}, older than ${bound}`))
  }
  return violations
}

/** Returns the highest revision of the writes that had returned; 0 without any. @param sortedWrites by their return. */
export function newestBefore(sortedWrites: readonly WriteRecord[], atMs: number): Revision {
  let newest = ZERO_REVISION
  for (const { revision, returnedAtMs } of sortedWrites) {
    if (returnedAtMs >= atMs) break
    if (revision > newest) newest = revision
  }
  return newest
}
