/**
 * Tracks which manager owns which field, in `metadata.managedFields`; every write keeps it up to date. An update
 * makes its manager the owner of every field it changes. An apply owns the fields it names and removes those it no
 * longer names. An apply is rejected if it would change a field of another manager, unless it is forced.
 *
 * A field keeps its name from the version that wrote it, because names are not converted between versions of a kind.
 *
 * Source: "Server-Side Apply" of the Kubernetes documentation.
 */
import {
  canonicalText,
  cloneTree,
  isEmptyRecord,
  isRecord,
  type Json,
  type JsonRecord,
  member,
  parseJsonText,
  record,
  textMember,
} from '../codec/json-tree.js'
import { ConflictError, type StatusCause } from '../model/status.js'
import { mergeApplied, removeFields } from './apply-merge.js'
import { compareFields, fieldsOf, FieldSet } from './field-set.js'
import { areAnnotationsTooLong, isSameBut } from './metadata-rules.js'
import type { Shape } from './shape.js'
import { getOrMake } from '../../support/memo.js'

export interface Manager {
  readonly name: string
  readonly apiVersion: string
  readonly subresource: string
  /** An RFC 3339 time in whole seconds. */
  readonly time: string
}

interface Entry {
  readonly manager: string
  readonly operation: 'Apply' | 'Update'
  readonly apiVersion: string
  readonly subresource: string
  readonly time: string
  readonly fields: FieldSet
}

/**
 * The most entries of updates. As in the API server, older ones are merged into one, so that a client that uses a new
 * name per request does not make objects grow.
 */
const MAX_UPDATE_ENTRIES = 10
const ANCIENT = 'ancient-changes'

/** The fields that the server itself sets, which have no owner. */
const UNOWNED = FieldSet.fromJson(
  fieldsJson(['apiVersion', 'kind'], {
    metadata: [
      'name',
      'namespace',
      'creationTimestamp',
      'deletionTimestamp',
      'deletionGracePeriodSeconds',
      'selfLink',
      'uid',
      'generation',
      'resourceVersion',
      'managedFields',
    ],
  }),
)

function fieldsJson(names: readonly string[], nested: Readonly<Record<string, readonly string[]>>): JsonRecord {
  const json = record()
  for (const name of names) json[`f:${name}`] = record()
  for (const [name, inner] of Object.entries(nested)) json[`f:${name}`] = fieldsJson(inner, {})
  return json
}

/**
 * Sets the managedFields of `after` that result from an update.
 * @param before null for a create.
 * @param empty the object that a create is compared with.
 */
export function recordUpdate(
  before: JsonRecord | null,
  after: JsonRecord,
  shape: Shape,
  manager: Manager,
  empty = record(),
): void {
  const given = manager.subresource === '' ? givenEntries(member(after, 'metadata', 'managedFields')) : null
  const managed = given ?? readEntries(before ?? record())
  // As in the API server, untracked fields are tracked only from the first apply on.
  if (before !== null && managed.length === 0) return writeEntries(after, [])
  writeEntries(after, capped(updatedEntries(managed, before ?? empty, after, shape, manager, 'Update')))
}

/**
 * Returns the entries that a client sets, such as kubectl when it takes over from client-side apply. An empty list
 * resets them. Null means that there are none, or one that the API server could not read; then those of the live
 * object stay.
 */
function givenEntries(list: Json | undefined): readonly Entry[] | null {
  if (!Array.isArray(list)) return null
  if (list.length < 2 && list.every((entry) => isRecord(entry) && isEmptyRecord(entry))) return []
  if (!list.every(isReadable)) return null
  const entries = readEntries(record({ metadata: record({ managedFields: list }) }))
  return entries.filter(({ fields }) => !fields.isEmpty)
}

function isReadable(entry: Json): boolean {
  if (!isRecord(entry) || textMember(entry, 'apiVersion') === '') return false
  const { operation, fieldsType, fieldsV1 = null } = entry
  const isKnown = (operation === 'Apply' || operation === 'Update') && fieldsType === 'FieldsV1'
  return isKnown && (fieldsV1 === null || FieldSet.isReadable(fieldsV1))
}

/** Returns the fields without those that have no owner. `metadata` itself is not a field but only contains some. */
function ownable(fields: FieldSet): FieldSet {
  const rest = fields.without(UNOWNED)
  const metadata = rest.children.get('f:metadata')
  if (metadata !== undefined) {
    metadata.isMember = false
    if (metadata.isEmpty) rest.remove('f:metadata')
  }
  return rest
}

/** Every configuration names this field, although no manager owns it. */
const OWNED_BY_ALL = FieldSet.fromJson({ 'f:metadata': { 'f:name': {} } })

