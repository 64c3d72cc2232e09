/**
 * DELETE of one object or of a collection. An object that has finalizers is only marked, and is removed when the last
 * of them is gone.
 */
import {
  cloneTree,
  encodeJsonTree,
  ensureRecord,
  jsonText,
  type JsonRecord,
  record,
  textMember,
} from '../codec/json-tree.js'
import { extractFacts, planFacts } from '../codec/json-facts.js'
import { spliceResourceVersion } from '../codec/json-scan.js'
import { conflictError, methodNotAllowedError, objectNotFoundError } from '../dialect/status-body.js'
import { parameter } from '../dialect/query.js'
import { parseSelector } from '../dialect/selector.js'
import { apiVersion, namespacePrefix, resourceId } from '../model/resource.js'
import { NotFoundError } from '../model/status.js'
import type { StoredObject } from '../model/stored-object.js'
import { hasFinalizers, isDeleting, metadataOf, nextGeneration } from './object-change.js'
import type { Change, Changed, Held, ObjectLocation } from './object-store.js'
import { readOptionalObject } from './request-body.js'
import {
  answerOf,
  timestamp,
  Warnings,
  type WriteAnswer,
  type WriteContext,
  type WriteRequest,
} from './write-context.js'
import { type DeleteOptions, parseDeleteOptions } from './write-options.js'

const AT_ONCE = 16
/** A larger answer is replaced by a Status. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024

/** @throws StatusError */
export async function deleteObject(context: WriteContext, request: WriteRequest): Promise<WriteAnswer> {
  const { served, namespace, name } = request
  const body = readOptionalObject(request.contentType, request.body, context.schema)
  const options = parseDeleteOptions(request.query, body)
  const { changed, uid } = await remove(context, { served, namespace, name }, options)
  if (changed.kind !== 'deleted') return answerOf(changed, new Warnings(), options.dryRun)
  const { group, plural } = served.resource
  const details = record({ name, ...(group === '' ? {} : { group }), kind: plural, ...(uid === '' ? {} : { uid }) })
  return success(details)
}

function success(details: JsonRecord): WriteAnswer {
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
  const isContainer = containers.isContainer(place.served)
  let uid = ''
  const decide = (held: Held | null): Change => {
    if (held === null) throw objectNotFoundError(resource, place.name)
    uid = textMember(held.object, 'metadata', 'uid')
    checkPreconditions(place, held, options)
    if (held.isBare) return { kind: 'delete' }
    if (isDeleting(held.object)) {
      return isContainer || hasFinalizers(held.object) ? { kind: 'none' } : { kind: 'delete' }
    }
    if (!isContainer && !hasFinalizers(held.object)) return { kind: 'delete' }
    return {
      kind: 'put',
      value: marked(context, held.object, isContainer),
      lease: () => Promise.resolve(held.stored.leaseId),
    }
  }
  const changed = await store.change(place, decide, { ...options, removes: true })
  if (isContainer && !options.dryRun) {
    const held = await store.read(place)
    if (held !== null) await containers.finish(place, held)
  } else if (changed.kind === 'deleted' && !options.dryRun) await containers.afterGone(place)
  return { changed, uid }
}

/** @throws ConflictError when the object is not the one that is to be removed. */
export function checkPreconditions(
  { served: { resource }, name }: ObjectLocation,
  { object }: Held,
  options: DeleteOptions,
): void {
  const uid = textMember(object, 'metadata', 'uid')
  const version = textMember(object, 'metadata', 'resourceVersion')
  if (options.uid !== null && options.uid !== uid) {
    throw conflictError(resource, name, precondition('UID', options.uid, uid))
  }
  if (options.resourceVersion !== null && options.resourceVersion !== version) {
    throw conflictError(resource, name, precondition('ResourceVersion', options.resourceVersion, version))
  }
}

function precondition(what: string, wanted: string, found: string): string {
  return `Precondition failed: ${what} in precondition: ${wanted}, ${what} in object meta: ${found}`
}

function marked(context: WriteContext, object: JsonRecord, isContainer: boolean): JsonRecord {
  const after = cloneTree(object)
  const metadata = metadataOf(after)
  metadata['generation'] = nextGeneration(metadata)
  metadata['deletionTimestamp'] = timestamp(context.clock)
  metadata['deletionGracePeriodSeconds'] = 0
  if (isContainer && after['kind'] === 'Namespace') ensureRecord(after, 'status')['phase'] = 'Terminating'
  return after
}

/** @throws StatusError */
export async function deleteCollection(context: WriteContext, request: WriteRequest): Promise<WriteAnswer> {
  const { served, namespace, query } = request
  const { resource } = served
  // As in Kubernetes, one request cannot delete all namespaces.
  if (resourceId(resource) === 'namespaces') throw methodNotAllowedError(resource, 'deletecollection')
  const options = parseDeleteOptions(query, readOptionalObject(request.contentType, request.body, context.schema))
  const selector = parseSelector(parameter(query, 'labelSelector'), parameter(query, 'fieldSelector'), resource)
  const plan = planFacts(selector.paths)
  const prefix = namespace === '' ? resource.etcdPrefix : namespacePrefix(resource, namespace)
  const places: ObjectLocation[] = []
  for await (const { stored, object } of context.store.list(served, prefix)) {
    const { namespace: inNamespace, name } = stored
    const known = { namespace: inNamespace, name }
    if (!selector.isEmpty && !selector.matches(extractFacts(Buffer.from(jsonText(object)), plan, known))) continue
    places.push({ served, namespace: inNamespace, name })
  }
  const removed: (StoredObject | undefined)[] = []
  let next = 0
  const work = async (): Promise<void> => {
    for (let i = next++; i < places.length; i = next++) {
      try {
        const { changed } = await remove(context, places[i]!, options)
        if (changed.stored !== null) removed[i] = changed.stored
      } catch (error) {
        // Another request removed it first.
        if (!(error instanceof NotFoundError)) throw error
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  const items = removed.filter((stored) => stored !== undefined)
  const bytes = items.reduce((sum, stored) => sum + stored.bytes.length, 0)
  if (bytes > MAX_ANSWER_BYTES) return success(record({ kind: resource.plural }))
  const texts = items.map((stored) => spliceResourceVersion(stored, stored.modRevision).toString('utf8'))
  const head = `{"kind":${JSON.stringify(resource.listKind)},"apiVersion":${JSON.stringify(apiVersion(resource))}`
  const json = Buffer.from(`${head},"metadata":{},"items":[${texts.join(',')}]}`)
  return { kind: 'document', code: 200, json, warnings: [] }
}
