/** The rules that the `metadata` of every object must obey: names, labels, annotations, finalizers, owners, sizes. */
import { equalTrees, isRecord, type Json, type JsonRecord, record, textMember } from '../codec/json-tree.js'
import { checkLabelKey, checkLabelValue } from '../../engine/model/label-names.js'
import type { Resource } from '../../engine/model/resource.js'
import { duplicate, type FieldProblem, forbiddenField, invalid, required, wrongType } from './field-errors.js'
import { nameProblem } from './object-names.js'

/** The API server's limit for keys and values together. */
const MAX_ANNOTATION_BYTES = 256 * 1024

/** @param metadata complete: a generated name has already been filled in. */
export function metadataProblems(resource: Resource, metadata: JsonRecord): readonly FieldProblem[] {
  const problems: FieldProblem[] = []
  const name = textMember(metadata, 'name')
  if (name === '') problems.push(required('metadata.name', 'name or generateName is required'))
  else {
    const problem = nameProblem(resource, name)
    if (problem !== null) problems.push(invalid('metadata.name', name, problem))
  }
  stringsAt(metadata, 'labels', problems, (key, value, field) => {
    const badKey = checkLabelKey(key)
    if (badKey !== null) problems.push(invalid(field, key, badKey))
    const badValue = checkLabelValue(value)
    if (badValue !== null) problems.push(invalid(field, value, badValue))
  })
  let annotationBytes = 0
  stringsAt(metadata, 'annotations', problems, (key, value, field) => {
    annotationBytes += Buffer.byteLength(key) + Buffer.byteLength(value)
    const bad = checkLabelKey(key.toLowerCase())
    if (bad !== null) problems.push(invalid(field, key, bad))
  })
  if (annotationBytes > MAX_ANNOTATION_BYTES) {
    problems.push({
      reason: 'FieldValueTooLong',
      message: `Too long: may not be more than ${MAX_ANNOTATION_BYTES} bytes`,
      field: 'metadata.annotations',
    })
  }
  finalizerProblems(metadata['finalizers'], problems)
  ownerProblems(metadata['ownerReferences'], problems)
  return problems
}

function stringsAt(
  metadata: JsonRecord,
  name: string,
  problems: FieldProblem[],
  each: (key: string, value: string, field: string) => void,
): void {
  const map = metadata[name]
  const field = `metadata.${name}`
  if (map === undefined || map === null) return
  if (!isRecord(map)) return void problems.push(wrongType(field, typeof map, 'must be an object of strings'))
  for (const key in map) {
    const value = map[key]!
    if (typeof value === 'string') each(key, value, field)
    else problems.push(wrongType(`${field}.${key}`, value === null ? 'null' : typeof value, 'must be a string'))
  }
}

function finalizerProblems(list: Json | undefined, problems: FieldProblem[]): void {
  if (list === undefined || list === null) return
  if (!Array.isArray(list)) return void problems.push(wrongType('metadata.finalizers', typeof list, 'must be an array'))
  const seen = new Set<string>()
  list.forEach((finalizer, i) => {
    const field = `metadata.finalizers[${i}]`
    if (typeof finalizer !== 'string') problems.push(wrongType(field, typeof finalizer, 'must be a string'))
    else if (seen.has(finalizer)) problems.push(duplicate(field, finalizer))
    else {
      seen.add(finalizer)
      const bad = checkLabelKey(finalizer)
      if (bad !== null) problems.push(invalid(field, finalizer, bad))
    }
  })
}

const OWNER_MEMBERS = ['apiVersion', 'kind', 'name', 'uid'] as const

function ownerProblems(list: Json | undefined, problems: FieldProblem[]): void {
  if (list === undefined || list === null) return
  const field = 'metadata.ownerReferences'
  if (!Array.isArray(list)) return void problems.push(wrongType(field, typeof list, 'must be an array'))
  let controllers = 0
  list.forEach((owner, i) => {
    if (!isRecord(owner)) return void problems.push(wrongType(`${field}[${i}]`, typeof owner, 'must be an object'))
    for (const name of OWNER_MEMBERS) {
      if (textMember(owner, name) === '') problems.push(required(`${field}[${i}].${name}`, `${name} must not be empty`))
    }
    if (owner['controller'] === true) controllers++
  })
  if (controllers > 1) {
    problems.push(invalid(field, plainOwners(list), 'Only one reference can have Controller set to true'))
  }
}

function plainOwners(list: readonly Json[]): readonly string[] {
  return list.map((owner) => textMember(owner, 'name'))
}

/** An object that is being deleted accepts no new finalizers. */
export function newFinalizerProblems(before: JsonRecord, after: JsonRecord): readonly FieldProblem[] {
  const old = new Set(finalizersOf(before))
  const added = finalizersOf(after).filter((name) => !old.has(name))
  if (added.length === 0 || before['deletionTimestamp'] === undefined) return []
  const names = `[]string{${added.map((name) => JSON.stringify(name)).join(', ')}}`
  const why = `no new finalizers can be added if the object is being deleted, found new finalizers ${names}`
  return [forbiddenField('metadata.finalizers', why)]
}

/** @param metadata the metadata of an object. Finalizers that are not strings are skipped. */
export function finalizersOf(metadata: JsonRecord): readonly string[] {
  const list = metadata['finalizers']
  return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : []
}

/** The fields that garbage collectors and finalizer managers change. */
const OWNERSHIP = ['ownerReferences', 'finalizers', 'selfLink', 'managedFields'] as const

/** Whether two states of an object differ only in ownership and finalizers. */
export function isSameButOwnership(before: JsonRecord, after: JsonRecord): boolean {
  return equalTrees(withoutOwnership(before), withoutOwnership(after))
}

function withoutOwnership(object: JsonRecord): JsonRecord {
  const metadata = record(isRecord(object['metadata']) ? object['metadata'] : {})
  for (const field of OWNERSHIP) delete metadata[field]
  return record({ ...object, metadata })
}
