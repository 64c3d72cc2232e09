/**
 * Convergent: whatever went wrong before, what is served equals what etcd holds. Every list is the state at its own
 * revision and, once writes have stopped, every running watch has reached the last revision.
 */
import type { Revision } from '../../src/engine/model/revision.js'
import type { RecordedHistory, ReferenceHistory } from '../support/history.js'
import { describeItem, differences, isObject, streamOf } from './stream.js'
import { Violation } from './violation.js'

export function convergent(
  history: RecordedHistory,
  reference: ReferenceHistory,
  settledRevision: Revision | null = null,
): Violation[] {
  const violations: Violation[] = []
  for (const { name, scope, revision, items } of history.lists) {
    if (revision > reference.revision || revision < reference.firstRevision) {
      violations.push(new Violation('convergent', name, `is at ${revision}, which etcd never was`))
      continue
    }
    for (const difference of differences(items, reference.stateAt(scope, revision))) {
      violations.push(new Violation('convergent', name, `at ${revision}: ${difference}`))
    }
  }
  if (settledRevision === null) return violations
  for (const watch of history.watches) {
    if (watch.end !== 'open') continue
    const { live, afterRevision, isInitialComplete } = streamOf(watch, reference)
    if (!isInitialComplete || afterRevision === null) {
      violations.push(new Violation('convergent', watch.name, 'its initial state never ended'))
      continue
    }
    const received = new Set(live.filter(isObject).map((item) => `${item.id}@${item.revision}`))
    for (const expected of reference.expectedEvents(watch.scope, afterRevision, settledRevision)) {
      if (received.has(`${expected.id}@${expected.revision}`)) continue
      const message = `${describeItem(expected, false)} never came`
      violations.push(new Violation('convergent', watch.name, message, expected.revision))
    }
  }
  return violations
}
