/**
 * Reliable: nothing is missing between two received events, and nothing was received that did not happen.
 *
 * An initial state is exactly the state at its revision. A revision missing as a whole is reported here, part of one by
 * `atomic`; what is missing between a resume point and the first event by `resumable`.
 */
import { type Revision, toRevision } from '../../src/engine/model/revision.js'
import type { RecordedHistory, ReferenceHistory } from '../support/history.js'
import { describeItem, differences, isObject, type Stream, streamOf } from './stream.js'
import { Violation } from './violation.js'

export function reliable(history: RecordedHistory, reference: ReferenceHistory): Violation[] {
  return history.watches.flatMap((watch) => {
    const stream = streamOf(watch, reference)
    const initial = initialProblems(stream, reference).map((message) => ({ message, missing: null }))
    const problems = [...initial, ...liveProblems(stream, reference)]
    return problems.map(({ message, missing }) => new Violation('reliable', watch.name, message, missing))
  })
}

function initialProblems(stream: Stream, reference: ReferenceHistory): string[] {
  const { watch, initial, isInitialComplete, afterRevision, live } = stream
  if (initial === null) return []
  if (isInitialComplete && afterRevision !== null) {
    const state = reference.stateAt(watch.scope, afterRevision)
    return differences(initial, state).map((difference) => `initial state at ${afterRevision}: ${difference}`)
  }
  if (live.length > 0) return ['no revision explains the initial state']
  return watch.end === 'eof' ? ['a clean EOF before the initial state was complete'] : []
}

interface Problem {
  readonly message: string
  readonly missing: Revision | null
}

function liveProblems({ watch, live, afterRevision }: Stream, reference: ReferenceHistory): Problem[] {
  const first = live[0]
  if (afterRevision === null || first === undefined) return []
  const objects = live.filter(isObject)
  const last = toRevision(Math.max(...live.map(({ revision }) => revision)))
  const after = toRevision(Math.max(afterRevision, watch.start.kind === 'after' ? first.revision - 1 : 0))
  const expected = reference.expectedEvents(watch.scope, after, last)
  const problems: Problem[] = []

  const received = new Set(objects.map(({ revision }) => revision))
  const missing = new Set<Revision>()
  for (const { revision } of expected) {
    const isResumables = watch.start.kind === 'after' && revision <= first.revision
    if (!received.has(revision) && !isResumables) missing.add(revision)
  }
  for (const revision of missing) problems.push({ message: `nothing came of revision ${revision}`, missing: revision })

  const known = new Set(expected.flatMap((item) => [describeItem(item, true), describeItem(item, false)]))
  for (const item of objects) {
    if (item.revision <= after) continue
    if (!known.has(describeItem(item, item.fingerprint !== null)))
      problems.push({ message: `${describeItem(item, true)} did not happen`, missing: null })
  }
  return problems
}
