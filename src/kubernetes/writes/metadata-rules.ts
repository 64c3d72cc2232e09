/**
 * The rules that the `metadata` of every object must obey: names, labels, annotations, finalizers, owners, sizes. The
 * types of its members have been checked before (`member-types.ts`).
 */
import {
  canonicalText,
  equalTrees,
  isRecord,
  type JsonRecord,
  record,
  recordAt,
  recordsAt,
  textMember,
} from '../codec/json-tree.js'
import { labelKeyProblems, labelValueProblems } from '../model/label-names.js'
import type { ApiResource } from '../model/api-resource.js'
import { type FieldProblem, forbiddenField, invalid, required, tooLong } from './field-errors.js'
import { nameProblems, prefixProblems } from './object-names.js'
import { managerProblems } from './write-options.js'

/** The API server's limit for keys and values together. */
const MAX_ANNOTATION_BYTES = 256 * 1024

const MAX_SUBRESOURCE_LENGTH = 256

export function areAnnotationsTooLong(annotations: JsonRecord): boolean {
  let bytes = 0
  for (const key in annotations) {
    const value = annotations[key]
    if (typeof value === 'string') bytes += Buffer.byteLength(key) + Buffer.byteLength(value)
  }
  return bytes > MAX_ANNOTATION_BYTES
}

/**
 * @param metadata complete: a generated name has already been filled in.
 * @param isCustom whether finalizers may be any string; `finalizerWarnings` warns about unusual ones.
 */
export function metadataProblems(
  resource: ApiResource,
  metadata: JsonRecord,
  isCustom: boolean,
): readonly FieldProblem[] {
  const problems: FieldProblem[] = []
  const prefix = textMember(metadata, 'generateName')
  if (prefix !== '') {
    problems.push(...prefixProblems(resource, prefix).map((bad) => invalid('metadata.generateName', prefix, bad)))
  }
  const name = textMember(metadata, 'name')
  if (name === '') problems.push(required('metadata.name', 'name or generateName is required'))
  problems.push(...(name === '' ? [] : nameProblems(resource, name)).map((bad) => invalid('metadata.name', name, bad)))
  const labels = recordAt(metadata, 'labels') ?? record()
  for (const key in labels) {
    const value = textMember(labels, key)
    problems.push(...labelKeyProblems(key).map((bad) => invalid('metadata.labels', key, bad)))
    problems.push(...labelValueProblems(value).map((bad) => invalid('metadata.labels', value, bad)))
  }
  const annotations = recordAt(metadata, 'annotations') ?? record()
  for (const key in annotations) {
    problems.push(...labelKeyProblems(key.toLowerCase()).map((bad) => invalid('metadata.annotations', key, bad)))
  }
  if (areAnnotationsTooLong(annotations)) problems.push(tooLong('metadata.annotations', MAX_ANNOTATION_BYTES))
  ownerProblems(metadata, problems)
  finalizerProblems(finalizersOf(metadata), isCustom, problems)
  recordsAt(metadata, 'managedFields').forEach((entry, i) => {
    const field = `metadata.managedFields[${i}]`
    problems.push(...managerProblems(`${field}.manager`, textMember(entry, 'manager')))
    if (Buffer.byteLength(textMember(entry, 'subresource')) > MAX_SUBRESOURCE_LENGTH)
      problems.push(tooLong(`${field}.subresource`, MAX_SUBRESOURCE_LENGTH))
  })
  return problems
}

const ORPHAN = 'orphan'
const FOREGROUND = 'foregroundDeletion'
/** The finalizers that need no domain. */
const STANDARD: ReadonlySet<string> = new Set([ORPHAN, FOREGROUND, 'kubernetes'])

