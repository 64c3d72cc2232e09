/**
 * A served resource: how clients name it and which etcd keys hold it. This file knows the shape and the way between a
 * key and (namespace, name); which resources there are is data elsewhere (`kubernetes/dialect/well-known-resources.ts`, the
 * config).
 */
import { type Key, keyFromText } from './event.js'

export interface Resource {
  /** '' for the core group. */
  readonly group: string
  readonly version: string
  /** Plural, lower case: the path segment. */
  readonly plural: string
  readonly singular: string
  readonly kind: string
  readonly listKind: string
  readonly shortNames: readonly string[]
  readonly categories: readonly string[]
  readonly namespaced: boolean
  /** Absolute, and ends in '/': `/registry/pods` would also match `/registry/podsecuritypolicy/`. */
  readonly etcdPrefix: Key
  /** True for a declared prefix: the name is the whole rest of the key, slashes included. */
  readonly wholeKeyNames: boolean
}

export interface ObjectName {
  /** '' when the resource is cluster-scoped. */
  readonly namespace: string
  readonly name: string
}

/** `pods`, `deployments.apps`: unique among served resources of one version; used in logs, metrics and flags. */
export function resourceId(resource: Pick<Resource, 'group' | 'plural'>): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`
}

/** `v1`, `apps/v1`. */
export function apiVersion(resource: Pick<Resource, 'group' | 'version'>): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`
}

/** Returns null for a stray key under the prefix, which does not have the shape of the resource's keys. */
export function nameOfKey(resource: Resource, key: Key): ObjectName | null {
  const rest = Buffer.from(key.slice(resource.etcdPrefix.length), 'latin1').toString('utf8')
  if (rest === '') return null
  if (resource.wholeKeyNames && !resource.namespaced) return { namespace: '', name: rest }
  const slash = rest.indexOf('/')
  if (!resource.namespaced) return slash === -1 ? { namespace: '', name: rest } : null
  if (slash <= 0 || slash === rest.length - 1) return null
  const name = rest.slice(slash + 1)
  if (!resource.wholeKeyNames && name.includes('/')) return null
  return { namespace: rest.slice(0, slash), name }
}

export function keyOfName(resource: Resource, { namespace, name }: ObjectName): Key {
  return (resource.etcdPrefix + keyFromText(resource.namespaced ? `${namespace}/${name}` : name)) as Key
}

/** The prefix of one namespace, ending in '/': namespace `a` is a prefix of `ab`. */
export function namespacePrefix(resource: Resource, namespace: string): Key {
  return (resource.etcdPrefix + keyFromText(`${namespace}/`)) as Key
}
