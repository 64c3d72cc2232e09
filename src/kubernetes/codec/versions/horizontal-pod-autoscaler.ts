/**
 * Converts HorizontalPodAutoscaler of autoscaling/v1 to and from v2. v1 has one target, the CPU's utilization. API
 * servers keep everything else in annotations of a v1 object: metrics in v1's flat notation, conditions, and the
 * behavior with its Go names.
 *
 * A metric is converted according to its members, whatever its `type` says. Controllers write types without a member:
 * `{"type":""}` stands for a metric that could not be read.
 *
 * Source: kubernetes 1.37, pkg/apis/autoscaling/v1/conversion.go.
 */
import { JsonObject } from './json-object.js'
import { arrayInAnnotation } from './small-differences.js'

const PREFIX = 'autoscaling.alpha.kubernetes.io/'
const METRICS = `${PREFIX}metrics`
const CURRENT_METRICS = `${PREFIX}current-metrics`
const CONDITIONS = `${PREFIX}conditions`
const BEHAVIOR = `${PREFIX}behavior`
/** The last two were used by alpha releases. API servers drop them with the others. */
const ANNOTATIONS = [
  METRICS,
  CURRENT_METRICS,
  CONDITIONS,
  BEHAVIOR,
  `${PREFIX}scale-up-tolerance`,
  `${PREFIX}scale-down-tolerance`,
]
const NULL = Buffer.from('null', 'latin1')
const ZERO = Buffer.from('0', 'latin1')
/** The target of an autoscaler that does not specify one. */
const DEFAULT_CPU_UTILIZATION = Buffer.from('80', 'latin1')

const NO_TEXT = '""'
const NO_QUANTITY = '"0"'
const NO_REFERENCE = '{"kind":"","name":""}'

type Side = 'target' | 'current'

/** A field in both versions. `zero` is what Go writes for an absent non-pointer; null for a pointer. */
type MetricField = readonly [v1: string, v2: string, zero: string | null]

interface MetricShape {
  readonly member: string
  /** In the order of v1's struct. */
  readonly fields: readonly MetricField[]
  /** The members of v2's struct, in its order. */
  readonly order: readonly string[]
}

/** The members of a metric, in the order of the struct. */
function shapesOf(side: Side): readonly MetricShape[] {
  const isTarget = side === 'target'
  const name: MetricField = ['name', 'name', NO_TEXT]
  const container: MetricField = ['container', 'container', NO_TEXT]
  const metricName: MetricField = ['metricName', 'metric.name', NO_TEXT]
  const selector: MetricField = ['selector', 'metric.selector', null]
  const value = (zero: string | null): MetricField => [`${side}Value`, `${side}.value`, zero]
  const average = (zero: string | null): MetricField => [`${side}AverageValue`, `${side}.averageValue`, zero]
  const utilization: MetricField = [`${side}AverageUtilization`, `${side}.averageUtilization`, null]
  const quantity = isTarget ? null : NO_QUANTITY
  return [
    {
      member: 'object',
      fields: [
        ['target', 'describedObject', NO_REFERENCE],
        metricName,
        value(NO_QUANTITY),
        selector,
        ['averageValue', `${side}.averageValue`, null],
      ],
      order: isTarget ? ['describedObject', side, 'metric'] : ['metric', side, 'describedObject'],
    },
    { member: 'pods', fields: [metricName, average(NO_QUANTITY), selector], order: ['metric', side] },
    { member: 'resource', fields: [name, utilization, average(quantity)], order: ['name', side] },
    {
      member: 'containerResource',
      fields: [name, utilization, average(quantity), container],
      order: ['name', side, 'container'],
    },
    {
      member: 'external',
      fields: [metricName, ['metricSelector', 'metric.selector', null], value(quantity), average(null)],
      order: ['metric', side],
    },
  ]
}

const SHAPES: Readonly<Record<Side, readonly MetricShape[]>> = {
  target: shapesOf('target'),
  current: shapesOf('current'),
}

/** The order of v2's MetricTarget and MetricValueStatus. */
const MEASURES = ['type', 'value', 'averageValue', 'averageUtilization']
const SCALING_RULES = ['stabilizationWindowSeconds', 'selectPolicy', 'policies', 'tolerance']
const SCALING_POLICY = ['type', 'value', 'periodSeconds']

