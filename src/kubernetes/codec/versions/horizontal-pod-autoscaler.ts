/**
 * Converts HorizontalPodAutoscaler of autoscaling/v1 to and from v2. v1 has one target, the CPU's utilization. API
 * servers keep everything else in annotations of a v1 object: metrics in v1's flat notation, conditions, and the
 * behavior with its Go names. Both directions are therefore lossless, except for a metric of an unknown type: such an
 * object is not converted.
 */
import { JsonObject, parseArray } from './json-object.js'
import { arrayInAnnotation } from './small-differences.js'

const METRICS = 'autoscaling.alpha.kubernetes.io/metrics'
const CURRENT_METRICS = 'autoscaling.alpha.kubernetes.io/current-metrics'
const CONDITIONS = 'autoscaling.alpha.kubernetes.io/conditions'
const BEHAVIOR = 'autoscaling.alpha.kubernetes.io/behavior'
const ANNOTATIONS = [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR]
const NULL = Buffer.from('null', 'latin1')
const ZERO = Buffer.from('0', 'latin1')

/** A metric's member by type, and the v1 names of what v2 has in `metric`, `target` and `current`. */
interface FlatNames {
  readonly member: string
  readonly value: string
  readonly averageValue: string
  readonly averageUtilization: string
  readonly selector: string
}

const flat = (member: string, prefix: 'target' | 'current', names: Partial<FlatNames> = {}): FlatNames => ({
  member,
  value: `${prefix}Value`,
  averageValue: `${prefix}AverageValue`,
  averageUtilization: `${prefix}AverageUtilization`,
  selector: 'selector',
  ...names,
})

function flatNames(prefix: 'target' | 'current'): ReadonlyMap<string, FlatNames> {
  return new Map([
    ['Object', flat('object', prefix, { averageValue: 'averageValue' })],
    ['Pods', flat('pods', prefix)],
    ['Resource', flat('resource', prefix)],
    ['ContainerResource', flat('containerResource', prefix)],
    ['External', flat('external', prefix, { selector: 'metricSelector' })],
  ])
}

const SPEC_NAMES = flatNames('target')
const STATUS_NAMES = flatNames('current')

export function toV2(autoscaler: JsonObject): JsonObject | null {
  const metadata = autoscaler.object('metadata')
  const annotations = metadata?.object('annotations') ?? null
  const spec = autoscaler.object('spec') ?? JsonObject.empty()
  const status = autoscaler.object('status') ?? JsonObject.empty()

  const cpu = spec.get('targetCPUUtilizationPercentage')
  const metrics = cpu === undefined ? [] : [cpuMetric('target', cpu)]
  for (const metric of arrayInAnnotation(annotations, METRICS) ?? []) {
    const nested = nest(metric, 'target', SPEC_NAMES)
    if (nested === null) return null
    metrics.push(nested)
  }
  const currentCpu = status.get('currentCPUUtilizationPercentage')
  let currentMetrics = currentCpu === undefined ? null : [cpuMetric('current', currentCpu)]
  const reported = arrayInAnnotation(annotations, CURRENT_METRICS)
  if (reported !== null) {
    const nested = reported.map((metric) => nest(metric, 'current', STATUS_NAMES))
    if (nested.some((metric) => metric === null)) return null
    currentMetrics = nested.filter((metric) => metric !== null)
  }

  const newSpec = copy(spec, ['scaleTargetRef', 'minReplicas', 'maxReplicas'])
  if (metrics.length > 0) newSpec.set('metrics', metrics)
  newSpec.setIfAny('behavior', behaviorToV2(annotations))
  const newStatus = copy(status, ['observedGeneration', 'lastScaleTime'])
  if (status.get('currentReplicas')?.equals(ZERO) === false)
    newStatus.setIfAny('currentReplicas', status.get('currentReplicas'))
  newStatus.set('desiredReplicas', status.get('desiredReplicas') ?? ZERO).set('currentMetrics', currentMetrics ?? NULL)
  newStatus.setIfAny('conditions', arrayInAnnotation(annotations, CONDITIONS) ?? undefined)
  return withAnnotations(autoscaler, metadata, annotations, new Map()).set('spec', newSpec).set('status', newStatus)
}

