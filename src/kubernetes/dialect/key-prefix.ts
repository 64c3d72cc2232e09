/**
 * `?prefix=eu/`: the objects of a declared prefix whose keys begin with a text, as they are in etcd. Nothing else spells
 * it: the text is decoded once, from the query, before anybody is authorized by it.
 */
import { type Key, keyFromText } from '../../engine/model/event.js'
import type { Resource } from '../../engine/model/resource.js'
import { BadRequestError } from '../../engine/model/status.js'
import { parameter, type Query } from './query.js'

/** etcd's own requests are bounded; a longer key than this is hardly a key. */
const MAX_LENGTH = 4_096

/**
 * Returns what the keys begin with, after the prefix of the resource and the namespace; '' for all.
 *
 * @param resource undefined: any.
 * @param namespace '' for all of them, or where the resource has none.
 * @throws BadRequestError where it has no meaning, rather than answer with objects that were not asked for.
 */
export function parseKeyPrefix(query: Query, resource: Resource | undefined, namespace: string): Key {
  const text = parameter(query, 'prefix')
  if (text === undefined) return '' as Key
  if (resource?.holds === 'kubernetes') {
    throw new BadRequestError(`prefix: ${resource.plural} have no keys here, which only declared prefixes have`)
  }
  if (text.length > MAX_LENGTH) throw new BadRequestError(`prefix is longer than ${MAX_LENGTH} characters`)
  if (/[\0\uFFFD]/.test(text)) throw new BadRequestError('prefix is no UTF-8, or has a NUL')
  if (text !== '' && resource?.namespaced === true && namespace === '') {
    throw new BadRequestError('prefix goes with one namespace: it is the text that keys there begin with')
  }
  return keyFromText(text)
}
