/**
 * Bookmarkable: when a bookmark at R arrives, everything at or before R has arrived, and nothing at or before R
 * follows. The mark at the end of an initial state is also such a bookmark.
 */
import { toRevision, ZERO_REVISION } from '../../src/engine/model/revision.js'
import type { RecordedHistory, ReferenceHistory } from '../support/history.js'
import { isObject, streamOf } from './stream.js'
import { Violation } from './violation.js'

export function bookmarkable(history: RecordedHistory, reference: ReferenceHistory): Violation[] {
  const violations: Violation[] = []
  for (const watch of history.watches) {
    const { live, afterRevision } = streamOf(watch, reference)
    if (afterRevision === null) continue
    const report = (message: string): void => void violations.push(new Violation('bookmarkable', watch.name, message))
    const newest = live.reduce((newest, { revision }) => Math.max(newest, revision), 0)
    const expected = reference.expectedEvents(watch.scope, afterRevision, toRevision(newest))
    const received = new Set<string>()
    let checked = 0
    let bookmark = ZERO_REVISION
    for (const item of live) {
      if (isObject(item)) {
        received.add(`${item.id}@${item.revision}`)
        if (item.revision <= bookmark)
          report(`${item.type} ${item.id}@${item.revision} came after a bookmark at ${bookmark}`)
        continue
      }
      bookmark = toRevision(Math.max(bookmark, item.revision))
      for (let next = expected[checked]; next !== undefined && next.revision <= bookmark; next = expected[++checked]) {
        const isMissing = !received.has(`${next.id}@${next.revision}`)
        if (isMissing) report(`a bookmark at ${bookmark} came before ${next.type} ${next.id}@${next.revision}`)
      }
    }
  }
  return violations
}