/**
 * Returns the object to be stored, with its managedFields up to date.
 * @param live null if there is no object yet.
 * @throws ConflictError naming managers and fields, unless `force`.
 */
export function applyConfiguration(
  live: JsonRecord | null,
  configuration: JsonRecord,
  shape: Shape,
  manager: Manager,
  force: boolean,
): JsonRecord {
  const config = cloneTree(configuration)
  const entries = entriesBeforeApply(live, shape, manager)
  const isOurs = (entry: Entry): boolean => isSameManager(entry, manager, 'Apply')
  const own = entries.filter(isOurs)
  const others = entries.filter((entry) => !isOurs(entry))
  const fields = ownable(fieldsOf(config, shape))
  const merged = mergeApplied(live ?? record(), config, shape) as JsonRecord
  const owned = FieldSet.unionOf([fields, OWNED_BY_ALL, ...others.map((entry) => entry.fields)])
  const given = FieldSet.unionOf(own.map((entry) => entry.fields)).difference(fields)
  const object = removeFields(merged, given, owned, shape) as JsonRecord

  const changes = compareFields(live ?? record(), object, shape)
  const touched = ownable(changes.modified.union(changes.added))
  const isKubectl = manager.name === KUBECTL
  const free = isKubectl && live !== null ? lastAppliedFields(live, shape, manager) : new FieldSet()
  const conflicts = others
    .map((entry) => ({ entry, fields: entry.fields.intersection(touched).difference(free) }))
    .filter((conflict) => !conflict.fields.isEmpty)
  if (conflicts.length > 0 && !force) throw conflictBetween(conflicts)
  const rest = others
    .map((entry) => ({ ...entry, fields: entry.fields.difference(touched).difference(changes.removed) }))
    .filter((entry) => !entry.fields.isEmpty)
  // Applying the value that a field already has makes the field shared, so that one owner alone cannot remove it.
  const [last] = own
  const isSame = own.length === 1 && last!.apiVersion === manager.apiVersion && last!.fields.equals(fields)
  const ours: Entry = {
    manager: manager.name,
    operation: 'Apply',
    apiVersion: manager.apiVersion,
    subresource: manager.subresource,
    time: isSame && live !== null && isSameBut(['managedFields'], live, object) ? last!.time : manager.time,
    fields,
  }
  writeEntries(object, fields.isEmpty ? rest : [ours, ...rest])
  if (isKubectl) updateLastApplied(object, config)
  return object
}

/** From the first apply on, fields without a manager belong to a manager of this name. */
const BEFORE_FIRST_APPLY = 'before-first-apply'

function entriesBeforeApply(live: JsonRecord | null, shape: Shape, manager: Manager): readonly Entry[] {
  const entries = readEntries(live ?? record())
  if (live === null || entries.length > 0) return entries
  return updatedEntries([], record(), live, shape, { ...manager, name: BEFORE_FIRST_APPLY }, 'Update')
}

/** The manager under which `kubectl apply --server-side` takes over from client-side apply. */
const KUBECTL = 'kubectl'
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'

/** Returns the fields of the last client-side apply that the object still has. kubectl owns them. */
function lastAppliedFields(live: JsonRecord, shape: Shape, { apiVersion }: Manager): FieldSet {
  const configuration = parseJsonText(textMember(live, 'metadata', 'annotations', LAST_APPLIED))
  if (!isRecord(configuration) || textMember(configuration, 'apiVersion') !== apiVersion) return new FieldSet()
  const { added, modified, removed } = compareFields(configuration, live, shape)
  return fieldsOf(configuration, shape).difference(added).difference(modified).difference(removed)
}

/** Updates the annotation with which a later client-side apply compares. */
function updateLastApplied(object: JsonRecord, configuration: JsonRecord): void {
  const annotations = member(object, 'metadata', 'annotations')
  if (!isRecord(annotations) || textMember(annotations, LAST_APPLIED) === '') return
  const applied = cloneTree(configuration)
  const given = member(applied, 'metadata', 'annotations')
  if (isRecord(given)) delete given[LAST_APPLIED]
  annotations[LAST_APPLIED] = `${canonicalText(applied)}\n`
  if (areAnnotationsTooLong(annotations)) delete annotations[LAST_APPLIED]
}

