/** The scale subresource: reads and writes the number of replicas without the rest of the object. */
import { ensureRecord, isNumber, type Json, type JsonRecord, member, record, textMember } from '../codec/json-tree.js'
import type { ScalePaths } from '../dialect/resource-registry.js'
import { InvalidError } from '../model/status.js'
import { type FieldProblem, invalid, wrongType } from './field-errors.js'

export const SCALE = { group: 'autoscaling', version: 'v1', kind: 'Scale' } as const

/** Returns the Scale of an object. */
export function scaleOf(object: JsonRecord, paths: ScalePaths): JsonRecord {
  const metadata = record()
  for (const name of ['name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp']) {
    const value = member(object, 'metadata', name)
    if (value !== undefined) metadata[name] = value
  }
  const selector = paths.selector === null ? '' : selectorText(member(object, ...paths.selector))
  return record({
    kind: SCALE.kind,
    apiVersion: `${SCALE.group}/${SCALE.version}`,
    metadata,
    spec: record({ replicas: count(member(object, ...paths.specReplicas), 1) }),
    status: record({
      replicas: count(member(object, ...paths.statusReplicas), 0),
      ...(selector === '' ? {} : { selector }),
    }),
  })
}

/** @throws InvalidError */
export function readReplicas(scale: JsonRecord, name: string): number {
  const replicas = member(scale, 'spec', 'replicas') ?? 0
  const problems: FieldProblem[] = []
  if (!isNumber(replicas)) problems.push(wrongType('spec.replicas', typeof replicas, 'must be an integer'))
  else if (typeof replicas !== 'number' || !Number.isInteger(replicas) || replicas < 0 || replicas > 0x7fff_ffff) {
    problems.push(invalid('spec.replicas', replicas, 'must be greater than or equal to 0'))
  }
  if (problems.length > 0) throw InvalidError.forFields(SCALE.kind, SCALE.group, name, problems)
  return replicas as number
}

/** Changes `object`. */
export function setReplicas(object: JsonRecord, replicas: number, paths: ScalePaths): void {
  let at = object
  for (const name of paths.specReplicas.slice(0, -1)) at = ensureRecord(at, name)
  at[paths.specReplicas.at(-1)!] = replicas
}

function count(value: Json | undefined, missing: number): Json {
  return isNumber(value) ? value : missing
}

/** The selector is a text, a map of equal labels (as in a ReplicationController), or a LabelSelector. */
function selectorText(selector: Json | undefined): string {
  if (typeof selector === 'string') return selector
  if (selector === undefined) return ''
  const labels =
    member(selector, 'matchLabels') ?? (member(selector, 'matchExpressions') === undefined ? selector : undefined)
  const terms: string[] = []
  for (const [name, value] of Object.entries(labels ?? {})) terms.push(`${name}=${String(value)}`)
  const expressions = member(selector, 'matchExpressions')
  for (const expression of Array.isArray(expressions) ? expressions : []) {
    const key = textMember(expression, 'key')
    const values = member(expression, 'values')
    const list = Array.isArray(values) ? values.map(String).join(',') : ''
    const operator = textMember(expression, 'operator')
    if (operator === 'Exists') terms.push(key)
    else if (operator === 'DoesNotExist') terms.push(`!${key}`)
    else terms.push(`${key} ${operator === 'NotIn' ? 'notin' : 'in'} (${list})`)
  }
  return terms.join(',')
}