function finalizerProblems(names: readonly string[], isCustom: boolean, problems: FieldProblem[]): void {
  const field = 'metadata.finalizers'
  for (const name of names) problems.push(...labelKeyProblems(name).map((bad) => invalid(field, name, bad)))
  if (names.includes(ORPHAN) && names.includes(FOREGROUND)) {
    problems.push(invalid(field, names, `finalizer ${ORPHAN} and ${FOREGROUND} cannot be both set`))
  }
  if (isCustom) return
  const why = 'name is neither a standard finalizer name nor is it fully qualified'
  names.forEach((name, i) => {
    if (!name.includes('/') && !STANDARD.has(name)) problems.push(invalid(`${field}[${i}]`, name, why))
  })
}

/** Returns the warnings about the new finalizers of a custom resource. @param before null for a new object. */
export function finalizerWarnings(before: JsonRecord | null, after: JsonRecord): readonly string[] {
  const old = new Set(before === null ? [] : finalizersOf(before))
  const added = new Set(finalizersOf(after).filter((name) => !old.has(name)))
  return [...added].sort().flatMap((name) => {
    const odd = [...labelKeyProblems(name)]
    if (!name.includes('/') && !STANDARD.has(name)) {
      const path = name.includes('.') ? ' including a path (/)' : ''
      odd.push(
        `prefer a domain-qualified finalizer name${path} to avoid accidental conflicts with other finalizer writers`,
      )
    }
    return odd.map((why) => `metadata.finalizers: ${JSON.stringify(name)}: ${why}`)
  })
}

const OWNER_MEMBERS = ['apiVersion', 'kind', 'name', 'uid'] as const
/** Matches a group and a version, or a version alone. */
const OWNER_VERSION = /^([^/]*\/)?[^/]+$/

function ownerProblems(metadata: JsonRecord, problems: FieldProblem[]): void {
  const field = 'metadata.ownerReferences'
  const owners = recordsAt(metadata, 'ownerReferences')
  let controller: string | null = null
  owners.forEach((owner, i) => {
    const at = `${field}[${i}]`
    const [version, kind] = [textMember(owner, 'apiVersion'), textMember(owner, 'kind')]
    if (version !== '' && !OWNER_VERSION.test(version)) {
      problems.push(invalid(`${at}.apiVersion`, version, 'must be <group>/<version> or <version>'))
    }
    for (const name of OWNER_MEMBERS) {
      if (textMember(owner, name) === '') problems.push(required(`${at}.${name}`, 'must not be empty'))
    }
    if (version === 'v1' && kind === 'Event') {
      problems.push(invalid(at, owner, '/v1, Kind=Event is disallowed from being an owner'))
    }
    if (owner['controller'] !== true) return
    const named = `${kind}/${textMember(owner, 'name')}`
    if (controller === null) controller = named
    else {
      const found = `Found "true" in references for ${controller} and ${named}`
      problems.push(invalid(field, owners, `Only one reference can have Controller set to true. ${found}`))
    }
  })
}

/** Removes duplicate owners. @returns a warning that names them; null if there are no duplicates. */
export function dropRepeatedOwners(metadata: JsonRecord, isPatched: boolean): string | null {
  const list = metadata['ownerReferences']
  if (!Array.isArray(list) || list.length < 2) return null
  const seen = new Set<string>()
  const repeated: string[] = []
  metadata['ownerReferences'] = list.filter((owner) => {
    const text = canonicalText(owner)
    if (seen.has(text)) repeated.push(textMember(owner, 'uid'))
    return !seen.has(text) && seen.add(text)
  })
  if (repeated.length === 0) return null
  const when = isPatched ? ' after mutating admission happens' : ''
  return `.metadata.ownerReferences contains duplicate entries${when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: ${repeated.join(', ')}`
}

/** Reports added finalizers, because an object that is being deleted accepts none. */
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
  return isSameBut(OWNERSHIP, before, after)
}

/** Whether two states of an object differ only in these fields of the metadata. */
export function isSameBut(fields: readonly string[], before: JsonRecord, after: JsonRecord): boolean {
  const withoutFields = (object: JsonRecord): JsonRecord => {
    const metadata = record(isRecord(object['metadata']) ? object['metadata'] : {})
    for (const field of fields) delete metadata[field]
    return record({ ...object, metadata })
  }
  return equalTrees(withoutFields(before), withoutFields(after))
}
