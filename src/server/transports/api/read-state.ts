/** Reads a cache with the freshness that a request asks for; gets, lists and watches all read through here. */
import type { Snapshot } from '../../../engine/cache/store.js'
import type { WatchCache } from '../../../engine/cache/watch-cache.js'
import { expiredTokenError } from '../../../kubernetes/dialect/continue-token.js'
import type { RequestedFreshness, ListRead } from '../../../kubernetes/dialect/list-options.js'
import type { Key } from '../../../engine/model/event.js'
import type { Revision } from '../../../engine/model/revision.js'
import { ExpiredError } from '../../../kubernetes/model/status.js'
import { statusOf } from '../../../kubernetes/model/status-of.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { afterWait } from '../gate/after-wait.js'
import { turnToGoOn } from '../limits/arrivals.js'
import type { ApiContext } from './api-context.js'
import { type PendingRequest, waitFor } from './answer-after.js'
import { assertNotDraining, type Request } from './request.js'

/** The identity that reads, and the signal that ends the read. */
interface Reader {
  readonly caller: Pick<Request['caller'], 'identity'>
  readonly exchange: Pick<Request['exchange'], 'signal'>
}

/**
 * Lets a request wait, within limits, for a resource whose first state is still being loaded. A rejected client would
 * come back long after the state is available.
 * @throws StatusError after the limit, or when the caller has lost its permission in the meantime.
 */
export async function untilLoaded(
  { loadingReads }: Pick<ApiContext, 'loadingReads'>,
  cache: WatchCache,
  { caller, exchange }: Request,
): Promise<void> {
  const leave = loadingReads.tryAcquire(caller.identity)
  if (leave === null) return
  await afterWait(caller, async () => {
    try {
      await cache.readiness.load(exchange.signal)
    } finally {
      leave()
    }
    await turnToGoOn(caller.identity)
  })
}

/**
 * Waits for the history from before the start, if a request begins there and it is being read back. No slot is held
 * meanwhile, because that may take long.
 * @throws ServiceUnavailableError when the server has begun to drain in the meantime.
 */
export async function seekEarlier(
  context: Pick<ApiContext, 'isDraining'>,
  cache: WatchCache,
  revision: Revision,
  { caller, exchange }: Reader,
): Promise<void> {
  if (!(await cache.history.seek(revision, exchange.signal))) return
  await turnToGoOn(caller.identity)
  assertNotDraining(context)
}

/** @throws TooLargeResourceVersionError, StatusError */
export async function readSnapshot(
  cache: WatchCache,
  freshness: RequestedFreshness,
  request: Reader,
): Promise<Snapshot> {
  const { signal } = request.exchange
  switch (freshness.kind) {
    case 'cached':
      return cache.snapshot()
    case 'consistent':
      return await inTurn(cache.reads.consistentSnapshot(signal), request)
    case 'not-older-than':
      if (freshness.revision <= cache.revision) return cache.snapshot()
      return await inTurn(cache.reads.snapshotNotOlderThan(freshness.revision, signal), request)
  }
}

async function inTurn<T>(waited: Promise<T>, { caller }: Reader): Promise<T> {
  const read = await waited
  await turnToGoOn(caller.identity)
  return read
}

/** Reads one object. For a consistent read, the upstream may have to read one key instead of the whole prefix. */
export async function readObject(
  cache: WatchCache,
  key: Key,
  freshness: RequestedFreshness,
  request: Reader,
): Promise<StoredObject | undefined> {
  const { signal } = request.exchange
  if (freshness.kind === 'consistent') return await inTurn(cache.reads.consistentObject(key, signal), request)
  return (await readSnapshot(cache, freshness, request)).get(key)
}

/**
 * Reads the state for a list, which may ask for an exact revision or continue an earlier page.
 * @param enter takes a slot for rebuilding a past state.
 * @throws ExpiredError, TooManyRequestsError
 */
export async function readListState(
  cache: WatchCache,
  read: ListRead,
  request: Reader,
  enter: () => Promise<() => void>,
): Promise<Snapshot> {
  const { signal } = request.exchange
  if (read.kind === 'exact') return await cache.reads.snapshotAt(read.revision, signal, enter)
  if (read.kind !== 'continue') return await readSnapshot(cache, read, request)
  if (read.revision === null) return await inTurn(cache.reads.consistentSnapshot(signal), request)
  try {
    return await cache.reads.snapshotAt(read.revision, signal, enter)
  } catch (error) {
    throw statusOf(error) instanceof ExpiredError ? expiredTokenError(read) : error
  }
}

/**
 * Does work that needs memory: while memory is short, in turn with other callers.
 * @param isSmall whether the work needs so little that it need not wait. Default: it does not.
 * @throws TooManyRequestsError
 */
export async function inMemoryTurn(
  { memory }: Pick<ApiContext, 'memory'>,
  request: Request & Pick<PendingRequest, 'live'>,
  work: () => Promise<void>,
  isSmall?: () => boolean,
): Promise<void> {
  const { caller, exchange } = request
  const admit = (): ReturnType<typeof memory.admitInTurn> =>
    memory.admitInTurn(caller.identity, exchange.signal, isSmall)
  const leave = await waitFor(request, admit, (admitted) => admitted?.())
  try {
    await work()
  } finally {
    leave?.()
  }
}

/** A resource of at most this size is small: with a few slots for such reads, they take less than a large value. */
const SMALL_OBJECTS = 1_000
const SMALL_BYTES = 256 * 1024

/** Whether all objects of the cache together are small. */
export function isSmallState(cache: WatchCache): boolean {
  if (cache.contents.size > SMALL_OBJECTS) return false
  let left = SMALL_BYTES
  for (const { bytes } of cache.snapshot().objects(cache.prefix)) if ((left -= bytes.length) < 0) return false
  return true
}
