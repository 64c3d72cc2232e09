/**
 * Turns an object from a client into the object to store. It sets the server's fields, removes undeclared fields,
 * fills in defaults, and checks the result. Every verb takes this path, so a patch cannot make a change that an
 * update could not.
 */
import {
  cloneTree,
  ensureRecord,
  equalTrees,
  isNumber,
  isRecord,
  type Json,
  type JsonRecord,
  record,
  textMember,
} from '../codec/json-tree.js'
import { YAML_PROBLEMS } from '../codec/yaml-tree.js'
import { conflictError } from '../dialect/status-body.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import { apiVersion, type ObjectName, type ApiResource } from '../model/api-resource.js'
import { BadRequestError, InvalidError, type StatusError } from '../model/status.js'
import { customProblems } from './custom-schema.js'
import { type FieldProblem, invalid } from './field-errors.js'
import { type KindRulebook, type KindRules, type Requester, ownRulesOf, unchecked } from './kind-rules.js'
import { type Manager, recordUpdate } from './managed-fields.js'
import {
  dropRepeatedOwners,
  finalizersOf,
  finalizerWarnings,
  metadataProblems,
  newFinalizerProblems,
} from './metadata-rules.js'
import { timeToLiveProblems } from './time-to-live.js'
import { scaleProblems } from './scale-problems.js'
import type { FieldValidation } from './write-options.js'

export interface ObjectChangeOptions {
  readonly rulebook: KindRulebook
  /** Called with parts of a stored schema that cannot be checked here. */
  readonly onUnusable?: (problem: string) => void
  readonly newUid: () => string
  readonly etcdPrefix: string
}

export interface ChangeRequest {
  readonly served: ServedResource
  readonly name: ObjectName
  /** '' or `status`. The server itself writes the other subresources. */
  readonly subresource: string
  /** PUT and PATCH have different error messages for an immutable field. */
  readonly verb: 'update' | 'patch'
  readonly manager: Manager
  /** null if the server authenticates no one. */
  readonly requester: Requester | null
  /** Whether the managed fields are already up to date, because an apply computes them itself. */
  readonly keepsManagedFields: boolean
  /** Whether the object is the result of a patch. */
  readonly isPatched: boolean
  /** Called with a warning about owners, or rules that are not checked. */
  readonly warn: (text: string) => void
}

/** Unknown and duplicate fields, each in a strict decoder's words. */
export interface BodyProblems {
  readonly texts: readonly string[]
  /** Whether `texts` already includes the unknown fields, in order. */
  readonly hasUnknown: boolean
  /** Whether unknown fields are reported in the order of the body; otherwise they are sorted. */
  readonly isInOrder: boolean
}

/** The fields that a client cannot set, apart from those with special rules. */
const SERVER_SET = [
  'selfLink',
  'generation',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'creationTimestamp',
] as const

export class ObjectChange {
  readonly #options: ObjectChangeOptions

  constructor(options: ObjectChangeOptions) {
    this.#options = options
  }

  rules(served: ServedResource): KindRules {
    return this.#options.rulebook.of(served)
  }

  /**
   * Checks the types of an object's members, and removes those that its kind does not declare.
   * @returns the removed fields.
   * @throws StatusError from `unreadable`.
   */
  read(served: ServedResource, object: JsonRecord, unreadable: (why: string) => StatusError): readonly string[] {
    const { typeProblem, dropUnknown } = this.rules(served)
    const problem = typeProblem(object)
    if (problem !== null) throw unreadable(problem)
    return dropUnknown(object)
  }

  /** @param body an object that was read; it is changed. @throws BadRequestError, InvalidError */
  create(body: JsonRecord, request: ChangeRequest): JsonRecord {
    const { served, manager, requester } = request
    const rules = this.rules(served)
    const metadata = metadataOf(body)
    if (textMember(metadata, 'resourceVersion') !== '') {
      throw new BadRequestError('resourceVersion should not be set on objects to be created')
    }
    delete metadata['resourceVersion']
    for (const field of SERVER_SET) delete metadata[field]
    this.#identify(body, metadata, request)
    metadata['uid'] = this.#options.newUid()
    metadata['creationTimestamp'] = manager.time
    if (rules.hasGeneration) metadata['generation'] = 1
    if (rules.hasStatus) delete body['status']
    const problems = this.#complete(body, request, rules)
    ownRulesOf(served).prepare?.(body, null, manager.time, requester)
    if (!request.keepsManagedFields) recordUpdate(null, body, rules.shape, manager, rules.empty)
    this.#check(request, null, body, rules, problems)
    return body
  }

