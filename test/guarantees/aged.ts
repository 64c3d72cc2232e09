/**
 * Aged: a response from a cache lacks no write of its scope that was acknowledged earlier than the stated age before
 * the request, allowing two seconds in which an etcd that has just fallen silent may go unnoticed.
 */
import type { RecordedHistory, ReferenceHistory } from '../support/history.js'
import { newestBefore } from './fresh.js'
import { Violation } from './violation.js'

const TOLERANCE_MS = 2_000

export function aged(history: RecordedHistory, reference: ReferenceHistory): Violation[] {
  const violations: Violation[] = []
  const writes = history.writes.toSorted((a, b) => a.returnedAtMs - b.returnedAtMs)
  for (const { name, scope, asked, revision, requestedAtMs, statedAgeMs } of history.lists) {
    if (asked.kind !== 'not-older-than') continue
    const bound = newestBefore(writes, requestedAtMs - statedAgeMs - TOLERANCE_MS)
    // A write outside the scope need not have advanced the cache.
    const [missing] = bound > revision ? reference.expectedEvents(scope, revision, bound) : []
    if (missing === undefined) continue
    const message = `is at ${revision}, says that it is ${statedAgeMs} ms old, and lacks ${missing.revision}`
    violations.push(new Violation('aged', name, message))
  }
  return violations
}
