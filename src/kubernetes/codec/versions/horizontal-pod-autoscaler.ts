/**
 * Converts HorizontalPodAutoscaler of autoscaling/v1 to and from v2. v1 has one target, the CPU's utilization. API
 * servers keep everything else in annotations of a v1 object: metrics in v1's flat notation, conditions, and the
 * behavior with its Go names.
 *
 * A metric is converted by its members, regardless of its `type`. Controllers write types without a member:
 * `{"type":""}` stands for a metric that could not be read.
 *
 * Source: kubernetes 1.37, pkg/apis/autoscaling/v1/conversion.go.
 */
import {
  ensureRecord,
  goJsonText,
  isEmptyRecord,
  isRecord,
  type Json,
  type JsonRecord,
  member,
  parseJsonText,
  record,
  recordAt,
  recordsAt,
  textMember,
} from '../json-tree.js'

const PREFIX = 'autoscaling.alpha.kubernetes.io/'
const METRICS = `${PREFIX}metrics`
const CURRENT_METRICS = `${PREFIX}current-metrics`
const CONDITIONS = `${PREFIX}conditions`
const BEHAVIOR = `${PREFIX}behavior`
/** Alpha releases used the last two. API servers drop them together with the others. */
const ANNOTATIONS = [
  METRICS,
  CURRENT_METRICS,
  CONDITIONS,
  BEHAVIOR,
  `${PREFIX}scale-up-tolerance`,
  `${PREFIX}scale-down-tolerance`,
]
/** The target of an autoscaler that does not specify one. */
const DEFAULT_CPU_UTILIZATION = 80
const CPU_TARGET = 'targetCPUUtilizationPercentage'
const CPU_CURRENT = 'currentCPUUtilizationPercentage'

type Side = 'target' | 'current'

/**
 * A field in both versions. `zero` is what Go writes for an absent field that is not a pointer; a pointer has no
 * `zero`.
 */
type MetricField = readonly [v1: string, v2: string, zero?: Json]

/** The members of a metric, each with its fields in the order of v1's struct. */
function shapesOf(side: Side): readonly (readonly [member: string, fields: readonly MetricField[]])[] {
  const name: MetricField = ['name', 'name', '']
  const container: MetricField = ['container', 'container', '']
  const metricName: MetricField = ['metricName', 'metric.name', '']
  const selector: MetricField = ['selector', 'metric.selector']
  const value = (...zero: readonly [Json?]): MetricField => [`${side}Value`, `${side}.value`, ...zero]
  const average = (...zero: readonly [Json?]): MetricField => [`${side}AverageValue`, `${side}.averageValue`, ...zero]
  const utilization: MetricField = [`${side}AverageUtilization`, `${side}.averageUtilization`]
  const zero: readonly [Json?] = side === 'target' ? [] : ['0']
  return [
    [
      'object',
      [
        ['target', 'describedObject', record({ kind: '', name: '' })],
        metricName,
        value('0'),
        selector,
        ['averageValue', `${side}.averageValue`],
      ],
    ],
    ['pods', [metricName, average('0'), selector]],
    ['resource', [name, utilization, average(...zero)]],
    ['containerResource', [name, utilization, average(...zero), container]],
    ['external', [metricName, ['metricSelector', 'metric.selector'], value(...zero), average()]],
  ]
}

const SHAPES = { target: shapesOf('target'), current: shapesOf('current') }

const SCALING_RULES = ['stabilizationWindowSeconds', 'selectPolicy', 'policies', 'tolerance']
const SCALING_POLICY = ['type', 'value', 'periodSeconds']

