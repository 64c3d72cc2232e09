/**
 * PATCH in its four formats. Each format turns the stored object into a complete new one, which is then treated as an
 * update.
 */
import { cloneTree, goJson, isRecord, type Json, type JsonRecord, textMember } from '../codec/json-tree.js'
import { bodyMediaType } from '../dialect/media-type.js'
import { conflictError, objectNotFoundError } from '../dialect/status-body.js'
import type { ApiResource } from '../model/api-resource.js'
import { BadRequestError, InvalidError, type StatusError } from '../model/status.js'
import { appliedProblem } from './applied-problems.js'
import { bareValueOf } from './bare-value.js'
import { changeOrMake, checkName, checkNamespace, makeObject } from './create.js'
import { invalid } from './field-errors.js'
import { applyJsonPatch, unknownPatchMembers } from './json-patch.js'
import { applyConfiguration } from './managed-fields.js'
import { applyMergePatch } from './merge-patch.js'
import type { KindRules } from './kind-rules.js'
import { metadataOf } from './object-change.js'
import type { Held } from './object-store.js'
import { checkType, decode } from './object-body.js'
import type { Shape } from './shape.js'
import { unknownField } from './strict-problems.js'
import { applyStrategicPatch } from './strategic-patch.js'
import { type SingleResponse, Write, type WriteContext, type WriteRequest } from './write-context.js'
import { parseWriteOptions, type WriteOptions } from './write-options.js'

const JSON_PATCH = 'application/json-patch+json'
const MERGE_PATCH = 'application/merge-patch+json'
const STRATEGIC_PATCH = 'application/strategic-merge-patch+json'
const APPLY_PATCH = 'application/apply-patch+yaml'

const FOR_CUSTOM = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH] as const
const FOR_BUILT_IN = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH] as const
type PatchType = (typeof FOR_BUILT_IN)[number]

/** A parsed patch that can be applied to any object. */
export interface PatchBody {
  readonly type: PatchType
  readonly patch: Json
  /** Paths of duplicate members. */
  readonly duplicates: readonly string[]
}

/** @throws BadRequestError, UnsupportedMediaTypeError */
export function readPatch(
  contentType: string | undefined,
  body: Buffer,
  takesStrategicPatch: boolean,
  holds?: ApiResource['holds'],
): PatchBody {
  const types: readonly [PatchType, ...PatchType[]] = takesStrategicPatch ? FOR_BUILT_IN : FOR_CUSTOM
  // Unlike other bodies, a patch has no default type.
  const type = bodyMediaType(contentType?.trim() === '' ? 'none' : (contentType ?? 'none'), types)
  const { value, duplicates } = decode(body, type === APPLY_PATCH, holds)
  return { type, patch: value, duplicates }
}

/** @throws BadRequestError, InvalidError */
export function patched(
  object: JsonRecord,
  { type, patch }: Pick<PatchBody, 'type' | 'patch'>,
  shape: Shape,
): JsonRecord {
  switch (type) {
    case JSON_PATCH:
      return applyJsonPatch(object, patch)
    case MERGE_PATCH:
      return applyMergePatch(object, patch)
    case STRATEGIC_PATCH:
      return applyStrategicPatch(object, patch, shape)
    case APPLY_PATCH:
      throw new RangeError('an apply needs more than the stored object')
  }
}

/** @throws StatusError */
export async function patchObject(context: WriteContext, request: WriteRequest): Promise<SingleResponse> {
  const { served, name, subresource } = request
  const { resource } = served
  const rules = context.change.rules(served)
  const body = readPatch(request.contentType, request.body, rules.takesStrategicPatch, resource.holds)
  const isApply = body.type === APPLY_PATCH
  // These two patches change an object whose numbers Go has read already; the others change its JSON.
  const changesValues = isApply || body.type === STRATEGIC_PATCH
  if (changesValues && served.origin !== 'declared' && isRecord(body.patch)) goJson(body.patch)
  const options = parseWriteOptions(request.query, request.userAgent, 'Patch', isApply)
  const write = new Write(context, request, options)
  const { lease, manager } = write
  // As in the API server, an invalid result is reported as an invalid patch, but for an apply as a bad request.
  const invalidPatch = (why: string): StatusError =>
    InvalidError.forFields('', '', '', [invalid('patch', request.body.toString('utf8'), why)])
  const strictly = (why: string): StatusError =>
    new BadRequestError(
      `error ${why.replace(/^strict decoding error: /, 'strict decoding patch: error converting YAML to JSON: ')}`,
    )
  write.unreadable = isApply ? strictly : invalidPatch
  write.inBody = { texts: problemsOf(body, options), hasUnknown: false, isInOrder: false }
  const configuration = isApply ? readConfiguration(body.patch, write, rules.shape) : null
  if (configuration !== null && rules.hasStatus) keepOwnPart(configuration, subresource, rules.keptByStatus)
  const change = (): Promise<SingleResponse> =>
    write.change((held) => {
      if (held === null) throw objectNotFoundError(resource, name)
      const after =
        configuration === null
          ? patched(held.object, body, rules.shape)
          : applied(held, configuration, rules.shape, write)
      const bare = bareValueOf(served, after, name, held.object)
      if (bare !== null) {
        write.refuseOrWarn(write.inBody.texts)
        return lease.putBare(held, bare)
      }
      checkPatched(after, request, invalidPatch)
      write.read(after)
      const changeRequest = write.changeRequest({ verb: 'patch', keepsManagedFields: isApply })
      return lease.put(held, context.change.update(held.object, after, changeRequest))
    })
  if (configuration === null || subresource !== '') return await change()
  return await changeOrMake(change, async () => {
    const made = cloneTree(configuration)
    const metadata = metadataOf(made)
    checkName(metadata, request)
    const uid = textMember(metadata, 'uid')
    if (uid !== '') {
      const why = `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`
      throw conflictError(resource, name, why)
    }
    delete metadata['resourceVersion']
    await request.mayCreate()
    const object = applyConfiguration(null, made, rules.shape, manager, options.force)
    write.read(object)
    return await makeObject(write, object, true)
  })
}