function updatedEntries(
  entries: readonly Entry[],
  before: JsonRecord,
  after: JsonRecord,
  shape: Shape,
  manager: Manager,
  operation: Entry['operation'],
): readonly Entry[] {
  const changes = compareFields(before, after, shape)
  const touched = ownable(changes.modified.union(changes.added))
  const removed = changes.removed
  if (touched.isEmpty && ownable(removed).isEmpty) return entries
  const own = entries.find((entry) => isSameManager(entry, manager, operation))
  const rest = entries
    .filter((entry) => entry !== own)
    .map((entry) => ({ ...entry, fields: entry.fields.difference(touched).difference(removed) }))
    .filter((entry) => !entry.fields.isEmpty)
  const fields = (own?.fields ?? new FieldSet()).difference(removed).union(touched)
  if (fields.isEmpty) return rest
  const { name, apiVersion, subresource, time } = manager
  return [...rest, { manager: name, operation, apiVersion, subresource, time, fields }]
}

/** Merges the oldest update entries into one. */
function capped(entries: readonly Entry[]): readonly Entry[] {
  const updates = entries.filter(({ operation }) => operation === 'Update').sort((a, b) => (a.time < b.time ? -1 : 1))
  if (updates.length <= MAX_UPDATE_ENTRIES) return entries
  const old = updates.slice(0, updates.length - MAX_UPDATE_ENTRIES + 1)
  const [first] = old
  const ancient: Entry = {
    ...first!,
    manager: ANCIENT,
    time: old.at(-1)!.time,
    fields: FieldSet.unionOf(old.map(({ fields }) => fields)),
  }
  return [...entries.filter((entry) => !old.includes(entry)), ancient]
}

/** As in the API server, a manager that applies stays the same in every version of the kind. */
function isSameManager(entry: Entry, manager: Manager, operation: Entry['operation']): boolean {
  return (
    entry.manager === manager.name &&
    entry.operation === operation &&
    entry.subresource === manager.subresource &&
    (operation === 'Apply' || entry.apiVersion === manager.apiVersion)
  )
}

function readEntries(object: JsonRecord): Entry[] {
  const list = member(object, 'metadata', 'managedFields')
  if (!Array.isArray(list)) return []
  return list.filter(isRecord).map((entry) => ({
    manager: textMember(entry, 'manager'),
    operation: textMember(entry, 'operation') === 'Apply' ? 'Apply' : 'Update',
    apiVersion: textMember(entry, 'apiVersion'),
    subresource: textMember(entry, 'subresource'),
    time: textMember(entry, 'time'),
    fields: FieldSet.fromJson(entry['fieldsV1']),
  }))
}

function writeEntries(object: JsonRecord, entries: readonly Entry[]): void {
  const metadata = object['metadata']
  if (!isRecord(metadata)) return
  delete metadata['managedFields']
  if (entries.length === 0) return
  metadata['managedFields'] = [...entries].sort(byPlace).map((entry): Json => {
    const { manager, operation, apiVersion, time, fields, subresource } = entry
    return record({
      manager,
      operation,
      apiVersion,
      ...(time === '' ? {} : { time }),
      fieldsType: 'FieldsV1',
      fieldsV1: fields.toJson(),
      ...(subresource === '' ? {} : { subresource }),
    })
  })
}

/** Sorts entries as the API server does: applies come first, then older entries before newer ones. */
function byPlace(a: Entry, b: Entry): number {
  const key = ({ operation, time, manager, subresource }: Entry): string =>
    [operation, time, manager, subresource].join('\u0000')
  return key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0
}

/** The most conflicts named in one response. */
const MAX_REPORTED_CONFLICTS = 100

/** Creates the conflict in the API server's words, because kubectl prints them. */
function conflictBetween(conflicts: readonly { readonly entry: Entry; readonly fields: FieldSet }[]): ConflictError {
  const causes: StatusCause[] = []
  const byManager = new Map<string, string[]>()
  let total = 0
  for (const { entry, fields } of conflicts) {
    const name = describe(entry)
    for (const path of fields.paths()) {
      if (++total > MAX_REPORTED_CONFLICTS) continue
      causes.push({ reason: 'FieldManagerConflict', message: `conflict with ${name}`, field: path })
      getOrMake(byManager, name, () => []).push(path)
    }
  }
  const [first] = causes
  if (total === 1) {
    return new ConflictError(`Apply failed with 1 conflict: ${first!.message}: ${first!.field}`, {
      details: { causes },
    })
  }
  const more = total > causes.length ? [`- and ${total - causes.length} more`] : []
  const lines = [...byManager]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, paths]) => [`conflicts with ${name}:`, ...paths.map((path) => `- ${path}`)])
  const message = `Apply failed with ${total} conflicts: ${[...lines, ...more].join('\n')}`
  return new ConflictError(message, { details: { causes } })
}

function describe({ manager, subresource, apiVersion, operation }: Entry): string {
  const name = `${JSON.stringify(manager)}${subresource === '' ? '' : ` with subresource ${JSON.stringify(subresource)}`}`
  return operation === 'Apply' ? name : `${name} using ${apiVersion}`
}
