/**
 * Answers range requests from a cache: finds a state that is as fresh as the request demands, and selects, sorts and
 * limits its keys as etcd does.
 *
 * etcd answers if the cache cannot answer exactly: for a state that it does not hold, and for a linearizable read of an
 * etcd whose progress cannot be trusted.
 *
 * Source for the order of the steps: etcd server/etcdserver/txn/range.go.
 */
import type { Snapshot } from '../engine/cache/store.js'
import type { WatchCache } from '../engine/cache/watch-cache.js'
import type { Key } from '../engine/model/event.js'
import type { Revision } from '../engine/model/revision.js'
import type { StoredObject } from '../engine/model/stored-object.js'
import { turns } from '../support/turns.js'
import { futureRevision } from './etcd-error.js'
import { isEmptyRange } from './key-range.js'
import { MAX_SORTED_KEYS } from './limits.js'
import { type RangeRequest, SORT_ORDER, SORT_TARGET } from './requests.js'
import { field, keyValueParts, lengthOf, rangeEnd, rawValue } from './responses.js'

export interface RangeState {
  readonly snapshot: Snapshot
  /** etcd's revision at the time of the read. */
  readonly revision: Revision
}

export interface RangeResult {
  readonly objects: readonly StoredObject[]
  readonly more: boolean
  /** The number of keys in the range, whatever the limit and the bounds on revisions. */
  readonly count: number
}

/** A response without its header. */
export interface ResponseBody {
  /** Can be taken once. */
  readonly parts: Iterable<Uint8Array>
  /** The bytes of all parts. */
  readonly bytes: number
}

/** A response that turns out to be large takes a slot, once. */
export interface LargeSlot {
  /** Called with all keys of the response so far, before they are encoded. */
  forKeys(keys: number): Promise<void>
  forBytes(bytes: number): Promise<void>
}

export interface FindOptions {
  /** The revision of an earlier response on the same connection, below which no response goes. */
  readonly notBefore: Revision
  readonly signal: AbortSignal
  /** Takes a slot for rebuilding a past state, and returns a function that releases it. */
  readonly enter: () => Promise<() => void>
}

/**
 * Returns the state to answer from, or null if etcd must answer.
 * @throws EtcdError for a revision that etcd has not reached; EngineError when etcd does not answer.
 */
export async function findState(
  cache: WatchCache,
  { revision, serializable }: Pick<RangeRequest, 'revision' | 'serializable'>,
  { notBefore, signal, enter }: FindOptions,
): Promise<RangeState | null> {
  if (cache.readiness.kind !== 'ready' || cache.contents.unservable.size > 0) return null
  let snapshot: Snapshot
  if (serializable) {
    snapshot = cache.snapshot()
    if (snapshot.revision < notBefore) return null
  } else {
    if (!cache.reads.trustsProgress || cache.source.disconnectedReason !== null) return null
    snapshot = await cache.reads.consistentSnapshot(signal)
  }
  const current = snapshot.revision
  if (revision <= 0 || revision === current) return { snapshot, revision: current }
  if (revision > current) {
    // A serializable read may come before the events of a revision that etcd has reached.
    if (serializable) return null
    throw futureRevision()
  }
  const wanted = revision as Revision
  if (!cache.history.canResumeAfter(wanted)) return null
  return { snapshot: await cache.reads.snapshotAt(wanted, signal, enter), revision: current }
}

/** @param prefix has all keys of the range. @returns null if there is so much to sort that etcd must answer. */
export async function selectRange(snapshot: Snapshot, prefix: Key, request: RangeRequest): Promise<RangeResult | null> {
  const { range, countOnly } = request
  if (isEmptyRange(range)) return { objects: [], more: false, count: 0 }
  if (range.isOne) return selectOne(snapshot.get(range.start), request)
  if (countOnly) return { objects: [], more: false, count: await countOf(snapshot, prefix, request) }
  const isBounded = hasBounds(request)
  // Sorted and bounded requests look at every key, and are cut afterwards.
  const isCut = request.limit > 0 && request.sortOrder === SORT_ORDER.none && !isBounded
  const most = isCut ? request.limit + 1 : Infinity
  let objects: StoredObject[] = []
  let found = 0
  for (const object of snapshot.objects(prefix, range.start)) {
    if (turns.isOver) await turns.take()
    if (range.end !== null && object.key >= range.end) break
    if (found++ >= most) break
    if (!isBounded || isInBounds(object, request)) objects.push(object)
  }
  const count = found > most ? await countOf(snapshot, prefix, request) : found
  if (request.sortTarget !== SORT_TARGET.key) {
    if (objects.length > MAX_SORTED_KEYS) return null
    objects = sorted(objects, request)
  } else if (request.sortOrder === SORT_ORDER.descending) objects.reverse()
  const more = request.limit > 0 && objects.length > request.limit
  return { objects: more ? objects.slice(0, request.limit) : objects, more, count }
}

