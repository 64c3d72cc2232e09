/**
 * The scale subresource of an object: the desired and current number of replicas, without the rest of the object.
 *
 * Source: the scale storage of kube-apiserver and of k8s.io/apiextensions-apiserver.
 */
import {
  encodeJsonTree,
  isNumber,
  isRecord,
  type Json,
  type JsonRecord,
  member,
  parseJsonTree,
  record,
} from '../codec/json-tree.js'
import { has } from '../../support/fields.js'
import { selectorText } from './selector-text.js'
import { goNumber, printedNumber } from '../../engine/facts/numbers.js'
import { scanObject } from '../codec/json-scan.js'
import { apiVersion } from '../model/api-resource.js'
import { NoScaleError } from '../model/status.js'
import type { JsonView } from './encoding/json-encoder.js'
import { type PrinterColumn, type ScalePaths, type ServedResource, servedResource } from './resource-registry.js'

export const SCALE = { group: 'autoscaling', version: 'v1', kind: 'Scale' } as const

const COLUMNS: readonly PrinterColumn[] = [
  column('Desired', 'integer', 'Number of desired replicas', '.spec.replicas'),
  column('Available', 'integer', 'Number of actual replicas', '.status.replicas'),
  column('Age', 'date', 'When the object was created.', '.metadata.creationTimestamp'),
]

function column(name: string, type: string, description: string, jsonPath: string): PrinterColumn {
  return { name, type, format: '', description, priority: 0, jsonPath }
}

/**
 * Returns the resource that represents the scales of another one. The scales of a custom resource have their own
 * columns.
 */
export function scaleResource({ resource, origin }: ServedResource): ServedResource {
  const scale = { ...resource, ...SCALE, listKind: 'ScaleList' }
  return origin === 'well-known'
    ? servedResource(scale, 'well-known')
    : servedResource(scale, 'custom', { printerColumns: COLUMNS })
}

/**
 * Returns the Scale of a stored object, for responses.
 * @param view the object itself.
 * @throws NoScaleError from the view, when the object has no replicas.
 */
export function scaleView(paths: ScalePaths, view: JsonView): JsonView {
  return (object) => {
    const json = view(object)
    const tree = json === null ? null : parseJsonTree(json.bytes).value
    if (!isRecord(tree)) return null
    const scale = scaleOf(tree, paths)
    if (!paths.isBuiltIn && valueAt(tree, paths.specReplicas) === undefined) throw missingReplicas(paths)
    return scanObject(encodeJsonTree(scale))
  }
}

/** @throws NoScaleError when the value at a path has another type. */
export function scaleOf(object: JsonRecord, paths: ScalePaths): JsonRecord {
  const metadata = record()
  for (const name of ['name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp']) {
    const value = member(object, 'metadata', name)
    if (value !== undefined) metadata[name] = value
  }
  const desired = countAt(object, paths.specReplicas, paths) ?? (paths.isBuiltIn ? 1 : 0)
  const present = countAt(object, paths.statusReplicas, paths) ?? 0
  const selector = selectorOf(object, paths)
  return record({
    kind: SCALE.kind,
    apiVersion: apiVersion(SCALE),
    metadata,
    // Scale's type omits a zero.
    spec: record(desired === 0 ? {} : { replicas: desired }),
    status: record({
      replicas: present,
      ...(selector === '' ? {} : { selector }),
    }),
  })
}

/** Reads a count like the API server: any 64-bit integer is accepted, but a Scale keeps only its lower 32 bits. */
function countAt(object: JsonRecord, path: readonly string[], paths: ScalePaths): number | undefined {
  const count = integerAt(object, path, paths)
  return count === undefined ? undefined : Number(BigInt.asIntN(32, count))
}

/** @throws NoScaleError when the value at the path is not an integer of 64 bits. */
export function integerAt(
  object: JsonRecord,
  path: readonly string[],
  { isBuiltIn }: Pick<ScalePaths, 'isBuiltIn'>,
): bigint | undefined {
  const value = valueAt(object, path)
  if (value === undefined || (value === null && isBuiltIn)) return undefined
  const number = isNumber(value) ? goNumber(value) : null
  if (number?.kind !== 'int') throw wrongType(path, value, 'int64')
  return number.int
}

/** @throws NoScaleError when a value along the path is not an object. A null along the path counts as absent. */
function valueAt(object: JsonRecord, path: readonly string[]): Json | undefined {
  let at: Json = object
  for (const [i, name] of path.entries()) {
    if (at === null) return undefined
    if (!isRecord(at)) throw wrongType(path.slice(0, i + 1), at, 'map[string]interface{}')
    if (!Object.hasOwn(at, name)) return undefined
    at = at[name]!
  }
  return at
}

function selectorOf(object: JsonRecord, { selector: path, isBuiltIn }: ScalePaths): string {
  const value = path === null ? undefined : valueAt(object, path)
  if (path === null || value === undefined) return ''
  // A ReplicationController's selector is a plain map of labels.
  const isLabels = !has(value, 'matchLabels') && !has(value, 'matchExpressions')
  if (isBuiltIn) return selectorText(isLabels ? { matchLabels: value } : value)
  if (typeof value !== 'string') throw wrongType(path, value, 'string')
  return value
}

function missingReplicas({ specReplicas }: ScalePaths): NoScaleError {
  const why = `the spec replicas field ${JSON.stringify(pathText(specReplicas))} does not exist`
  const details = { causes: [{ message: why }] }
  return new NoScaleError(`Internal error occurred: ${why}`, { reason: 'InternalError', details })
}

function wrongType(path: readonly string[], value: Json, wanted: string): NoScaleError {
  const is = `${goText(value)} is of the type ${goType(value)}`
  return new NoScaleError(`${pathText(path)} accessor error: ${is}, expected ${wanted}`)
}

/** Prints a value in Go's default format for untyped values. */
function goText(value: Json): string {
  if (value === null) return '<nil>'
  if (isNumber(value)) return printedNumber(goNumber(value))
  if (Array.isArray(value)) return `[${value.map(goText).join(' ')}]`
  if (!isRecord(value)) return String(value)
  const names = Object.keys(value).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  return `map[${names.map((name) => `${name}:${goText(value[name]!)}`).join(' ')}]`
}

function goType(value: Json): string {
  if (value === null) return '<nil>'
  if (isNumber(value)) return goNumber(value).kind === 'int' ? 'int64' : 'float64'
  if (Array.isArray(value)) return '[]interface {}'
  return isRecord(value) ? 'map[string]interface {}' : typeof value === 'string' ? 'string' : 'bool'
}

export function pathText(path: readonly string[]): string {
  return `.${path.join('.')}`
}