export function toV2(autoscaler: JsonObject): JsonObject {
  const metadata = autoscaler.object('metadata')
  const annotations = metadata?.object('annotations') ?? null
  const spec = autoscaler.object('spec') ?? JsonObject.empty()
  const status = autoscaler.object('status') ?? JsonObject.empty()

  const metrics = (arrayInAnnotation(annotations, METRICS) ?? []).map((metric) => nest(metric, 'target'))
  const cpu = spec.get('targetCPUUtilizationPercentage')
  if (cpu !== undefined) metrics.push(cpuMetric('target', cpu))
  if (metrics.length === 0) metrics.push(cpuMetric('target', DEFAULT_CPU_UTILIZATION))

  const currentCpu = status.get('currentCPUUtilizationPercentage')
  const currentMetrics =
    arrayInAnnotation(annotations, CURRENT_METRICS)?.map((metric) => nest(metric, 'current')) ??
    (currentCpu === undefined ? NULL : [cpuMetric('current', currentCpu)])

  const newSpec = copy(spec, ['scaleTargetRef', 'minReplicas', 'maxReplicas']).set('metrics', metrics)
  newSpec.setIfAny('behavior', behaviorToV2(annotations))
  const newStatus = copy(status, ['observedGeneration', 'lastScaleTime'])
  if (status.get('currentReplicas')?.equals(ZERO) === false)
    newStatus.setIfAny('currentReplicas', status.get('currentReplicas'))
  newStatus.set('desiredReplicas', status.get('desiredReplicas') ?? ZERO).set('currentMetrics', currentMetrics)
  const conditions = arrayInAnnotation(annotations, CONDITIONS) ?? []
  if (conditions.length > 0) newStatus.set('conditions', conditions)
  return withAnnotations(autoscaler, metadata, annotations, new Map()).set('spec', newSpec).set('status', newStatus)
}

export function toV1(autoscaler: JsonObject): JsonObject {
  const metadata = autoscaler.object('metadata')
  const spec = autoscaler.object('spec') ?? JsonObject.empty()
  const status = autoscaler.object('status') ?? JsonObject.empty()
  const added = new Map<string, string>()
  const newSpec = copy(spec, ['scaleTargetRef', 'minReplicas', 'maxReplicas'])
  const newStatus = copy(status, ['observedGeneration', 'lastScaleTime'])
  for (const name of ['currentReplicas', 'desiredReplicas']) newStatus.set(name, status.get(name) ?? ZERO)

  const metrics = spec.objects('metrics') ?? []
  const others: JsonObject[] = []
  for (const metric of metrics) {
    const utilization = cpuUtilization(metric, 'target')
    if (utilization === undefined) others.push(flatten(metric, 'target'))
    else if (!newSpec.has('targetCPUUtilizationPercentage')) newSpec.set('targetCPUUtilizationPercentage', utilization)
  }
  if (metrics.length === 0) newSpec.set('targetCPUUtilizationPercentage', DEFAULT_CPU_UTILIZATION)
  const current: JsonObject[] = []
  for (const metric of status.objects('currentMetrics') ?? []) {
    const utilization = cpuUtilization(metric, 'current')
    if (utilization !== undefined) newStatus.set('currentCPUUtilizationPercentage', utilization)
    // The annotation repeats the CPU's utilization, since it has the raw value too.
    current.push(flatten(metric, 'current'))
  }
  if (others.length > 0) added.set(METRICS, arrayText(others))
  if (current.length > 0) added.set(CURRENT_METRICS, arrayText(current))
  const conditions = status.objects('conditions') ?? []
  if (conditions.length > 0) added.set(CONDITIONS, arrayText(conditions))
  const behavior = spec.object('behavior')
  if (behavior !== null) added.set(BEHAVIOR, textOf(behaviorToV1(behavior)))
  return withAnnotations(autoscaler, metadata, metadata?.object('annotations') ?? null, added)
    .set('spec', newSpec)
    .set('status', newStatus)
}

function cpuMetric(side: Side, utilization: Buffer): JsonObject {
  const value = JsonObject.empty()
  if (side === 'target') value.set('type', 'Utilization')
  value.set('averageUtilization', utilization)
  return JsonObject.empty()
    .set('type', 'Resource')
    .set('resource', JsonObject.empty().set('name', 'cpu').set(side, value))
}

/** Returns undefined for a metric that is not the CPU's utilization. */
function cpuUtilization(metric: JsonObject, side: Side): Buffer | undefined {
  const resource = metric.text('type') === 'Resource' ? metric.object('resource') : null
  const measured = resource?.text('name') === 'cpu' ? resource.object(side) : null
  return measured === null ? undefined : present(measured, 'averageUtilization')
}

/** Turns v1's flat metric into v2's notation. */
function nest(metric: JsonObject, side: Side): JsonObject {
  return eachMember(metric, side, ({ fields, order, member }, source) => {
    const parts = new Map<string, JsonObject>([[side, JsonObject.empty()]])
    const result = JsonObject.empty()
    for (const [v1, v2, zero] of fields) {
      const value = present(source, v1) ?? (zero === null ? undefined : Buffer.from(zero, 'latin1'))
      const [name = '', inner] = v2.split('.')
      if (inner === undefined) result.setIfAny(name, value)
      else {
        const part = parts.get(name) ?? JsonObject.empty()
        parts.set(name, part.setIfAny(inner, value))
      }
    }
    const measured = parts.get(side)!
    if (side === 'target') {
      const type = targetType(member, measured)
      measured.set('type', type)
      // Beside an average, v1 writes a meaningless zero.
      if (member === 'object' && type === 'AverageValue' && measured.text('value') === '0') measured.delete('value')
    }
    parts.set(side, copy(measured, MEASURES))
    for (const [name, part] of parts) result.set(name, part)
    return copy(result, order)
  })
}

