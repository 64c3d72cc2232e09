/**
 * `?prefix=eu/` selects the objects of a declared prefix whose keys in etcd begin with this text. The text is decoded
 * once, from the query, before authorization uses it, so there is only one spelling.
 */
import { type Key, keyFromText } from '../../engine/model/event.js'
import type { ApiResource } from '../model/api-resource.js'
import { BadRequestError } from '../model/status.js'
import { parameter, type Query } from './query.js'

/** etcd limits its own requests, and a longer text is unlikely to be a key. */
const MAX_LENGTH = 4_096

/**
 * Returns the key prefix after the resource's prefix and the namespace; '' for all keys.
 *
 * @param resource undefined for any.
 * @param namespace '' for all namespaces, or if the resource has none.
 * @throws BadRequestError where the parameter has no meaning, so that the response has no objects the client did not
 * request.
 */
export function parseKeyPrefix(query: Query, resource: ApiResource | undefined, namespace: string): Key {
  const text = parameter(query, 'prefix')
  if (text === undefined) return '' as Key
  if (resource?.holds === 'kubernetes') {
    throw new BadRequestError(`prefix: only declared prefixes support it, not ${resource.plural}`)
  }
  if (text.length > MAX_LENGTH) throw new BadRequestError(`prefix is longer than ${MAX_LENGTH} characters`)
  // A prefix that is not UTF-8 arrives as a NUL (`query.ts`).
  if (text.includes('\0')) throw new BadRequestError('prefix is not valid UTF-8, or contains a NUL')
  if (text !== '' && resource?.namespaced === true && namespace === '') {
    throw new BadRequestError('prefix requires a namespace: it is the beginning of the keys in it')
  }
  return keyFromText(text)
}
