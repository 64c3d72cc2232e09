/** POST: creates an object with a given name or one generated from `generateName`. */
import { cloneTree, type JsonRecord, textMember } from '../codec/json-tree.js'
import { unknownResource } from '../dialect/request-path.js'
import { alreadyExistsError } from '../dialect/status-body.js'
import { AlreadyExistsError, BadRequestError, InvalidError, NotFoundError } from '../model/status.js'
import type { Compare } from '../../engine/upstream/upstream.js'
import { bareValueOf } from './bare-value.js'
import { required } from './field-errors.js'
import { isDeleting, metadataOf } from './object-change.js'
import { generatedName } from './object-names.js'
import { checkType, readObject } from './object-body.js'
import { strictProblems } from './strict-problems.js'
import { type SingleResponse, Write, type WriteContext, type WriteRequest } from './write-context.js'
import { parseWriteOptions } from './write-options.js'

/**
 * As in Kubernetes. With only one attempt, a create is likely to fail once a few thousand objects share a
 * `generateName`.
 */
const MAX_NAMES = 8
/** How often others may create and remove an object while a request changes or makes it. */
const MAX_TURNS = 8

/** @throws StatusError */
export async function createObject(context: WriteContext, request: WriteRequest): Promise<SingleResponse> {
  const write = new Write(context, request, parseWriteOptions(request.query, request.userAgent, 'Create'))
  const body = readWhole(write)
  for (let attempt = 1; ; attempt++) {
    const { name, isGenerated } = nameOf(context, request, body)
    write.name = name
    try {
      return await makeObject(write, isGenerated ? cloneTree(body) : body)
    } catch (error) {
      if (!isGenerated || attempt === MAX_NAMES || !(error instanceof AlreadyExistsError)) throw error
    }
  }
}

/** Reads the body of a create or an update as its kind. @throws StatusError */
export function readWhole(write: Write): JsonRecord {
  const { contentType, body, served } = write.request
  const { value, duplicates, json } = readObject(contentType, body, write.context.schema, served.resource.holds)
  checkType(value, served.resource)
  const isBuiltIn = served.origin === 'well-known'
  const hasUnknown = isBuiltIn && json !== null && duplicates.length > 0
  const texts = hasUnknown ? strictProblems(json, write.context.change.rules(served).shape) : duplicates
  write.inBody = { texts, hasUnknown, isInOrder: isBuiltIn && json !== null }
  if (served.resource.holds === 'values') write.refuseOrWarn(duplicates)
  else write.read(value)
  return value
}

/**
 * Changes an object, or makes it if there is none. Other requests may create or remove the object between the two; then
 * the other one is tried again.
 * @throws StatusError
 */
export async function changeOrMake(
  change: () => Promise<SingleResponse>,
  make: (missing: NotFoundError) => Promise<SingleResponse>,
): Promise<SingleResponse> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await change()
    } catch (missing) {
      if (!(missing instanceof NotFoundError)) throw missing
      try {
        return await make(missing)
      } catch (lost) {
        if (!(lost instanceof AlreadyExistsError) || attempt === MAX_TURNS) throw lost
      }
    }
  }
}

/** Creates an object that was read, under the write's name. @throws StatusError */
export async function makeObject(write: Write, body: JsonRecord, keepsManagedFields = false): Promise<SingleResponse> {
  const { context, request, name, lease } = write
  const { served, namespace } = request
  checkNamespace(metadataOf(body), request)
  // The namespace and the definition must still exist when the object is written, or nothing would ever delete it.
  let wasDefined = false
  const guard = async (): Promise<readonly Compare[]> => {
    const isCustom = served.origin === 'custom'
    const defined = isCustom ? await context.containers.assertDefined({ served, namespace, name }) : []
    if (wasDefined && defined.length === 0) throw unknownResource()
    wasDefined = defined.length > 0
    return [...defined, ...(await context.namespaces.assertOpen(served, namespace, name, write.options.dryRun))]
  }
  let guarded: readonly Compare[] | null = await guard()
  const bare = bareValueOf(served, body, name)
  const object = bare ?? context.change.create(body, write.changeRequest({ verb: 'update', keepsManagedFields }))
  const guards = async (): Promise<readonly Compare[]> => {
    const found = guarded ?? (await guard())
    guarded = null
    return found
  }
  return await write.change((held) => {
    if (held !== null) throw alreadyExistsError(served.resource, name, isDeleting(held.object))
    return Buffer.isBuffer(object) ? lease.putBare(null, object) : lease.put(null, object)
  }, guards)
}

function nameOf(
  context: WriteContext,
  { served }: WriteRequest,
  body: JsonRecord,
): { readonly name: string; readonly isGenerated: boolean } {
  const metadata = metadataOf(body)
  const name = textMember(metadata, 'name')
  if (name !== '') return { name, isGenerated: false }
  const base = textMember(metadata, 'generateName')
  if (base !== '') return { name: generatedName(base, context.randomBytes(8)), isGenerated: true }
  const { kind, group } = served.resource
  throw InvalidError.forFields(kind, group, '', [required('metadata.name', 'name or generateName is required')])
}

/** @param metadata is changed. @throws BadRequestError when the body and the path name different namespaces. */
export function checkNamespace(metadata: JsonRecord, { served, namespace }: WriteRequest): void {
  // Manifests of cluster-scoped objects often have a namespace. As in Kubernetes, it is dropped.
  if (!served.resource.namespaced) {
    delete metadata['namespace']
    return
  }
  const given = textMember(metadata, 'namespace')
  if (namespace === '') throw new BadRequestError('an empty namespace may not be set during creation')
  if (given === '' || given === namespace) return
  throw new BadRequestError('the namespace of the provided object does not match the namespace sent on the request')
}

/** @throws BadRequestError when the body and the path name different objects. */
export function checkName(metadata: JsonRecord, { served, name }: Pick<WriteRequest, 'served' | 'name'>): void {
  const given = textMember(metadata, 'name')
  if (given === name || (given === '' && served.resource.holds !== 'kubernetes')) return
  if (given === '') {
    throw new BadRequestError(`the name of the object (${name} based on URL) was undeterminable: name must be provided`)
  }
  throw new BadRequestError(`the name of the object (${given}) does not match the name on the URL (${name})`)
}