export function toV1(autoscaler: JsonObject): JsonObject | null {
  const metadata = autoscaler.object('metadata')
  const spec = autoscaler.object('spec') ?? JsonObject.empty()
  const status = autoscaler.object('status') ?? JsonObject.empty()
  const added = new Map<string, string>()
  const newSpec = copy(spec, ['scaleTargetRef', 'minReplicas', 'maxReplicas'])
  const newStatus = copy(status, ['observedGeneration', 'lastScaleTime', 'currentReplicas', 'desiredReplicas'])
  for (const name of ['currentReplicas', 'desiredReplicas']) if (!newStatus.has(name)) newStatus.set(name, ZERO)

  const others: JsonObject[] = []
  for (const metric of spec.objects('metrics') ?? []) {
    const utilization = cpuUtilization(metric, 'target')
    if (utilization !== undefined && !newSpec.has('targetCPUUtilizationPercentage')) {
      newSpec.set('targetCPUUtilizationPercentage', utilization)
      continue
    }
    const flattened = flatten(metric, 'target', SPEC_NAMES)
    if (flattened === null) return null
    others.push(flattened)
  }
  const current: JsonObject[] = []
  for (const metric of status.objects('currentMetrics') ?? []) {
    const utilization = cpuUtilization(metric, 'current')
    if (utilization !== undefined) newStatus.set('currentCPUUtilizationPercentage', utilization)
    const flattened = flatten(metric, 'current', STATUS_NAMES)
    if (flattened === null) return null
    current.push(flattened)
  }
  if (others.length > 0) added.set(METRICS, arrayText(others))
  if (current.length > 0) added.set(CURRENT_METRICS, arrayText(current))
  const conditions = status.objects('conditions') ?? []
  if (conditions.length > 0) added.set(CONDITIONS, arrayText(conditions))
  const behavior = spec.object('behavior')
  if (behavior !== null) added.set(BEHAVIOR, renameAll(behavior, upperFirst).toBuffer().toString('utf8'))
  return withAnnotations(autoscaler, metadata, metadata?.object('annotations') ?? null, added)
    .set('spec', newSpec)
    .set('status', newStatus)
}

function cpuMetric(side: 'target' | 'current', utilization: Buffer): JsonObject {
  const value = JsonObject.empty()
  if (side === 'target') value.set('type', 'Utilization')
  value.set('averageUtilization', utilization)
  return JsonObject.empty()
    .set('type', 'Resource')
    .set('resource', JsonObject.empty().set('name', 'cpu').set(side, value))
}

/** Returns undefined for a metric that is not the CPU's utilization. */
function cpuUtilization(metric: JsonObject, side: 'target' | 'current'): Buffer | undefined {
  const resource = metric.text('type') === 'Resource' ? metric.object('resource') : null
  return resource?.text('name') === 'cpu' ? resource.object(side)?.get('averageUtilization') : undefined
}

/** Turns v1's flat metric into v2's notation. */
function nest(
  metric: JsonObject,
  side: 'target' | 'current',
  types: ReadonlyMap<string, FlatNames>,
): JsonObject | null {
  const type = metric.text('type')
  const names = types.get(type)
  const source = names === undefined ? null : metric.object(names.member)
  if (names === undefined || source === null) return null
  const isResource = type.endsWith('Resource')
  const result = JsonObject.empty()
  if (type === 'Object') result.setIfAny('describedObject', source.get('target'))
  if (isResource) result.setIfAny('name', source.get('name'))
  const value = meaningful(source, names.value)
  const averageValue = meaningful(source, names.averageValue)
  const averageUtilization = isResource ? source.get(names.averageUtilization) : undefined
  const measured = JsonObject.empty()
  if (side === 'target') {
    const kind =
      averageUtilization !== undefined ? 'Utilization' : averageValue !== undefined ? 'AverageValue' : 'Value'
    measured.set('type', kind)
  }
  // A target has exactly one of the three.
  const isAverage = side === 'target' && averageValue !== undefined
  if (!isAverage) measured.setIfAny('value', value)
  measured.setIfAny('averageValue', averageValue).setIfAny('averageUtilization', averageUtilization)
  result.set(side, measured)
  if (type === 'ContainerResource') result.setIfAny('container', source.get('container'))
  if (!isResource) {
    const identifier = JsonObject.empty().set('name', source.text('metricName'))
    result.set('metric', identifier.setIfAny('selector', source.get(names.selector)))
  }
  return JsonObject.empty().set('type', type).set(names.member, result)
}

