/**
 * The headers by which caches keep answers of gets and lists: ETag, Vary and Cache-Control.
 *
 * An ETag is made before the body, from everything that decides its bytes: the callers below pass that, and this file adds
 * our release and who asks. Callers whose rights differ never share one, so a cache that ignores Vary gains nothing
 * but a full answer. It is weak, because the same tag stands for the body with and without compression.
 *
 * A list's parts name the history of its state, which is random for each process: after a restart, and from another replica,
 * a client gets a full answer once.
 */
import { createHash } from 'node:crypto'
import { isLaidOutByUserAgent } from '../../../kubernetes/dialect/accept.js'
import type { ReadRequest } from './request.js'
import type { ApiContext, PublicCaching } from './api-context.js'

export interface CacheHeaders {
  readonly etag: string
  readonly vary: string
  /** Absent: what every answer says, which is that it is private. */
  readonly 'cache-control'?: string
}

type Asked = Pick<ReadRequest<unknown>, 'caller' | 'exchange' | 'form' | 'live'>

/** How the answer may be kept by everybody; null when it is for this caller alone, which is so unless anybody may ask the same. */
export async function publicCachingOf(context: ApiContext, { caller, live }: Asked): Promise<PublicCaching | null> {
  const caching = context.publicCachingOf(live.served.resource)
  return caching !== null && (await caller.isAnybody()) ? caching : null
}

/** @param body everything that decides the bytes of the body, beside our release. */
export function cacheHeaders(
  context: ApiContext,
  asked: Asked,
  caching: PublicCaching | null,
  body: string,
): CacheHeaders {
  const { caller, exchange, form } = asked
  const isPublic = caching !== null
  const parts = JSON.stringify([context.release, isPublic ? '' : caller.rights, body])
  const etag = `W/"${createHash('sha256').update(parts).digest('base64url').slice(0, 27)}"`
  const vary = ['Accept']
  // What everybody shares is never laid out by it.
  if (!isPublic && isLaidOutByUserAgent(form, exchange.query)) vary.push('User-Agent')
  if (!isPublic && caller.rights !== '') vary.push('Authorization')
  const headers = { etag, vary: vary.join(', ') }
  if (!isPublic) return headers
  const { maxAgeSeconds, staleSeconds } = caching
  const stale = staleSeconds === 0 ? '' : `, stale-while-revalidate=${staleSeconds}`
  return { ...headers, 'cache-control': `public, max-age=0, s-maxage=${maxAgeSeconds}${stale}` }
}
