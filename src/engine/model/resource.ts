/**
 * A served resource: how clients name it and which etcd keys hold it. This file defines the shape and converts between
 * a key and (namespace, name); which resources exist is data elsewhere (`kubernetes/dialect/well-known-resources.ts`,
 * the config).
 */
import { type Key, keyFromText } from './event.js'
import { nameOfRest, restOfName } from './key-name.js'

export interface Resource {
  /** '' for the core group. */
  readonly group: string
  readonly version: string
  /** Plural, lower case; the path segment. */
  readonly plural: string
  readonly singular: string
  readonly kind: string
  readonly listKind: string
  readonly shortNames: readonly string[]
  readonly categories: readonly string[]
  readonly namespaced: boolean
  /** Absolute, and ends in '/': `/registry/pods` would also match `/registry/podsecuritypolicy/`. */
  readonly etcdPrefix: Key
  readonly holds: Holding
}

/**
 * The contents of the prefix. `kubernetes`: what a kube-apiserver stores, with a name per key segment. Otherwise the
 * prefix is declared, and the name spells the rest of the key (`key-name.ts`): `values` of any kind, each served as a
 * member of an object created here; or whole `objects`, whose own names match their keys.
 */
export type Holding = 'kubernetes' | 'values' | 'objects'

export interface ObjectName {
  /** '' when the resource is cluster-scoped. */
  readonly namespace: string
  readonly name: string
}

/** `pods`, `deployments.apps`; unique among the served resources of one version. Used in logs, metrics and flags. */
export function resourceId(resource: Pick<Resource, 'group' | 'plural'>): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`
}

/** `v1`, `apps/v1`. */
export function apiVersion(resource: Pick<Resource, 'group' | 'version'>): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`
}

/** Returns null for a stray key under the prefix that does not have the shape of the resource's keys. */
export function nameOfKey(resource: Resource, key: Key): ObjectName | null {
  const bytes = key.slice(resource.etcdPrefix.length)
  if (resource.holds !== 'kubernetes') {
    if (!resource.namespaced) return { namespace: '', name: nameOfRest(bytes) }
    const slash = bytes.indexOf('/')
    if (slash === -1) return null
    return { namespace: nameOfRest(bytes.slice(0, slash)), name: nameOfRest(bytes.slice(slash + 1)) }
  }
  const rest = Buffer.from(bytes, 'latin1').toString('utf8')
  if (rest === '') return null
  const slash = rest.indexOf('/')
  if (!resource.namespaced) return slash === -1 ? { namespace: '', name: rest } : null
  if (slash <= 0 || slash === rest.length - 1) return null
  const name = rest.slice(slash + 1)
  if (name.includes('/')) return null
  return { namespace: rest.slice(0, slash), name }
}

/** Whether such a key can exist. Under a declared prefix each key has one spelling, and other names have no key. */
export function hasKey(resource: Resource, { namespace, name }: ObjectName): boolean {
  if (resource.holds === 'kubernetes') return true
  return isNamespaceSpelled(resource, namespace) && restOfName(name) !== null
}

/** Whether such a namespace can exist, for a namespaced resource. */
export function isNamespaceSpelled({ holds, namespaced }: Resource, namespace: string): boolean {
  if (holds === 'kubernetes' || !namespaced) return true
  return restOfName(namespace)?.includes('/') === false
}

/** @throws RangeError if `hasKey` is false: such a name must never be taken for another key. */
export function keyOfName(resource: Resource, { namespace, name }: ObjectName): Key {
  const prefix = resource.namespaced ? namespacePrefix(resource, namespace) : resource.etcdPrefix
  return (prefix + (resource.holds === 'kubernetes' ? keyFromText(name) : spelledRest(name))) as Key
}

/**
 * Returns the prefix of one namespace, ending in '/': namespace `a` is a prefix of `ab`. @throws RangeError like
 * `keyOfName`.
 */
export function namespacePrefix(resource: Resource, namespace: string): Key {
  if (!isNamespaceSpelled(resource, namespace)) throw new RangeError(`no key is in namespace ${namespace}`)
  const segment = resource.holds === 'kubernetes' ? keyFromText(namespace) : spelledRest(namespace)
  return `${resource.etcdPrefix}${segment}/` as Key
}

/**
 * Returns the prefix of a list or watch: the resource, one of its namespaces, or the part whose keys begin with `rest`.
 * @param namespace '' for all of them. @throws RangeError like `keyOfName`.
 */
export function listedPrefix(resource: Resource, namespace: string, rest = '' as Key): Key {
  return ((namespace === '' ? resource.etcdPrefix : namespacePrefix(resource, namespace)) + rest) as Key
}

function spelledRest(name: string): string {
  const rest = restOfName(name)
  if (rest === null) throw new RangeError(`no key is spelled ${name}`)
  return rest
}
