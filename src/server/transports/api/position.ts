/**
 * Names positions. A name consists of a revision and a proof of the resource's state at that revision. A server
 * continues after a position only if its own state at that revision has the same name. So replicas can continue each
 * other's polls without communicating, and a restarted server can continue the polls from before the restart. If a
 * restored etcd reuses a revision with a different state, the names differ.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { Snapshot } from '../../../engine/cache/store.js'
import { ExpiredError } from '../../../kubernetes/model/status.js'
import type { Revision } from '../../../engine/model/revision.js'
import { parameter } from '../../../kubernetes/dialect/query.js'
import { fingerprintOf } from '../../../kubernetes/dialect/resource-registry.js'
import type { ApiContext } from './api-context.js'
import { seekEarlier } from './read-state.js'
import type { ReadRequest } from './request.js'

/** The header with the position of a list that was requested with `history`. */
export const POSITION_HEADER = 'x-distributary-position'

type PositionRequest = Pick<ReadRequest<unknown>, 'caller' | 'exchange' | 'live' | 'path'>

const NO_SECRET = Buffer.alloc(0)
/** Makes names that only this process can check. */
const SECRET = randomBytes(32)
/** Parameters that choose a part of a resource. */
const PARTS = ['prefix', 'fieldSelector', 'labelSelector']

/**
 * Returns the name of the position at a revision not above the cache's.
 * @throws ExpiredError when no watch can begin there.
 */
export async function positionAt(context: ApiContext, request: PositionRequest, revision: Revision): Promise<string> {
  return nameOf(context, request, revision, await request.live.cache.history.digestAt(revision))
}

/** Returns the name of the position of a list; null when no watch can begin there. */
export async function positionOf(
  context: ApiContext,
  request: PositionRequest,
  snapshot: Snapshot,
): Promise<string | null> {
  const digest = await request.live.cache.history.digestOf(snapshot)
  return digest === null ? null : nameOf(context, request, snapshot.revision, digest)
}

function nameOf(context: ApiContext, request: PositionRequest, revision: Revision, digest: string): string {
  const proof = createHmac('sha256', secretFor(context, request)).update(
    `${digest} ${fingerprintOf(request.live.served)}`,
  )
  return `${revision}.${proof.digest('base64url')}`
}

/** Whether this is the name of a position at that revision, right or wrong. */
export function isPosition(named: string | undefined, revision: Revision): named is string {
  return named?.startsWith(`${revision}.`) === true
}

/**
 * Checks that the caller's position is in this server's history, and waits for the position's revision if another
 * server was faster. Afterwards the source is known to have reached that revision.
 * @param named a position, or a history of this process.
 * @throws ExpiredError when the position is not in the history, or when the history no longer reaches back that far;
 * TimeoutError, TooLargeResourceVersionError when the storage does not answer or does not deliver in time.
 */
export async function assertPosition(
  context: ApiContext,
  request: PositionRequest,
  named: string | undefined,
  revision: Revision,
): Promise<void> {
  const { cache } = request.live
  const isOwn = named === cache.history.name
  if (isOwn || isPosition(named, revision)) {
    if (revision > cache.revision) {
      const current = await cache.reads.sourceRevision()
      if (current < revision) throw ExpiredError.neverHad(revision, current)
      const { signal } = request.exchange
      if (!isOwn && !cache.reads.trustsProgress) {
        // A quiet cache may never reach the position of a list that was proved current. The same proof, for the state
        // now, shows that the state at that position was this one.
        const state = await cache.reads.consistentSnapshot(signal)
        const digest = await cache.history.digestOf(state)
        if (digest !== null && named === nameOf(context, request, revision, digest)) return
      }
      await cache.reads.waitUntil(revision, signal)
    }
    if (isOwn) return
    await seekEarlier(context, cache, revision, request)
    cache.history.assertResumable(revision)
    if (named === (await positionAt(context, request, revision))) return
  }
  throw new ExpiredError(`history ${JSON.stringify((named ?? '').slice(0, 64))} is not the current one`)
}

/**
 * Returns the secret for a name's proof. The proof covers the whole resource. A caller who may read only a part of it
 * could use the proof to check guesses about the rest, so such a caller gets a name that only this process can check.
 * Other callers get the name that every server gives.
 */
function secretFor(context: ApiContext, { caller, exchange, live, path }: PositionRequest): Buffer {
  const isPart = path.namespace !== '' || path.name !== '' || PARTS.some((one) => parameter(exchange.query, one))
  const isForAll = caller.rights === '' || context.publicCachingOf(live.served.resource) !== null
  return isPart && !isForAll ? SECRET : NO_SECRET
}
