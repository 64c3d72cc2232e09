/** Unique: no version of an object occurs twice in one stream, including its initial state. */
import type { RecordedHistory } from '../support/history.js'
import { isObject } from './stream.js'
import { Violation } from './violation.js'

export function unique(history: RecordedHistory): Violation[] {
  const violations: Violation[] = []
  for (const watch of history.watches) {
    const seen = new Set<string>()
    for (const { id, revision } of watch.items.filter(isObject)) {
      const version = `${id}@${revision}`
      if (seen.has(version)) violations.push(new Violation('unique', watch.name, `${version} came twice`))
      seen.add(version)
    }
  }
  return violations
}
