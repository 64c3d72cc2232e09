/** All guarantees at once: the last step of every integration, fault and soak test. */
import type { Test } from 'tap'
import type { Revision } from '../../src/engine/model/revision.js'
import type { RecordedHistory, ReferenceHistory } from '../support/history.js'
import { aged } from './aged.js'
import { atomic } from './atomic.js'
import { bookmarkable } from './bookmarkable.js'
import { convergent } from './convergent.js'
import { fresh } from './fresh.js'
import { ordered } from './ordered.js'
import { reliable } from './reliable.js'
import { resumable } from './resumable.js'
import { unique } from './unique.js'
import type { Violation } from './violation.js'

export interface ValidateOptions {
  /** Everything up to this revision was written, and the running watches had time to receive it. */
  readonly settledRevision?: Revision
}

export function validate(
  history: RecordedHistory,
  reference: ReferenceHistory,
  { settledRevision }: ValidateOptions = {},
): Violation[] {
  return [
    ...ordered(history, reference),
    ...unique(history),
    ...atomic(history, reference),
    ...reliable(history, reference),
    ...resumable(history, reference),
    ...bookmarkable(history, reference),
    ...fresh(history, reference),
    ...aged(history, reference),
    ...convergent(history, reference, settledRevision ?? null),
  ]
}

/** Fails the test with the first few violations by name, or passes once with what was checked. */
export function assertGuarantees(
  t: Test,
  history: RecordedHistory,
  reference: ReferenceHistory,
  options: ValidateOptions = {},
): void {
  const violations = validate(history, reference, options)
  const events = history.watches.reduce((sum, { items }) => sum + items.length, 0)
  const checked = `${history.watches.length} watches, ${events} items, ${history.lists.length} lists`
  const shown = violations.slice(0, 20).map(({ name, message }) => `${name}: ${message}`)
  t.same(shown, [], `every guarantee holds (${checked}; ${violations.length} violations)`)
}