function targetType(member: string, target: JsonObject): string {
  if (target.has('averageUtilization')) return 'Utilization'
  if (member === 'object') return target.has('averageValue') ? 'AverageValue' : 'Value'
  return target.has('value') ? 'Value' : 'AverageValue'
}

/** Turns v2's metric into v1's flat notation. */
function flatten(metric: JsonObject, side: Side): JsonObject {
  return eachMember(metric, side, ({ fields }, source) => {
    const result = JsonObject.empty()
    for (const [v1, v2, zero] of fields) {
      const [name = '', inner] = v2.split('.')
      const from = inner === undefined ? source : source.object(name)
      const value = from === null ? undefined : present(from, inner ?? name)
      if (value !== undefined) result.set(v1, value)
      else if (zero !== null) result.set(v1, Buffer.from(zero, 'latin1'))
    }
    return result
  })
}

/** Converts whatever members a metric has and keeps its type. */
function eachMember(
  metric: JsonObject,
  side: Side,
  convert: (shape: MetricShape, source: JsonObject) => JsonObject,
): JsonObject {
  const result = JsonObject.empty().set('type', metric.text('type'))
  for (const shape of SHAPES[side]) {
    const source = metric.object(shape.member)
    if (source !== null) result.set(shape.member, convert(shape, source))
  }
  return result
}

function behaviorToV2(annotations: JsonObject | null): JsonObject | undefined {
  const text = annotations?.text(BEHAVIOR) ?? ''
  const behavior = arrayInAnnotation(JsonObject.empty().set(BEHAVIOR, `[${text}]`), BEHAVIOR)?.[0]
  if (behavior === undefined) return undefined
  const result = JsonObject.empty()
  for (const name of ['scaleUp', 'scaleDown']) {
    const rules = behavior.object(upperFirst(name))
    if (rules === null) continue
    const converted = pick(rules, SCALING_RULES, upperFirst)
    const policies = (rules.objects('Policies') ?? []).map((policy) => pick(policy, SCALING_POLICY, upperFirst))
    if (policies.length === 0) converted.delete('policies')
    else converted.set('policies', policies)
    result.set(name, converted)
  }
  return result.names().length === 0 ? undefined : result
}

/** Writes the behavior as Go writes a struct without tags: with the fields' Go names, and null for absent ones. */
function behaviorToV1(behavior: JsonObject): JsonObject {
  const result = JsonObject.empty()
  for (const name of ['scaleUp', 'scaleDown']) {
    const rules = behavior.object(name)
    if (rules === null) {
      result.set(upperFirst(name), NULL)
      continue
    }
    const converted = JsonObject.empty()
    for (const each of SCALING_RULES) converted.set(upperFirst(each), rules.get(each) ?? NULL)
    const policies = rules.objects('policies')
    if (policies !== null) {
      const renamed = policies.map((policy) => {
        const written = JsonObject.empty()
        for (const each of SCALING_POLICY) written.setIfAny(upperFirst(each), policy.get(each))
        return written
      })
      converted.set('Policies', renamed)
    }
    result.set(upperFirst(name), converted)
  }
  return result
}

/** Returns those of the named members that exist. @param nameOf returns a member's name in `from`. */
function pick(from: JsonObject, names: readonly string[], nameOf: (name: string) => string): JsonObject {
  const result = JsonObject.empty()
  for (const name of names) result.setIfAny(name, present(from, nameOf(name)))
  return result
}

function copy(from: JsonObject, names: readonly string[]): JsonObject {
  return pick(from, names, (name) => name)
}

/** A member that is null is absent to Go. */
function present(from: JsonObject, name: string): Buffer | undefined {
  const value = from.get(name)
  return value?.equals(NULL) === true ? undefined : value
}

function upperFirst(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1)
}

function arrayText(items: readonly JsonObject[]): string {
  return escaped(`[${items.map((item) => item.toBuffer().toString('utf8')).join(',')}]`)
}

function textOf(object: JsonObject): string {
  return escaped(object.toBuffer().toString('utf8'))
}

/** Go's encoder escapes these in every text, so that JSON can be embedded in a web page. */
function escaped(json: string): string {
  return json.replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Replaces the annotations of this conversion, in Go's order of map keys. */
function withAnnotations(
  autoscaler: JsonObject,
  metadata: JsonObject | null,
  annotations: JsonObject | null,
  added: ReadonlyMap<string, string>,
): JsonObject {
  const all = annotations ?? JsonObject.empty()
  const before = all.names().length
  for (const name of ANNOTATIONS) all.delete(name)
  if (before === all.names().length && added.size === 0) return autoscaler
  for (const [name, text] of added) all.set(name, text)
  const changed = metadata ?? JsonObject.empty()
  if (all.names().length === 0) changed.delete('annotations')
  else changed.set('annotations', copy(all, all.names().toSorted()))
  return autoscaler.set('metadata', changed)
}
