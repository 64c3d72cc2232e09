/**
 * The token that leads from one page of a list to the next: unpadded base64url of
 * `{"v":"meta.k8s.io/v1","rv":N,"start":"key\u0000"}`, the API server's own form. Clients send it back, so its length
 * is limited and it is checked. `start` is relative to the listed prefix and is only ever appended to it, so no token
 * can name a key outside.
 *
 * Any prefix may be served, so a key may not be UTF-8, or may contain path segments such as `.`, `..` or empty ones.
 * As text, such a key would look like an attempt to leave the prefix, so it travels as base64 in `startBytes` next to
 * the text.
 */
import { type Key, keyFromText, keyToBytes, keyToText } from '../../engine/model/event.js'
import { type Revision, toRevision } from '../../engine/model/revision.js'
import { BadRequestError, ExpiredError } from '../model/status.js'
import { MAX_PAGE_TOKEN_LENGTH } from '../model/limits.js'
import { jsonIn } from '../../support/json-text.js'

export interface ContinueToken {
  /**
   * The revision that every page shows. null means the newest revision (`"rv":-1`): such a page is consistent in itself
   * but not with the first page.
   */
  readonly revision: Revision | null
  /** Inclusive first key of the page, relative to the prefix. */
  readonly start: Key
}

const VERSION = 'meta.k8s.io/v1'

/** @param lastKey the last key of this page, absolute. @throws RangeError when it is not under the prefix. */
export function tokenAfter(prefix: Key, lastKey: Key, revision: Revision | null): ContinueToken {
  if (!lastKey.startsWith(prefix)) throw new RangeError('the last key of a page is not under the prefix listed')
  return { revision, start: `${lastKey.slice(prefix.length)}\0` as Key }
}

export function encodeContinueToken({ revision, start }: ContinueToken): string {
  const text = keyToText(start)
  const exact = keyFromText(text) === start && !looksLikeClimbing(text)
  const json = JSON.stringify({
    v: VERSION,
    rv: revision ?? -1,
    start: text,
    ...(exact ? {} : { startBytes: keyToBytes(start).toString('base64url') }),
  })
  return Buffer.from(json).toString('base64url')
}

/** @throws BadRequestError when it is not a token, or when its start leaves the prefix. */
export function decodeContinueToken(token: string): ContinueToken {
  if (token.length > MAX_PAGE_TOKEN_LENGTH) throw invalid(`it is longer than ${MAX_PAGE_TOKEN_LENGTH} characters`)
  if (!/^[A-Za-z0-9_-]*$/.test(token)) throw invalid('it is not unpadded base64url')
  const content = jsonIn(Buffer.from(token, 'base64url').toString('utf8'))
  if (content === undefined) throw invalid('it does not hold JSON')
  if (typeof content !== 'object' || content === null) throw invalid('it does not hold an object')
  const { v, rv, start, startBytes } = content as Record<string, unknown>
  if (v !== VERSION) throw invalid(`server does not recognize this encoded version ${JSON.stringify(v)?.slice(0, 64)}`)
  if (typeof rv !== 'number' || !Number.isSafeInteger(rv) || rv === 0)
    throw invalid('incorrect encoded start resourceVersion')
  if (typeof start !== 'string' || start === '') throw invalid('encoded start key empty')
  const revision = rv < 0 ? null : toRevision(rv)
  if (startBytes === undefined) {
    // The API server begins the text with a slash but also accepts it without one. The slash is optional here too,
    // because a client may switch between the two servers within a list.
    const relative = start.startsWith('/') ? start.slice(1) : start
    if (relative === '' || looksLikeClimbing(relative)) throw invalid(JSON.stringify(start.slice(0, 64)))
    return { revision, start: keyFromText(relative) }
  }
  if (typeof startBytes !== 'string' || startBytes === '') throw invalid('encoded start key empty')
  return { revision, start: Buffer.from(startBytes, 'base64url').toString('latin1') as Key }
}

/** Returns the absolute key to start at, which is always under the prefix. */
export function startKeyOf(token: ContinueToken, prefix: Key): Key {
  return (prefix + token.start) as Key
}

/**
 * The error for a token whose revision is gone. It carries a token that continues from the same key at the newest
 * revision.
 */
export function expiredTokenError(token: ContinueToken): ExpiredError {
  return new ExpiredError(
    'The provided continue parameter is too old to display a consistent list result. Start a new list without it, or use ' +
      'the continue token in this response: then objects written since the first page may be missing or appear twice.',
    { continueToken: encodeContinueToken({ revision: null, start: token.start }) },
  )
}

function invalid(why: string): BadRequestError {
  return new BadRequestError(`invalid continue token: continue key is not valid: ${why}`)
}

/**
 * The last segment may be empty, because the key's final NUL follows it.
 * @returns whether a path cleaner would change the text.
 */
function looksLikeClimbing(start: string): boolean {
  return start.split('/').some((part) => part === '' || part === '.' || part === '..')
}