/** Turns v2's metric into v1's flat notation. */
function flatten(
  metric: JsonObject,
  side: 'target' | 'current',
  types: ReadonlyMap<string, FlatNames>,
): JsonObject | null {
  const type = metric.text('type')
  const names = types.get(type)
  const source = names === undefined ? null : metric.object(names.member)
  if (names === undefined || source === null) return null
  const measured = source.object(side) ?? JsonObject.empty()
  const identifier = source.object('metric')
  const result = JsonObject.empty()
  if (type === 'Object') result.setIfAny('target', source.get('describedObject'))
  if (identifier !== null) {
    result.setIfAny('metricName', identifier.get('name'))
    result.setIfAny(names.selector, identifier.get('selector'))
  }
  if (type.endsWith('Resource')) {
    result.setIfAny('name', source.get('name'))
    result.setIfAny(names.averageUtilization, measured.get('averageUtilization'))
  }
  const value = measured.get('value')
  // Go's v1 structs have no pointers here.
  const needsValue = type === 'Object' || (type === 'External' && side === 'current')
  if (value !== undefined || needsValue) result.set(names.value, value ?? '0')
  const needsAverage = type === 'Pods' || (type.endsWith('Resource') && side === 'current')
  const averageValue = measured.get('averageValue')
  if (averageValue !== undefined || needsAverage) result.set(names.averageValue, averageValue ?? '0')
  if (type === 'ContainerResource') result.setIfAny('container', source.get('container'))
  return JsonObject.empty().set('type', type).set(names.member, result)
}

/** Returns a quantity that is set: Go writes "0" for absent ones that are no pointers. */
function meaningful(source: JsonObject, name: string): Buffer | undefined {
  return source.text(name) === '' || source.text(name) === '0' ? undefined : source.get(name)
}

function behaviorToV2(annotations: JsonObject | null): JsonObject | undefined {
  const text = annotations?.text(BEHAVIOR) ?? ''
  const parsed = arrayInAnnotation(JsonObject.empty().set(BEHAVIOR, `[${text}]`), BEHAVIOR)
  return parsed?.[0] === undefined ? undefined : renameAll(parsed[0], lowerFirst)
}

/** Renames members at every level. Members that are null, which Go writes and v2 leaves out, are dropped. */
function renameAll(object: JsonObject, rename: (name: string) => string): JsonObject {
  const result = JsonObject.empty()
  for (const name of object.names()) {
    const value = object.get(name)!
    if (value.equals(NULL)) continue
    const items = parseArray(value)
    const inner = object.object(name)
    if (items !== null)
      result.set(
        rename(name),
        items.map((item) => renameAll(item, rename)),
      )
    else result.set(rename(name), inner === null ? value : renameAll(inner, rename))
  }
  return result
}

function lowerFirst(name: string): string {
  return name.slice(0, 1).toLowerCase() + name.slice(1)
}

function upperFirst(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1)
}

function copy(from: JsonObject, names: readonly string[]): JsonObject {
  const result = JsonObject.empty()
  for (const name of names) result.setIfAny(name, from.get(name))
  return result
}

function arrayText(items: readonly JsonObject[]): string {
  return `[${items.map((item) => item.toBuffer().toString('utf8')).join(',')}]`
}

/** Drops the annotations of this conversion and sets them anew. */
function withAnnotations(
  autoscaler: JsonObject,
  metadata: JsonObject | null,
  annotations: JsonObject | null,
  added: ReadonlyMap<string, string>,
): JsonObject {
  const result = annotations ?? JsonObject.empty()
  const before = result.names().length
  for (const name of ANNOTATIONS) result.delete(name)
  for (const [name, text] of added) result.set(name, text)
  if (before === 0 && added.size === 0) return autoscaler
  const changed = metadata ?? JsonObject.empty()
  if (result.names().length === 0) changed.delete('annotations')
  else changed.set('annotations', result)
  return autoscaler.set('metadata', changed)
}
