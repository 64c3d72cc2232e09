/**
 * A resource of Kubernetes' API: how clients name it and which etcd keys hold it. This file defines the type and converts
 * between a key and (namespace, name). The resources themselves are defined elsewhere
 * (`kubernetes/dialect/well-known-resources.ts`, the configuration).
 */
import { type Key, keyFromText, keyToText } from '../../engine/model/event.js'
import { type Resource, schemaVersion } from '../../engine/model/resource.js'
import { nameOfRest, restOfName } from '../../support/key-name.js'

export { resourceId } from '../../engine/model/resource.js'

export interface ApiResource extends Resource {
  readonly singular: string
  readonly kind: string
  readonly listKind: string
  readonly shortNames: readonly string[]
  readonly categories: readonly string[]
  readonly namespaced: boolean
  readonly holds: Holding
}

/**
 * The contents of the prefix. `kubernetes`: objects stored by a kube-apiserver, whose keys have one segment for each
 * name. The other two are for declared prefixes, where the name spells the rest of the key (`key-name.ts`). `values`:
 * values of any kind, each served as a member of an object created here. `objects`: whole objects, whose own names
 * match their keys.
 */
export type Holding = 'kubernetes' | 'values' | 'objects'

export interface ObjectName {
  /** '' when the resource is cluster-scoped. */
  readonly namespace: string
  readonly name: string
}

/** Returns a version such as `v1` or `apps/v1`. */
export const apiVersion = schemaVersion

/**
 * Returns the same text for resources that share a pipeline. The cached objects of a declared prefix depend on its
 * declaration, so another declaration of the same prefix gets a new pipeline. A definition may be deleted and recreated
 * with another scope, and then its keys have another shape.
 */
export function sourceOf(resource: ApiResource): string {
  const { holds, etcdPrefix, kind, namespaced, stripped } = resource
  const shape = holds === 'kubernetes' ? [] : [apiVersion(resource), kind]
  return JSON.stringify([etcdPrefix, holds, namespaced, stripped, ...shape])
}

/** Returns null for a stray key: one under the prefix that does not have the form of the resource's keys. */
export function nameOfKey(resource: ApiResource, key: Key): ObjectName | null {
  const bytes = key.slice(resource.etcdPrefix.length)
  if (resource.holds !== 'kubernetes') {
    if (!resource.namespaced) return { namespace: '', name: nameOfRest(bytes) }
    const slash = bytes.indexOf('/')
    if (slash === -1) return null
    return { namespace: nameOfRest(bytes.slice(0, slash)), name: nameOfRest(bytes.slice(slash + 1)) }
  }
  const rest = keyToText(bytes as Key)
  // Keys that only look alike must not become one object.
  if (rest === '' || keyFromText(rest) !== bytes) return null
  const slash = rest.indexOf('/')
  if (!resource.namespaced) return slash === -1 ? { namespace: '', name: rest } : null
  if (slash <= 0 || slash === rest.length - 1) return null
  const name = rest.slice(slash + 1)
  if (name.includes('/')) return null
  return { namespace: rest.slice(0, slash), name }
}

/**
 * Whether a key with this name can exist. Under a declared prefix each key has exactly one spelling, and other names
 * have no key.
 */
export function hasKey(resource: ApiResource, { namespace, name }: ObjectName): boolean {
  if (resource.holds === 'kubernetes') return true
  return isNamespaceSpelled(resource, namespace) && restOfName(name) !== null
}

/** Whether such a namespace can exist, if the resource is namespaced. */
export function isNamespaceSpelled({ holds, namespaced }: ApiResource, namespace: string): boolean {
  if (holds === 'kubernetes' || !namespaced) return true
  return restOfName(namespace)?.includes('/') === false
}

/** @throws RangeError if `hasKey` is false, because such a name must never be taken for another key. */
export function keyOfName(resource: ApiResource, { namespace, name }: ObjectName): Key {
  const prefix = resource.namespaced ? namespacePrefix(resource, namespace) : resource.etcdPrefix
  return (prefix + (resource.holds === 'kubernetes' ? keyFromText(name) : spelledRest(name))) as Key
}

/**
 * Returns the prefix of one namespace. It ends in '/', because namespace `a` is a prefix of `ab`.
 * @throws RangeError like `keyOfName`.
 */
export function namespacePrefix(resource: ApiResource, namespace: string): Key {
  if (!isNamespaceSpelled(resource, namespace)) throw new RangeError(`no key is in namespace ${namespace}`)
  const segment = resource.holds === 'kubernetes' ? keyFromText(namespace) : spelledRest(namespace)
  return `${resource.etcdPrefix}${segment}/` as Key
}

/**
 * Returns the prefix of a list or watch: of the whole resource, of one of its namespaces, or of the part whose keys
 * begin with `rest` after that.
 * @param namespace '' for all namespaces.
 * @throws RangeError like `keyOfName`.
 */
export function listedPrefix(resource: ApiResource, namespace: string, rest = '' as Key): Key {
  return ((namespace === '' ? resource.etcdPrefix : namespacePrefix(resource, namespace)) + rest) as Key
}

function spelledRest(name: string): string {
  const rest = restOfName(name)
  if (rest === null) throw new RangeError(`no key is spelled ${name}`)
  return rest
}
