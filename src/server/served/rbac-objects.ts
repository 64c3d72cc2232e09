/**
 * Provides the roles and bindings in the caches to the RBAC authorizer. Nothing is granted before all of them are
 * loaded.
 */
import { parseBinding, parseRole } from '../auth/authz/rbac-types.js'
import { NOT_YET_READ, type RbacSource } from '../auth/authz/rbac.js'
import type { WatchCache } from '../../engine/cache/watch-cache.js'
import type { ObjectNotes, StoredObject } from '../../engine/model/stored-object.js'
import { turns } from '../../support/turns.js'
import { followObjects } from './followed-objects.js'
import type { FindLive, JsonOf } from './node-relations.js'

const GROUP = 'rbac.authorization.k8s.io'
/** A write that waits longer for etcd fails. */
const REFRESH_MS = 10_000
const KINDS = ['roles', 'clusterroles', 'rolebindings', 'clusterrolebindings'] as const

interface Kind<T> {
  readonly cache: WatchCache
  /** All objects at the moment of the call. */
  list(): Promise<T[]>
}

/** Whether all four kinds are cached here. */
export function areRbacObjectsServed(find: FindLive): boolean {
  return KINDS.every((plural) => find(GROUP, 'v1', plural) !== undefined)
}

export interface FollowedRbacObjects extends RbacSource {
  /** Waits until the caches of all four kinds are as fresh as etcd. @throws StatusError */
  refresh(): Promise<void>
}

/**
 * @param find looks a resource up by group, version and plural.
 * @param jsonOf returns the object in the served version; null when it cannot be read, which grants nothing.
 * @throws Error when one of the four kinds is not served.
 */
export function followRbacObjects(find: FindLive, jsonOf: JsonOf): FollowedRbacObjects {
  const listeners = new Set<() => void>()
  const onChange = (): void => {
    for (const listener of listeners) listener()
  }
  const follow = <T>(plural: (typeof KINDS)[number], parse: (object: unknown) => T | null): Kind<T> => {
    const live = find(GROUP, 'v1', plural)
    if (live === undefined) throw new Error(`authorization mode RBAC needs ${plural}.${GROUP} to be served`)
    const { cache } = live
    followObjects(cache, { onChange })
    // An unchanged object is parsed only once.
    const parsed = new WeakMap<ObjectNotes, readonly T[]>()
    const read = (stored: StoredObject): readonly T[] => {
      const json = jsonOf(live, stored)
      const object = json === null ? null : parse(JSON.parse(json.toString('utf8')))
      return object === null ? [] : [object]
    }
    const list = async (): Promise<T[]> => {
      const objects: T[] = []
      for (const stored of cache.snapshot().objects(cache.prefix)) {
        let known = parsed.get(stored.notes)
        if (known === undefined) {
          if (turns.isOver) await turns.take()
          parsed.set(stored.notes, (known = read(stored)))
        }
        objects.push(...known)
      }
      return objects
    }
    return { cache, list }
  }
  const all = [
    follow('roles', parseRole),
    follow('clusterroles', parseRole),
    follow('rolebindings', parseBinding),
    follow('clusterrolebindings', parseBinding),
  ] as const
  return {
    get unread() {
      for (const { cache } of all) {
        const { readiness } = cache
        if (readiness.kind === 'refused') return `${cache.name} cannot be read: ${readiness.publicRefusal}`
      }
      const isRead = all.every(({ cache }) => cache.readiness.kind === 'ready')
      return isRead ? null : NOT_YET_READ
    },
    async list() {
      const [ofRoles, ofClusterRoles, ofRoleBindings, ofClusterRoleBindings] = all
      // All snapshots are taken at the same moment, however long it takes to read them.
      const lists = [
        ofRoles.list(),
        ofClusterRoles.list(),
        ofRoleBindings.list(),
        ofClusterRoleBindings.list(),
      ] as const
      const [roles, clusterRoles, roleBindings, clusterRoleBindings] = await Promise.all(lists)
      return { roles, clusterRoles, roleBindings, clusterRoleBindings }
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async refresh() {
      await Promise.all(all.map(({ cache }) => cache.reads.consistentSnapshot(AbortSignal.timeout(REFRESH_MS))))
    },
  }
}
