/**
 * The permissions that a request needs. etcd sees every forwarded request as this server's own user, so all that etcd
 * would check for its users is checked here.
 *
 * A key under a declared prefix is named as everywhere else: by the prefix's resource, and by the rest of the key. All
 * other keys, and ranges that are not within one such prefix, belong to the resource `keys`, by their whole names. So a
 * permission for all of `keys` also covers a declared prefix as part of a wider range, but not by itself.
 */
import type { Key } from '../engine/model/event.js'
import { nameOfRest } from '../support/key-name.js'
import { commonPrefix, type KeyRange } from './key-range.js'
import type { ServedPrefix } from './served-prefixes.js'

export const API_GROUP = 'etcd.distributary.io'

export type Verb = 'get' | 'list' | 'watch' | 'update' | 'delete' | 'create'

export interface Right {
  readonly verb: Verb
  readonly resource: string
  /** '' for more than one name. */
  readonly name: string
  /** The common prefix of all names; '' for any. */
  readonly namesFrom: string
}

/** A caller whose request is allowed. */
export interface Admitted {
  /** The name under which limits count the caller. */
  readonly identity: string
  /** Whether nothing is known about the caller, and no permission was needed so far. */
  readonly isAnonymous: boolean
  /** Requires further rights. @throws EtcdError */
  require(rights: readonly Right[]): Promise<void>
  /** Checks everything again after a wait. @throws EtcdError */
  confirm(): Promise<void>
  /** Keeps checking the first right. @returns a function that ends the checks. */
  keep(revoked: () => void): () => void
}

/** The access checks of one stream. */
export interface Access {
  /** Whether the server authenticates no one and allows everything. */
  readonly isOpen: boolean
  /** The name under which limits count a caller that is not known yet. Connections without a known caller share one. */
  readonly network: string
  /** @param rights none for a request that only needs a known caller. @throws EtcdError */
  check(rights: readonly Right[]): Promise<Admitted>
}

/** @param prefix the declared prefix that has all keys of the range; null if there is none. */
export function rightTo(verb: Verb, range: KeyRange, prefix: ServedPrefix | null): Right {
  const resource = prefix === null ? 'keys' : prefix.served.resource.plural
  const from = prefix === null ? 0 : prefix.served.resource.etcdPrefix.length
  if (range.isOne) return { verb, resource, name: nameOfRest(range.start.slice(from)), namesFrom: '' }
  return { verb, resource, name: '', namesFrom: prefixOfNames(commonPrefix(range), from) }
}

/** Reading one key is a `get`, reading more a `list`. */
export function rightToRead(range: KeyRange, prefix: ServedPrefix | null): Right {
  return rightTo(range.isOne ? 'get' : 'list', range, prefix)
}

/** A key that is not UTF-8 is spelled byte by byte, so only what is ASCII is spelled the same in every name. */
function prefixOfNames(keys: Key, from: number): string {
  const [ascii] = /^[\0-\x7f]*/.exec(keys.slice(from))!
  return ['', '.', '..'].includes(ascii) ? '' : nameOfRest(ascii)
}
