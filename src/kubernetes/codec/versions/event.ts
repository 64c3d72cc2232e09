/**
 * Converts between core/v1 Event and events.k8s.io Event, which are one kind under two names: API servers keep both
 * under one prefix and show each as the other. A member that only an older version of the group has (`series.state`) is
 * dropped.
 */
import { type JsonRecord, record, recordAt, renameMember } from '../json-tree.js'

/** The members with two names. */
const NAMES: readonly (readonly [core: string, events: string])[] = [
  ['reportingComponent', 'reportingController'],
  ['involvedObject', 'regarding'],
  ['message', 'note'],
  ['source', 'deprecatedSource'],
  ['firstTimestamp', 'deprecatedFirstTimestamp'],
  ['lastTimestamp', 'deprecatedLastTimestamp'],
  ['count', 'deprecatedCount'],
]

export function toEventsGroup(event: JsonRecord): void {
  fillStructs(event)
  for (const [core, name] of NAMES) renameMember(event, core, name)
  // The core version requires these members; the events.k8s.io versions leave them out when empty.
  for (const name of ['reportingController', 'reportingInstance']) if (event[name] === '') delete event[name]
  sameGroup(event)
}

export function toCore(event: JsonRecord): void {
  for (const [core, name] of NAMES) renameMember(event, name, core)
  fillStructs(event)
  for (const name of ['reportingComponent', 'reportingInstance']) event[name] ??= ''
  const series = seriesOf(event)
  if (series?.['count'] === 0) delete series['count']
}

/** Converts between versions of the events.k8s.io group. */
export function sameGroup(event: JsonRecord): void {
  const series = seriesOf(event)
  if (series !== null) series['count'] ??= 0
}

/** Adds the members that are Go structs without a pointer, because those are written even when empty. */
function fillStructs(core: JsonRecord): void {
  for (const name of ['eventTime', 'firstTimestamp', 'lastTimestamp']) core[name] ??= null
  for (const name of ['source', 'involvedObject']) core[name] ??= record()
}

function seriesOf(event: JsonRecord): JsonRecord | null {
  const series = recordAt(event, 'series')
  if (series === null) return null
  delete series['state']
  series['lastObservedTime'] ??= null
  return series
}
