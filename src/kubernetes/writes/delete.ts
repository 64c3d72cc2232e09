/** DELETE of one object. An object with finalizers is only marked. It is removed when the last of them is gone. */
import {
  cloneTree,
  encodeJsonTree,
  ensureRecord,
  type Json,
  type JsonRecord,
  record,
  textMember,
} from '../codec/json-tree.js'
import { resourceId } from '../model/api-resource.js'
import { BadRequestError, type ConflictError, ForbiddenError, ServiceUnavailableError } from '../model/status.js'
import { conflictError, objectNotFoundError } from '../dialect/status-body.js'
import { isContainer } from './containers.js'
import { hasFinalizers, isDeleting, metadataOf, nextGeneration } from './object-change.js'
import { type Change, type Changed, type Held, type ObjectLocation, putAgain } from './object-store.js'
import { readOptionalObject } from './object-body.js'
import {
  responseOf,
  type SingleResponse,
  timestamp,
  Warnings,
  type WriteContext,
  type WriteRequest,
} from './write-context.js'
import { typeProblem } from './member-types.js'
import { type DeleteOptions, parseDeleteOptions } from './write-options.js'

/**
 * The namespaces that a kube-apiserver keeps. Their uids identify clusters, and a delete would also remove everything
 * in them.
 */
const IMMORTAL: ReadonlySet<string> = new Set(['default', 'kube-system', 'kube-public'])

/** @throws StatusError */
export async function deleteObject(context: WriteContext, request: WriteRequest): Promise<SingleResponse> {
  const { served, name } = request
  if (resourceId(served.resource) === 'namespaces' && IMMORTAL.has(name)) {
    throw new ForbiddenError(`namespaces ${JSON.stringify(name)} is forbidden: this namespace may not be deleted`, {
      details: { name, kind: 'namespaces' },
    })
  }
  const options = deleteOptionsOf(context, request)
  const { changed, uid } = await remove(context, request, options)
  if (changed.kind !== 'deleted') return responseOf(changed, new Warnings(), options.dryRun)
  const { group, plural } = served.resource
  const details = record({ name, ...(group === '' ? {} : { group }), kind: plural, ...(uid === '' ? {} : { uid }) })
  return success(details)
}

/** Removes an object and returns its last state, as when a collection is deleted. @throws StatusError */
export async function removeObject(context: WriteContext, request: WriteRequest): Promise<SingleResponse> {
  const options = deleteOptionsOf(context, request)
  const { changed } = await remove(context, request, options)
  return responseOf(changed, new Warnings(), options.dryRun)
}

/** @throws StatusError */
export function deleteOptionsOf(context: WriteContext, { contentType, query, body }: WriteRequest): DeleteOptions {
  return readDeleteOptions(context, query, readOptionalObject(contentType, body, context.schema))
}

/**
 * Reads the options. A precondition or dry run of the wrong type is an error, so that it is not ignored.
 * @param options null if there are none.
 * @throws BadRequestError, InvalidError
 */
export function readDeleteOptions(context: WriteContext, query: URLSearchParams, options: Json): DeleteOptions {
  const problem = typeProblem(options, context.deleteOptions)
  if (problem !== null) throw new BadRequestError(problem)
  return parseDeleteOptions(query, options)
}

export function success(details: JsonRecord): SingleResponse {
  const status = record({ kind: 'Status', apiVersion: 'v1', metadata: record(), status: 'Success', details })
  return { kind: 'document', code: 200, json: encodeJsonTree(status), warnings: [] }
}

export const UNCONDITIONAL: DeleteOptions = { dryRun: false, uid: null, resourceVersion: null }

/** Removes one object, or marks it when it has finalizers. @throws StatusError */
export async function remove(
  context: WriteContext,
  place: ObjectLocation,
  options: DeleteOptions,
): Promise<{ readonly changed: Changed; readonly uid: string }> {
  const { store, containers } = context
  const { resource } = place.served
  const holdsOthers = isContainer(place.served)
  let uid = ''
  const decide = (held: Held | null): Change => {
    if (held === null) throw objectNotFoundError(resource, place.name)
    uid = textMember(held.object, 'metadata', 'uid')
    checkPreconditions(place, held, options)
    if (held.isBare) return { kind: 'delete' }
    if (isDeleting(held.object)) {
      return holdsOthers || hasFinalizers(held.object) ? { kind: 'none' } : { kind: 'delete' }
    }
    if (!holdsOthers && !hasFinalizers(held.object)) return { kind: 'delete' }
    return putAgain(held, marked(context, held.object, holdsOthers))
  }
  const changed = await store.change(place, decide, { ...options, removes: true })
  if (holdsOthers && !options.dryRun)
    await containers.finish(place).catch((error: unknown) => throwMarked(place, error))
  else if (changed.kind === 'deleted' && !options.dryRun) await containers.afterGone(place)
  return { changed, uid }
}

/** The container was marked, whatever else failed. */
function throwMarked({ served: { resource }, name }: ObjectLocation, error: unknown): never {
  if (!(error instanceof ServiceUnavailableError)) throw error
  const what = `${resource.plural} ${JSON.stringify(name)} is being deleted`
  throw new ServiceUnavailableError(`${what}, but the storage did not answer while it was emptied: repeat the delete`, {
    cause: error,
  })
}

/** @throws ConflictError when the object is not the one that the options name. */
export function checkPreconditions(place: ObjectLocation, { object }: Held, options: DeleteOptions): void {
  const uid = textMember(object, 'metadata', 'uid')
  const version = textMember(object, 'metadata', 'resourceVersion')
  if (options.uid !== null && options.uid !== uid) {
    throw preconditionError(place, precondition('UID', options.uid, uid), 'deleted and then recreated')
  }
  if (options.resourceVersion !== null && options.resourceVersion !== version) {
    throw preconditionError(place, precondition('ResourceVersion', options.resourceVersion, version), 'modified')
  }
}

function precondition(what: string, wanted: string, found: string): string {
  return `the ${what} in the precondition (${wanted}) does not match the ${what} in record (${found})`
}

/** As in the API server, this error names the resource by its kind. */
function preconditionError({ served: { resource }, name }: ObjectLocation, why: string, what: string): ConflictError {
  const named = { group: resource.group, plural: resource.kind }
  return conflictError(named, name, `${why}. The object might have been ${what}`)
}

function marked(context: WriteContext, object: JsonRecord, holdsOthers: boolean): JsonRecord {
  const after = cloneTree(object)
  const metadata = metadataOf(after)
  if (metadata['generation'] !== undefined) metadata['generation'] = nextGeneration(metadata)
  metadata['deletionTimestamp'] = timestamp(context.clock)
  if (holdsOthers && after['kind'] === 'Namespace') ensureRecord(after, 'status')['phase'] = 'Terminating'
  else metadata['deletionGracePeriodSeconds'] = 0
  return after
}