  /**
   * @param body the whole new object, which was read; it is changed.
   * @param before the stored object, with its resourceVersion.
   * @throws BadRequestError, ConflictError, InvalidError
   */
  update(before: JsonRecord, body: JsonRecord, request: ChangeRequest): JsonRecord {
    const { served, subresource, manager, requester } = request
    const rules = this.rules(served)
    const old = metadataOf(before)
    this.#compareIdentity(old, metadataOf(body), request)
    const after = subresource === 'status' ? withStatusOf(before, body, rules.keptByStatus) : body
    const metadata = metadataOf(after)
    if (subresource === 'status') metadata['managedFields'] = metadataOf(body)['managedFields'] ?? null
    if (metadata['managedFields'] === null) delete metadata['managedFields']
    this.#identify(after, metadata, request)
    for (const field of [...SERVER_SET, 'uid', 'resourceVersion']) restore(metadata, old, field)
    if (subresource === '' && rules.hasStatus) restore(after, before, 'status')
    // An empty list resets the managers. It would be dropped as an empty member, so replace it with a list of one
    // empty entry.
    const managed = metadata['managedFields']
    if (Array.isArray(managed) && managed.length === 0) metadata['managedFields'] = [record()]
    const problems = this.#complete(after, request, rules)
    ownRulesOf(served).prepare?.(after, before, manager.time, requester)
    if (rules.hasGeneration && !isSameBesides(before, after, request, rules))
      metadataOf(after)['generation'] = nextGeneration(old)
    if (!request.keepsManagedFields) recordUpdate(before, after, rules.shape, manager)
    this.#check(request, before, after, rules, problems)
    return after
  }

