/**
 * Resumable: after resuming at R the first event is the first matching one after R; nothing at or before R is repeated.
 * No client gets the error that etcd never had a revision, if the write of that revision had returned before the
 * request.
 */
import { toRevision } from '../../src/engine/model/revision.js'
import type { RecordedHistory, ReferenceHistory } from '../support/history.js'
import { describeItem, isObject } from './stream.js'
import { Violation } from './violation.js'

export function resumable(history: RecordedHistory, reference: ReferenceHistory): Violation[] {
  const violations: Violation[] = []
  for (const { name, scope, start, items, neverHad, requestedAtMs } of history.watches) {
    if (start.kind !== 'after') continue
    const report = (message: string): void => void violations.push(new Violation('resumable', name, message))
    if (neverHad === true) {
      const had = history.writes.find(
        ({ revision, returnedAtMs }) => revision >= start.revision && returnedAtMs <= requestedAtMs,
      )
      if (had !== undefined) report(`was refused ${start.revision} as unknown, after a write at ${had.revision}`)
    }
    for (const item of items) {
      const isOld = isObject(item) ? item.revision <= start.revision : item.revision < start.revision
      if (isOld) report(`${item.type}@${item.revision} came after resuming at ${start.revision}`)
    }
    const first = items.find(({ revision }) => revision >= start.revision)
    if (first === undefined) continue
    const through = isObject(first) ? toRevision(first.revision - 1) : first.revision
    for (const missed of reference.expectedEvents(scope, start.revision, through)) {
      const message = `${describeItem(missed, false)} did not come first after resuming at ${start.revision}`
      violations.push(new Violation('resumable', name, message, missed.revision))
    }
  }
  return violations
}