/**
 * Encodes the fields of a RangeResponse after its header: once for their length, and again as the parts are taken. All
 * parts together would take about 700 bytes for each key, however small it is, until a slow client has the last of them.
 *
 * @param showsLeases whether keys without values have their leases.
 */
export async function rangeBody(
  { objects, more, count }: RangeResult,
  { keysOnly, sortTarget }: Pick<RangeRequest, 'keysOnly' | 'sortTarget'>,
  showsLeases: boolean,
): Promise<ResponseBody> {
  const withLeases = showsLeases || !keysOnly || sortTarget === SORT_TARGET.value
  const encoded = (object: StoredObject): Uint8Array[] => field(2, keyValueParts(object, !keysOnly, withLeases))
  const end = rangeEnd(more, count)
  let bytes = end.length
  for (const object of objects) {
    if (turns.isOver) await turns.take()
    bytes += lengthOf(encoded(object))
  }
  const parts = function* (): Generator<Uint8Array> {
    for (const object of objects) yield* encoded(object)
    yield end
  }
  return { parts: parts(), bytes }
}

function selectOne(object: StoredObject | undefined, request: RangeRequest): RangeResult {
  const count = object === undefined ? 0 : 1
  const isShown = object !== undefined && !request.countOnly && isInBounds(object, request)
  return { objects: isShown ? [object] : [], more: false, count }
}

async function countOf(snapshot: Snapshot, prefix: Key, { range }: RangeRequest): Promise<number> {
  const from = await countInTurns(snapshot, prefix, range.start)
  return range.end === null ? from : from - (await countInTurns(snapshot, prefix, range.end))
}

async function countInTurns(snapshot: Snapshot, prefix: Key, startKey: Key): Promise<number> {
  // The end of the prefix itself is no key to count from.
  if (startKey > prefix && !startKey.startsWith(prefix)) return 0
  const counting = snapshot.count(prefix, startKey)
  for (;;) {
    const step = counting.next()
    if (step.done === true) return step.value
    if (turns.isOver) await turns.take()
  }
}

function hasBounds(request: RangeRequest): boolean {
  const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = request
  return minModRevision !== 0 || maxModRevision !== 0 || minCreateRevision !== 0 || maxCreateRevision !== 0
}

function isInBounds({ modRevision, createRevision }: StoredObject, request: RangeRequest): boolean {
  const { minModRevision, maxModRevision, minCreateRevision, maxCreateRevision } = request
  return (
    (minModRevision === 0 || modRevision >= minModRevision) &&
    (maxModRevision === 0 || modRevision <= maxModRevision) &&
    (minCreateRevision === 0 || createRevision >= minCreateRevision) &&
    (maxCreateRevision === 0 || createRevision <= maxCreateRevision)
  )
}

type Order = (a: StoredObject, b: StoredObject) => number

const ORDERS: Readonly<Record<number, Order>> = {
  [SORT_TARGET.version]: (a, b) => a.version - b.version,
  [SORT_TARGET.create]: (a, b) => a.createRevision - b.createRevision,
  [SORT_TARGET.mod]: (a, b) => a.modRevision - b.modRevision,
  [SORT_TARGET.value]: (a, b) => Buffer.compare(rawValue(a), rawValue(b)),
}

/** Sorts by anything but the key. etcd's sort is not stable, so equal items may be in another order there. */
function sorted(objects: StoredObject[], { sortOrder, sortTarget }: RangeRequest): StoredObject[] {
  const order = ORDERS[sortTarget]!
  return objects.sort(sortOrder === SORT_ORDER.descending ? (a, b) => order(b, a) : order)
}