export function toV2(autoscaler: JsonRecord): void {
  const annotations = recordAt(autoscaler, 'metadata', 'annotations')
  const spec = ensureRecord(autoscaler, 'spec')
  const status = ensureRecord(autoscaler, 'status')

  const metrics = (listIn(annotations, METRICS) ?? []).map((metric) => nest(metric, 'target'))
  const cpu = spec[CPU_TARGET] ?? (metrics.length === 0 ? DEFAULT_CPU_UTILIZATION : null)
  if (cpu !== null) metrics.push(cpuMetric('target', cpu))
  delete spec[CPU_TARGET]
  spec['metrics'] = metrics
  const behavior = behaviorToV2(parseJsonText(textMember(annotations, BEHAVIOR)))
  if (!isEmptyRecord(behavior)) spec['behavior'] = behavior

  const currentCpu = status[CPU_CURRENT] ?? null
  delete status[CPU_CURRENT]
  if (status['currentReplicas'] === 0) delete status['currentReplicas']
  status['desiredReplicas'] ??= 0
  status['currentMetrics'] =
    listIn(annotations, CURRENT_METRICS)?.map((metric) => nest(metric, 'current')) ??
    (currentCpu === null ? null : [cpuMetric('current', currentCpu)])
  const conditions = listIn(annotations, CONDITIONS) ?? []
  if (conditions.length > 0) status['conditions'] = conditions
  replaceAnnotations(autoscaler, {})
}

export function toV1(autoscaler: JsonRecord): void {
  const spec = ensureRecord(autoscaler, 'spec')
  const status = ensureRecord(autoscaler, 'status')
  const added: Record<string, string> = {}
  for (const name of ['currentReplicas', 'desiredReplicas']) status[name] ??= 0

  const metrics = recordsAt(spec, 'metrics')
  const others: JsonRecord[] = []
  for (const metric of metrics) {
    const utilization = cpuUtilization(metric, 'target')
    if (utilization === null) others.push(flatten(metric, 'target'))
    else spec[CPU_TARGET] ??= utilization
  }
  if (metrics.length === 0) spec[CPU_TARGET] = DEFAULT_CPU_UTILIZATION
  const currentMetrics = recordsAt(status, 'currentMetrics')
  for (const metric of currentMetrics) {
    const utilization = cpuUtilization(metric, 'current')
    if (utilization !== null) status[CPU_CURRENT] = utilization
  }
  // The annotation includes the CPU's utilization again, because it also holds the raw value.
  const current = currentMetrics.map((metric) => flatten(metric, 'current'))
  const conditions = recordsAt(status, 'conditions')
  const behavior = recordAt(spec, 'behavior')
  if (others.length > 0) added[METRICS] = goJsonText(others)
  if (current.length > 0) added[CURRENT_METRICS] = goJsonText(current)
  if (conditions.length > 0) added[CONDITIONS] = goJsonText(conditions)
  if (behavior !== null) added[BEHAVIOR] = goJsonText(behaviorToV1(behavior))
  for (const name of ['metrics', 'behavior']) delete spec[name]
  for (const name of ['currentMetrics', 'conditions']) delete status[name]
  replaceAnnotations(autoscaler, added)
}

function cpuMetric(side: Side, averageUtilization: Json): JsonRecord {
  const value = record(side === 'target' ? { type: 'Utilization', averageUtilization } : { averageUtilization })
  return record({ type: 'Resource', resource: record({ name: 'cpu', [side]: value }) })
}

/** Returns null for a metric that is not the CPU's utilization. */
function cpuUtilization(metric: JsonRecord, side: Side): Json {
  const isCpu = metric['type'] === 'Resource' && member(metric, 'resource', 'name') === 'cpu'
  return (isCpu ? member(metric, 'resource', side, 'averageUtilization') : null) ?? null
}

/** Turns v1's flat metric into v2's notation. */
function nest(metric: JsonRecord, side: Side): JsonRecord {
  return eachMember(metric, side, (source, fields, name) => {
    const measured = record()
    const nested = record({ [side]: measured })
    for (const [v1, v2, zero] of fields) {
      const value = source[v1] ?? zero
      if (value === undefined) continue
      const [outer = '', inner] = v2.split('.')
      if (inner === undefined) nested[outer] = value
      else ensureRecord(nested, outer)[inner] = value
    }
    if (side === 'target') {
      const type = targetType(name, measured)
      measured['type'] = type
      // Next to an average, v1 writes a meaningless zero.
      if (name === 'object' && type === 'AverageValue' && measured['value'] === '0') delete measured['value']
    }
    return nested
  })
}