  /** Sets type, name and namespace, which the path determines. */
  #identify(body: JsonRecord, metadata: JsonRecord, { served, name }: ChangeRequest): void {
    const { resource } = served
    body['kind'] = resource.kind
    body['apiVersion'] = apiVersion(resource)
    metadata['name'] = name.name
    if (resource.namespaced) metadata['namespace'] = name.namespace
    else delete metadata['namespace']
  }

  /** Fills in defaults. @returns the problems that only the numbers as sent show. */
  #complete(body: JsonRecord, { warn, isPatched }: ChangeRequest, rules: KindRules): readonly FieldProblem[] {
    const problems = rules.schema === undefined || rules.scale === null ? [] : scaleProblems(body, rules.scale)
    rules.fillDefaults(body)
    const warning = dropRepeatedOwners(metadataOf(body), isPatched)
    if (warning !== null) warn(warning)
    return problems
  }

  #compareIdentity(old: JsonRecord, metadata: JsonRecord, request: ChangeRequest): void {
    const { served, name, verb } = request
    const { kind, group } = served.resource
    const given = (field: string): string => textMember(metadata, field)
    const version = given('resourceVersion').replace(/^0$/, '')
    if (verb === 'update' && given('uid') !== '' && given('uid') !== textMember(old, 'uid')) {
      const why = `Precondition failed: UID in precondition: ${given('uid')}, UID in object meta: ${textMember(old, 'uid')}`
      throw conflictError(served.resource, name.name, why)
    }
    if (version === '' && this.rules(served).requiresVersion) {
      const problem = invalid('metadata.resourceVersion', 0, 'must be specified for an update')
      throw InvalidError.forFields(served.resource.plural, group, name.name, [problem])
    }
    if (version !== '' && version !== textMember(old, 'resourceVersion')) {
      throw conflictError(served.resource, name.name)
    }
    const problems: FieldProblem[] = []
    for (const field of ['namespace', 'uid'] as const) {
      if (given(field) === '' || given(field) === textMember(old, field)) continue
      problems.push(invalid(`metadata.${field}`, given(field), 'field is immutable'))
    }
    if (problems.length > 0) throw InvalidError.forFields(kind, group, name.name, problems)
  }

  #check(
    request: ChangeRequest,
    before: JsonRecord | null,
    after: JsonRecord,
    rules: KindRules,
    found: readonly FieldProblem[],
  ): void {
    const {
      served,
      name: { name },
    } = request
    const { kind, group } = served.resource
    const metadata = metadataOf(after)
    const problems = [
      ...metadataProblems(served.resource, metadata, served.origin === 'custom'),
      ...(before === null ? [] : newFinalizerProblems(metadataOf(before), metadata)),
      ...timeToLiveProblems(after),
      ...(rules.schema === undefined ? [] : customProblems(after, rules.schema, rules.shape, this.#options.onUnusable)),
      ...found,
      ...(ownRulesOf(served).problems?.(before, after, this.#options.etcdPrefix) ?? []),
    ]
    if (problems.length > 0) throw InvalidError.forFields(kind, group, name, problems)
    const warning = unchecked(served, after, rules.schema)
    if (warning !== null) request.warn(warning)
    if (served.origin !== 'custom') return
    const warnings = finalizerWarnings(before === null ? null : metadataOf(before), metadata)
    for (const text of warnings) request.warn(text)
  }
}

/** Returns the error for a body that cannot be read as its kind. */
export function unreadableAs({ kind, version }: Pick<ApiResource, 'kind' | 'version'>, why: string): StatusError {
  return new BadRequestError(`${kind} in version "${version}" cannot be handled as a ${kind}: ${why}`)
}

/** Reports the problems in a strict decoder's words. @throws StatusError from `refused`. */
export function refuseOrWarn(
  problems: readonly string[],
  validation: FieldValidation,
  warn: (text: string) => void,
  refused: (why: string) => StatusError,
): void {
  if (problems.length === 0 || validation === 'Ignore') return
  if (validation === 'Strict') throw refused(`strict decoding error: ${problems.join(', ')}`)
  for (const problem of problems) {
    const lines = problem.startsWith(YAML_PROBLEMS) ? problem.slice(YAML_PROBLEMS.length).split('\n') : [problem]
    for (const line of lines) warn(line.trim())
  }
}

/** @throws BadRequestError when metadata is not an object. */
export function metadataOf(object: JsonRecord): JsonRecord {
  const metadata = object['metadata']
  if (metadata !== undefined && metadata !== null && !isRecord(metadata)) {
    throw new BadRequestError('metadata must be an object')
  }
  return ensureRecord(object, 'metadata')
}

export function isDeleting(object: JsonRecord): boolean {
  return textMember(object, 'metadata', 'deletionTimestamp') !== ''
}

export function hasFinalizers(object: JsonRecord): boolean {
  return finalizersOf(metadataOf(object)).length > 0
}

/** @param kept as `KindRules.keptByStatus`. */
function withStatusOf(before: JsonRecord, body: JsonRecord, kept: KindRules['keptByStatus']): JsonRecord {
  const after = cloneTree(before)
  if (kept !== null) {
    const metadata = cloneTree(metadataOf(body))
    for (const field of kept) restore(metadata, metadataOf(before), field)
    after['metadata'] = metadata
  }
  const status = body['status']
  if (status === undefined || status === null) delete after['status']
  else after['status'] = status
  return after
}

function restore(target: JsonRecord, source: JsonRecord, field: string): void {
  const value: Json | undefined = source[field]
  if (value === undefined) delete target[field]
  else target[field] = cloneTree(value)
}

/** Compares two objects without metadata and, unless it is a field as others, status. */
function isSameBesides(before: JsonRecord, after: JsonRecord, { served }: ChangeRequest, rules: KindRules): boolean {
  const isField = served.origin === 'custom' && !rules.hasStatus
  const left = { metadata: null, ...(isField ? {} : { status: null }) }
  return equalTrees(record({ ...before, ...left }), record({ ...after, ...left }))
}

export function nextGeneration(metadata: JsonRecord): Json {
  const { generation } = metadata
  return isNumber(generation) && typeof generation === 'number' ? generation + 1 : 1
}
