/**
 * The roles and bindings in the caches, as read by the RBAC authorizer. Nothing is granted before all of them are
 * loaded.
 */
import type { RbacObjects } from '../auth/authz/rbac-index.js'
import { NOT_YET_READ, type RbacSource } from '../auth/authz/rbac.js'
import type { Snapshot } from '../../engine/cache/store.js'
import type { ObjectNotes, StoredObject } from '../../engine/model/stored-object.js'
import type { LiveResource } from '../../kubernetes/dialect/live-resource.js'
import { turns } from '../../support/turns.js'
import { followObjects } from './followed-objects.js'

const GROUP = 'rbac.authorization.k8s.io'
/** A write that waits longer for etcd fails. */
const REFRESH_MS = 10_000
const KINDS = ['roles', 'clusterroles', 'rolebindings', 'clusterrolebindings'] as const

type Find = (group: string, version: string, plural: string) => LiveResource | undefined

/** Whether all four kinds are cached here. */
export function areRbacObjectsServed(find: Find): boolean {
  return KINDS.every((plural) => find(GROUP, 'v1', plural) !== undefined)
}

export interface FollowedRbacObjects extends RbacSource {
  /** Waits until all four kinds are as fresh as etcd. @throws StatusError */
  refresh(): Promise<void>
}

/**
 * @param find looks a resource up by group, version and plural.
 * @param jsonOf returns the object in the served version; null when it cannot be read, which grants nothing.
 * @throws Error when one of the four kinds is not served.
 */
export function followRbacObjects(
  find: Find,
  jsonOf: (live: LiveResource, object: StoredObject) => Buffer | null,
): FollowedRbacObjects {
  const kinds = KINDS.map((plural) => {
    const live = find(GROUP, 'v1', plural)
    if (live === undefined) throw new Error(`authorization mode RBAC needs ${plural}.${GROUP} to be served`)
    return live
  })
  const listeners = new Set<() => void>()
  const onChange = (): void => {
    for (const listener of listeners) listener()
  }
  for (const { cache } of kinds) followObjects(cache, { onChange })
  // An unchanged object is parsed only once.
  const parsed = new WeakMap<ObjectNotes, { readonly object: unknown }>()
  const parse = (live: LiveResource, stored: StoredObject): { readonly object: unknown } => {
    const json = jsonOf(live, stored)
    return { object: json === null ? null : JSON.parse(json.toString('utf8')) }
  }
  const objectsOf = async (live: LiveResource, state: Snapshot): Promise<unknown[]> => {
    const objects: unknown[] = []
    for (const stored of state.objects(live.cache.prefix)) {
      let known = parsed.get(stored.notes)
      if (known === undefined) {
        if (turns.isOver) await turns.take()
        parsed.set(stored.notes, (known = parse(live, stored)))
      }
      if (known.object !== null) objects.push(known.object)
    }
    return objects
  }
  return {
    get unread() {
      for (const { cache } of kinds) {
        const { readiness } = cache
        if (readiness.kind === 'refused') return `${cache.name} cannot be read: ${readiness.reason}`
      }
      const isRead = kinds.every(({ cache }) => cache.readiness.kind === 'ready')
      return isRead ? null : NOT_YET_READ
    },
    async list(): Promise<RbacObjects> {
      // Snapshots of one moment, however long it takes to read them.
      const states = kinds.map((live) => [live, live.cache.snapshot()] as const)
      const lists: unknown[][] = []
      for (const state of states) lists.push(await objectsOf(...state))
      const [roles = [], clusterRoles = [], roleBindings = [], clusterRoleBindings = []] = lists
      return { roles, clusterRoles, roleBindings, clusterRoleBindings }
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async refresh() {
      await Promise.all(kinds.map(({ cache }) => cache.consistentSnapshot(AbortSignal.timeout(REFRESH_MS))))
    },
  }
}
