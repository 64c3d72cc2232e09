/**
 * core/v1 Event and events.k8s.io Event are one kind under two names: API servers keep both under one prefix and show
 * each as the other. A member that only an older version of the group has (`series.state`) is dropped.
 */
import { JsonObject } from './json-object.js'

/** Pairs of a core name and an events.k8s.io name, in the order of the latter's struct. */
const NAMES: readonly (readonly [core: string, events: string])[] = [
  ['metadata', 'metadata'],
  ['eventTime', 'eventTime'],
  ['series', 'series'],
  ['reportingComponent', 'reportingController'],
  ['reportingInstance', 'reportingInstance'],
  ['action', 'action'],
  ['reason', 'reason'],
  ['involvedObject', 'regarding'],
  ['related', 'related'],
  ['message', 'note'],
  ['type', 'type'],
  ['source', 'deprecatedSource'],
  ['firstTimestamp', 'deprecatedFirstTimestamp'],
  ['lastTimestamp', 'deprecatedLastTimestamp'],
  ['count', 'deprecatedCount'],
]
/** These are Go structs without a pointer, so they are written even when empty. */
const STRUCTS: Record<string, string> = { eventTime: 'null', firstTimestamp: 'null', lastTimestamp: 'null' }

export function toEventsGroup(event: JsonObject): JsonObject {
  const result = JsonObject.empty().setIfAny('kind', event.get('kind')).setIfAny('apiVersion', event.get('apiVersion'))
  for (const [core, name] of NAMES) {
    const value = event.get(core) ?? structOf(core)
    // The core version requires this member; here it is left out when empty.
    const isEmpty = name.startsWith('reporting') && event.text(core) === ''
    if (value !== undefined && !isEmpty) result.set(name, value)
  }
  return withSeries(result, true)
}

export function toCore(event: JsonObject): JsonObject {
  const result = JsonObject.empty().setIfAny('kind', event.get('kind')).setIfAny('apiVersion', event.get('apiVersion'))
  for (const [core, name] of NAMES) {
    const value = event.get(name) ?? structOf(core)
    if (value !== undefined) result.set(core, value)
    else if (core.startsWith('reporting')) result.set(core, '')
  }
  return withSeries(result, false)
}

/** Converts between versions of the events.k8s.io group. */
export function sameGroup(event: JsonObject): JsonObject {
  return withSeries(event, true)
}

function structOf(core: string): Buffer | undefined {
  const text = STRUCTS[core] ?? (core === 'source' || core === 'involvedObject' ? '{}' : undefined)
  return text === undefined ? undefined : Buffer.from(text, 'latin1')
}

function withSeries(event: JsonObject, countIsRequired: boolean): JsonObject {
  return event.change('series', (series) => {
    const count = series.get('count') ?? (countIsRequired ? Buffer.from('0') : undefined)
    const isLeftOut = !countIsRequired && count?.toString('latin1') === '0'
    return JsonObject.empty()
      .setIfAny('count', isLeftOut ? undefined : count)
      .set('lastObservedTime', series.get('lastObservedTime') ?? Buffer.from('null'))
  })
}