/** @throws StatusError when a patch has given the object another type, name or namespace. */
function checkPatched(after: JsonRecord, request: WriteRequest, invalidPatch: (why: string) => StatusError): void {
  const { served } = request
  if (served.origin === 'custom' && textMember(after, 'kind') === '') throw invalidPatch("Object 'Kind' is missing")
  try {
    checkType(after, served.resource)
  } catch (error) {
    throw error instanceof BadRequestError ? invalidPatch(error.message) : error
  }
  const metadata = metadataOf(after)
  checkName(metadata, request)
  checkNamespace(metadata, request)
}

/** @throws BadRequestError */
function problemsOf({ type, patch, duplicates }: PatchBody, { fieldValidation }: WriteOptions): readonly string[] {
  const isJsonPatch = type === JSON_PATCH
  const unknown = isJsonPatch && fieldValidation !== 'Ignore' ? unknownPatchMembers(patch) : []
  return isJsonPatch ? [...duplicates, ...unknown.map(unknownField)].map((text) => `json patch ${text}`) : duplicates
}

function readConfiguration(patch: Json, write: Write, shape: Shape): JsonRecord {
  const { served } = write.request
  if (!isRecord(patch)) throw new BadRequestError('error decoding apply patch: it must be an object')
  for (const field of ['apiVersion', 'kind']) {
    if (textMember(patch, field) === '') throw new BadRequestError(`error decoding apply patch: ${field} must be set`)
  }
  checkType(patch, served.resource)
  const metadata = metadataOf(patch)
  if (textMember(metadata, 'name') !== '') checkName(metadata, write.request)
  if (textMember(metadata, 'namespace') !== '') checkNamespace(metadata, write.request)
  if (metadata['managedFields'] !== undefined && metadata['managedFields'] !== null) {
    throw new BadRequestError('metadata.managedFields must be nil')
  }
  delete metadata['managedFields']
  const problem = appliedProblem(patch, shape)
  if (problem !== null) {
    const version = `${served.resource.group}/${served.resource.version}, Kind=${served.resource.kind}`
    const named = `${textMember(metadata, 'namespace')}/${textMember(metadata, 'name')}`
    throw new BadRequestError(`failed to create typed patch object (${named}; ${version}): ${problem}`)
  }
  return patch
}

/**
 * Keeps the part of a configuration that this resource or subresource can own. The main resource does not own its
 * status. The status subresource owns nothing else, except for the metadata of some kinds.
 * @param kept as in `KindRules.keptByStatus`.
 */
function keepOwnPart(configuration: JsonRecord, subresource: string, kept: KindRules['keptByStatus']): void {
  if (subresource === '') {
    delete configuration['status']
    return
  }
  for (const name of Object.keys(configuration)) {
    if (!['apiVersion', 'kind', 'metadata', 'status'].includes(name)) delete configuration[name]
  }
  const metadata = metadataOf(configuration)
  for (const name of Object.keys(metadata)) {
    if (kept?.includes(name) ?? !['name', 'namespace', 'uid', 'resourceVersion'].includes(name)) delete metadata[name]
  }
}

function applied(
  held: Held,
  configuration: JsonRecord,
  shape: Shape,
  { request: { served, name }, manager, options }: Write,
): JsonRecord {
  const version = textMember(configuration, 'metadata', 'resourceVersion')
  if (version !== '' && version !== textMember(held.object, 'metadata', 'resourceVersion')) {
    throw conflictError(served.resource, name)
  }
  return applyConfiguration(held.object, configuration, shape, manager, options.force)
}
