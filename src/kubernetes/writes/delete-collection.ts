/**
 * DELETE of a collection: removes its objects one by one, as in Kubernetes. It takes the options of a list and deletes
 * the objects that this list would contain; with `limit`, that is one page. The response is a list of the deleted
 * objects, unless it would be very large.
 */
import { record } from '../codec/json-tree.js'
import { extractFacts, planFacts } from '../../engine/facts/json-facts.js'
import { FACT_PATHS } from '../codec/fact-paths.js'
import { fieldLabelsOf } from '../dialect/field-labels.js'
import { methodNotAllowedError } from '../dialect/status-body.js'
import { encodeContinueToken, expiredTokenError, startKeyOf, tokenAfter } from '../dialect/continue-token.js'
import { type ListRead, parseListParameters } from '../dialect/list-options.js'
import type { Key } from '../../engine/model/event.js'
import { listedPrefix, type ObjectName, resourceId } from '../model/api-resource.js'
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import { ExpiredError, StatusError, TooLargeResourceVersionError } from '../model/status.js'
import { statusOf } from '../model/status-of.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import { deleteOptionsOf, remove, success } from './delete.js'
import {
  responseOf,
  type SingleResponse,
  Warnings,
  type WriteResponse,
  type WriteContext,
  type WriteRequest,
} from './write-context.js'

const AT_ONCE = 16
/** A larger response is replaced by a Status. */
const MAX_RESPONSE_BYTES = 16 * 1024 * 1024

/** An object and its position in the response. */
interface Place extends ObjectName {
  readonly index: number
}

interface Selected {
  readonly revision: Revision
  readonly continueToken: string
  readonly small: readonly Place[]
  /** Objects that are removed separately because of their size. */
  readonly large: readonly Place[]
}

/** @throws StatusError */
export async function deleteCollection(context: WriteContext, request: WriteRequest): Promise<WriteResponse> {
  const { served, apart } = request
  const { resource } = served
  // As in Kubernetes, one request cannot delete all namespaces.
  if (resourceId(resource) === 'namespaces') throw methodNotAllowedError(resource, 'deletecollection')
  const options = deleteOptionsOf(context, request)
  const { revision, continueToken, small, large } = await select(context, request)
  const removeHere = async ({ namespace, name }: Place): Promise<SingleResponse | null> => {
    const { changed } = await remove(context, { served, namespace, name }, options)
    return changed.stored === null ? null : responseOf(changed, new Warnings(), options.dryRun)
  }
  const gathered = new Gathered()
  const removeAll = async (
    places: Iterable<Place>,
    removeOne: (place: Place) => Promise<SingleResponse | null>,
  ): Promise<void> => {
    for (const place of places) {
      const response = await unlessGone(removeOne(place))
      if (response !== null) gathered.add(place.index, response)
    }
  }
  const rest = small.values()
  await Promise.all([
    ...Array.from({ length: AT_ONCE }, () => removeAll(rest, removeHere)),
    removeAll(large, (place) => apart!.remove(place)),
  ])
  const { objects } = gathered
  if (objects === null) return success(record({ kind: resource.plural }))
  return { kind: 'objects', code: 200, revision, continueToken, warnings: [], objects }
}

async function select(context: WriteContext, { served, namespace, query, apart }: WriteRequest): Promise<Selected> {
  const { resource } = served
  const fieldLabels = fieldLabelsOf(served, context.isAnyFieldSelectable)
  const { read, limit, keyPrefix, selector } = parseListParameters(query, { resource, fieldLabels, namespace })
  const plan = planFacts([...selector.paths, ...(selector.shard === null ? [] : [selector.shard.path])], FACT_PATHS)
  const isSelected = (stored: StoredObject): boolean => {
    if (selector.isEmpty && stored.encoding === 'json') return true
    const json = context.store.json(served, stored)
    if (json === null || selector.isEmpty) return json !== null
    const facts = extractFacts(json, plan, stored)
    return selector.hasShardOf(facts) && selector.matchesTerms(facts)
  }
  const prefix = listedPrefix(resource, namespace, keyPrefix)
  let revision = ZERO_REVISION
  const onRevision = (at: Revision): void => {
    revision = at
    if (read.kind === 'not-older-than' && at < read.revision) {
      throw new TooLargeResourceVersionError(read.revision, at)
    }
  }
  const small: Place[] = []
  const large: Place[] = []
  let lastKey: Key | null = null
  let continueToken = ''
  try {
    for await (const stored of context.store.listStored(served, prefix, { ...placeOf(read, prefix), onRevision })) {
      if (!isSelected(stored)) continue
      if (lastKey !== null && small.length + large.length === limit) {
        continueToken = encodeContinueToken(tokenAfter(prefix, lastKey, revision))
        break
      }
      const { scope: inNamespace, name, bytes } = stored
      const places = apart !== undefined && bytes.length > apart.overBytes ? large : small
      places.push({ namespace: inNamespace, name, index: small.length + large.length })
      lastKey = stored.key
    }
  } catch (error) {
    throw statusOf(error) instanceof ExpiredError && read.kind === 'continue' ? expiredTokenError(read) : error
  }
  return { revision, continueToken, small, large }
}

/** Returns the first key of the list in the storage, and the revision at which to read. */
function placeOf(read: ListRead, prefix: Key): { startKey?: Key; revision?: Revision } {
  if (read.kind === 'exact') return { revision: read.revision }
  if (read.kind !== 'continue') return {}
  const startKey = startKeyOf(read, prefix)
  return read.revision === null ? { startKey } : { startKey, revision: read.revision }
}

/** Returns null if another request has removed the object first. */
async function unlessGone(removal: Promise<SingleResponse | null>): Promise<SingleResponse | null> {
  try {
    return await removal
  } catch (error) {
    if (error instanceof StatusError && error.code === 404) return null
    throw error
  }
}

/** The objects of the response, in order. Drops all of them if they are too large together or one is unavailable. */
class Gathered {
  #objects: (StoredObject | undefined)[] | null = []
  #bytes = 0

  add(index: number, response: SingleResponse): void {
    if (response.kind === 'object') this.#bytes += response.stored.size
    if (response.kind !== 'object' || this.#bytes > MAX_RESPONSE_BYTES) this.#objects = null
    else if (this.#objects !== null) this.#objects[index] = response.stored
  }

  get objects(): readonly StoredObject[] | null {
    return this.#objects?.filter((object) => object !== undefined) ?? null
  }
}
