/**
 * Atomic: all the events of one revision arrive consecutively, with nothing in between.
 *
 * A stream that was cut, or still runs, may end inside its last revision. A client that resumes there loses the rest of
 * that revision, which is due to the dialect and not to the server, so each stream is checked from its own start. A
 * stream that the server ended (a clean EOF, an ERROR) must have ended on a boundary.
 */
import { type Revision, toRevision } from '../../src/engine/model/revision.js'
import type { ObjectItem, RecordedHistory, ReferenceHistory, Scope } from '../support/history.js'
import { isObject, streamOf } from './stream.js'
import { Violation } from './violation.js'

export function atomic(history: RecordedHistory, reference: ReferenceHistory): Violation[] {
  const violations: Violation[] = []
  for (const watch of history.watches) {
    const { live, isTailOpen, afterRevision } = streamOf(watch, reference)
    if (afterRevision === null) continue
    const report = (message: string): void => void violations.push(new Violation('atomic', watch.name, message))
    const runs: ObjectItem[][] = []
    let current: ObjectItem[] = []
    for (const item of live) {
      if (isObject(item) && item.revision === current[0]?.revision) {
        current.push(item)
      } else {
        current = isObject(item) ? [item] : []
        if (current.length > 0) runs.push(current)
      }
    }
    const ended = new Set<number>()
    const isAtTail = live.at(-1) === current.at(-1)
    for (const run of runs) {
      const revision = run[0]?.revision
      if (revision === undefined || revision <= afterRevision) continue
      if (ended.has(revision)) report(`the events of revision ${revision} came apart`)
      ended.add(revision)
      if (isTailOpen && isAtTail && run === current) continue
      const received = live.filter((item) => isObject(item) && item.revision === revision).length
      const expected = eventsOf(reference, watch.scope, revision)
      if (received < expected) {
        const message = `${received} of the ${expected} events of revision ${revision} came`
        violations.push(new Violation('atomic', watch.name, message, revision))
      }
    }
  }
  return violations
}

function eventsOf(reference: ReferenceHistory, scope: Scope, revision: Revision): number {
  return reference.expectedEvents(scope, toRevision(revision - 1), revision).length
}