function targetType(name: string, target: JsonRecord): string {
  if ('averageUtilization' in target) return 'Utilization'
  if (name === 'object') return 'averageValue' in target ? 'AverageValue' : 'Value'
  return 'value' in target ? 'Value' : 'AverageValue'
}

/** Turns v2's metric into v1's flat notation. */
function flatten(metric: JsonRecord, side: Side): JsonRecord {
  return eachMember(metric, side, (source, fields) => {
    const flat = record()
    for (const [v1, v2, zero] of fields) {
      const value = member(source, ...v2.split('.')) ?? zero
      if (value !== undefined) flat[v1] = value
    }
    return flat
  })
}

/** Converts every member that a metric has, and keeps its type. */
function eachMember(
  metric: JsonRecord,
  side: Side,
  convert: (source: JsonRecord, fields: readonly MetricField[], name: string) => JsonRecord,
): JsonRecord {
  const result = record({ type: textMember(metric, 'type') })
  for (const [name, fields] of SHAPES[side]) {
    const source = recordAt(metric, name)
    if (source !== null) result[name] = convert(source, fields, name)
  }
  return result
}

function behaviorToV2(behavior: Json): JsonRecord {
  const result = record()
  for (const name of ['scaleUp', 'scaleDown']) {
    const rules = recordAt(behavior, upperFirst(name))
    if (rules === null) continue
    const converted = record()
    for (const each of SCALING_RULES) {
      const value = rules[upperFirst(each)] ?? null
      if (value !== null) converted[each] = value
    }
    const policies = recordsAt(rules, 'Policies').map((policy) =>
      record(Object.fromEntries(SCALING_POLICY.map((each) => [each, policy[upperFirst(each)] ?? null]))),
    )
    if (policies.length > 0) converted['policies'] = policies
    else delete converted['policies']
    result[name] = converted
  }
  return result
}

/** Writes the behavior as Go writes a struct without tags: with the fields' Go names, and null for absent ones. */
function behaviorToV1(behavior: JsonRecord): JsonRecord {
  const withGoNames = (source: JsonRecord, names: readonly string[]): JsonRecord =>
    record(Object.fromEntries(names.map((name) => [upperFirst(name), source[name] ?? null])))
  const result = withGoNames(behavior, ['scaleUp', 'scaleDown'])
  for (const name of ['scaleUp', 'scaleDown']) {
    const rules = recordAt(behavior, name)
    if (rules === null) continue
    const converted = withGoNames(rules, SCALING_RULES)
    if (Array.isArray(rules['policies'])) {
      converted['Policies'] = recordsAt(rules, 'policies').map((policy) => withGoNames(policy, SCALING_POLICY))
    }
    result[upperFirst(name)] = converted
  }
  return result
}

function upperFirst(name: string): string {
  return name.slice(0, 1).toUpperCase() + name.slice(1)
}

/** Returns the objects of an annotation that is a JSON array; null when it is absent or not such an array. */
function listIn(annotations: JsonRecord | null, name: string): JsonRecord[] | null {
  const list = parseJsonText(textMember(annotations, name))
  return Array.isArray(list) ? list.filter(isRecord) : null
}

/** Replaces the annotations of this conversion. */
function replaceAnnotations(autoscaler: JsonRecord, added: Readonly<Record<string, string>>): void {
  const metadata = ensureRecord(autoscaler, 'metadata')
  const annotations = ensureRecord(metadata, 'annotations')
  for (const name of ANNOTATIONS) delete annotations[name]
  Object.assign(annotations, added)
  if (isEmptyRecord(annotations)) delete metadata['annotations']
}
