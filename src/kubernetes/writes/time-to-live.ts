/**
 * The lifetime of an object. An annotation sets a lifetime that restarts with each write. A write's query sets one
 * for that write alone. etcd keeps the lifetime as a lease. When the lease expires, the object is gone and its
 * watchers see DELETED.
 */
import { type JsonRecord, textMember } from '../codec/json-tree.js'
import { type FieldProblem, invalid } from './field-errors.js'

const TTL_ANNOTATION = 'distributary.io/ttl'

const UNIT_SECONDS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3_600, d: 86_400 }
/** A year. etcd would accept about 285 years, but a lease of more than one is most likely a mistake. */
const MAX_SECONDS = 366 * 86_400

export const TIME_TO_LIVE_RULE = 'must be a time from one second to 366 days, such as 30s, 10m, 12h or 7d'

/** Parses `30`, `30s`, `10m`, `12h` or `7d` into seconds; null for anything else. */
export function parseTimeToLive(text: string): number | null {
  const match = /^(\d{1,10})([smhd]?)$/.exec(text)
  if (match === null) return null
  const seconds = Number(match[1]) * UNIT_SECONDS[match[2]!]!
  return seconds >= 1 && seconds <= MAX_SECONDS ? seconds : null
}

export function timeToLiveProblems(object: JsonRecord): readonly FieldProblem[] {
  const text = annotationOf(object)
  if (text === '' || parseTimeToLive(text) !== null) return []
  return [invalid(`metadata.annotations[${TTL_ANNOTATION}]`, text, TIME_TO_LIVE_RULE)]
}

function annotationOf(object: JsonRecord): string {
  return textMember(object, 'metadata', 'annotations', TTL_ANNOTATION)
}

export type LeaseChoice =
  | { readonly kind: 'keep'; readonly leaseId: string }
  | { readonly kind: 'grant'; readonly seconds: number }

/**
 * @param before null when the object is being created.
 * @param requestedSeconds the seconds in the query: 0 means no limit, null that the query gives none.
 */
export function chooseLease(
  before: { readonly object: JsonRecord; readonly leaseId: string } | null,
  after: JsonRecord,
  requestedSeconds: number | null,
): LeaseChoice {
  if (requestedSeconds !== null && requestedSeconds > 0) return { kind: 'grant', seconds: requestedSeconds }
  const seconds = parseTimeToLive(annotationOf(after))
  if (seconds !== null && requestedSeconds === null) return { kind: 'grant', seconds }
  const wasAnnotated = before !== null && annotationOf(before.object) !== ''
  return { kind: 'keep', leaseId: requestedSeconds === 0 || before === null || wasAnnotated ? '0' : before.leaseId }
}
