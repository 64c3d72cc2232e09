/**
 * Ordered: the revisions of one stream never decrease, including bookmarks. Initial states are unsorted, and left out.
 */
import type { RecordedHistory, ReferenceHistory } from '../support/history.js'
import { streamOf } from './stream.js'
import { Violation } from './violation.js'

export function ordered(history: RecordedHistory, reference: ReferenceHistory): Violation[] {
  const violations: Violation[] = []
  for (const watch of history.watches) {
    const { live, afterRevision } = streamOf(watch, reference)
    let newest = Number(watch.start.kind === 'after' ? 0 : (afterRevision ?? 0))
    for (const item of live) {
      if (item.revision < newest) {
        violations.push(new Violation('ordered', watch.name, `${item.type}@${item.revision} came after ${newest}`))
      }
      newest = Math.max(newest, item.revision)
    }
  }
  return violations
}
