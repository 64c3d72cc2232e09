/** Reads a cache with the freshness that a request asks for; gets, lists and watches all read through here. */
import type { Snapshot } from '../../../engine/cache/store.js'
import type { WatchCache } from '../../../engine/cache/watch-cache.js'
import { expiredTokenError } from '../../../kubernetes/dialect/continue-token.js'
import type { RequestedFreshness, ListRead } from '../../../kubernetes/dialect/list-options.js'
import type { Key } from '../../../engine/model/event.js'
import { ExpiredError } from '../../../engine/model/status.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { turnToGoOn } from '../limits/arrivals.js'
import type { ApiContext } from './api-context.js'
import type { Request } from './request.js'

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
  try {
    await cache.load(exchange.signal)
  } finally {
    leave()
  }
  await turnToGoOn(caller.identity)
  await caller.confirm()
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
      return await inTurn(cache.consistentSnapshot(signal), request)
    case 'not-older-than':
      if (freshness.revision <= cache.revision) return cache.snapshot()
      return await inTurn(cache.snapshotNotOlderThan(freshness.revision, signal), request)
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
  if (freshness.kind === 'consistent') return await inTurn(cache.consistentObject(key, signal), request)
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
  if (read.kind === 'exact') return await cache.snapshotAt(read.revision, signal, enter)
  if (read.kind !== 'continue') return await readSnapshot(cache, read, request)
  if (read.revision === null) return await inTurn(cache.consistentSnapshot(signal), request)
  try {
    return await cache.snapshotAt(read.revision, signal, enter)
  } catch (error) {
    throw error instanceof ExpiredError ? expiredTokenError(read) : error
  }
}
