/**
 * The headers that let caches keep responses to gets and lists: ETag, Vary and Cache-Control.
 *
 * An ETag is computed before the body, from everything that determines the body's bytes. The handlers pass these parts,
 * and this file adds our release and the client's permissions. Clients with different permissions share an ETag only
 * for a public response, so at worst a cache that ignores Vary gets a full response. The tag is weak, because it is the
 * same with and without compression.
 *
 * If the client asks for a list's position (`position.ts`), which replicas share, the list's parts include the
 * position. Otherwise they include the history of its state. A history is random for each process, so after a restart,
 * or from another replica, a client gets a full response once. The state of an uncached resource has no history and is
 * identified by its content.
 *
 * A list's parts also include its revision, so writes to other keys change its ETag. The revision of the resource's
 * newest change would not be enough. After a 304, a client would keep the revision of its older response. A replica
 * whose history begins later would answer a watch from that revision with 410, and the next list would be a 304 again.
 * With the list's own revision, the 304 of a consistent list confirms etcd's current revision, and no history begins
 * after that.
 */
import { createHash } from 'node:crypto'
import type { Key } from '../../../engine/model/event.js'
import type { ObjectState } from '../../../engine/model/object-state.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { isLaidOutByUserAgent } from '../../../kubernetes/dialect/accept.js'
import { turns } from '../../../support/turns.js'
import type { ReadRequest } from './request.js'
import type { ApiContext, PublicCaching } from './api-context.js'

export interface CacheHeaders {
  readonly etag: string
  readonly vary: string
  /** Absent for the default, which is private. */
  readonly 'cache-control'?: string
}

type CacheableRequest = Pick<ReadRequest<unknown>, 'caller' | 'exchange' | 'form' | 'live'>

/**
 * Returns how shared caches may keep the response; null unless the resource may be cached publicly and anyone may make
 * the request.
 */
export async function publicCachingOf(
  context: ApiContext,
  { caller, live }: CacheableRequest,
): Promise<PublicCaching | null> {
  const caching = context.publicCachingOf(live.served.resource)
  return caching !== null && (await caller.isAnybody()) ? caching : null
}

/** Names an object by its content, so that all replicas give it the same name. */
export function contentOf({
  modRevision,
  encoding,
  schemaVersion: apiVersion,
  typeName: kind,
  bytes,
}: StoredObject): string {
  const digest = createHash('sha256').update(bytes).digest('base64url')
  return JSON.stringify([modRevision, encoding, apiVersion, kind, digest])
}

/** Names all objects under the prefix by their content, yielding to the event loop. */
export async function contentUnder(prefix: Key, state: Pick<ObjectState, 'objects'>): Promise<string> {
  const hash = createHash('sha256')
  for (const object of state.objects(prefix)) {
    if (turns.isOver) await turns.take()
    hash.update(`${object.key} ${contentOf(object)}\n`)
  }
  return hash.digest('base64url')
}

/** @param body everything that determines the bytes of the body, except our release. */
export function cacheHeaders(
  context: ApiContext,
  request: CacheableRequest,
  caching: PublicCaching | null,
  body: string,
): CacheHeaders {
  const { caller, exchange, form } = request
  const isPublic = caching !== null
  const parts = JSON.stringify([context.release, isPublic ? '' : caller.rights, body])
  const etag = `W/"${createHash('sha256').update(parts).digest('base64url').slice(0, 27)}"`
  const vary = ['Accept']
  // The layout of a public response does not depend on the user agent.
  if (!isPublic && isLaidOutByUserAgent(form, exchange.query)) vary.push('User-Agent')
  if (!isPublic && caller.rights !== '') vary.push('Authorization')
  const headers = { etag, vary: vary.join(', ') }
  if (!isPublic) return headers
  const { maxAgeSeconds, staleSeconds } = caching
  const stale = staleSeconds === 0 ? '' : `, stale-while-revalidate=${staleSeconds}`
  return { ...headers, 'cache-control': `public, max-age=0, s-maxage=${maxAgeSeconds}${stale}` }
}
