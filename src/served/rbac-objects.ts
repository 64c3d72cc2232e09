/** The roles and bindings in the caches, as the RBAC authorizer reads them: nobody has any right before all of them are in. */
import type { RbacObjects, RbacSource } from '../auth/authz/rbac.js'
import type { StoredObject } from '../model/stored-object.js'
import type { LiveResource } from '../pipeline/live-resource.js'
import { followObjects } from './followed-objects.js'

const GROUP = 'rbac.authorization.k8s.io'
const KINDS = ['roles', 'clusterroles', 'rolebindings', 'clusterrolebindings'] as const

/**
 * @param find by group, version and plural.
 * @param jsonOf the object as the served version; null when it cannot be read, which grants nothing.
 * @throws Error when one of the four kinds is not served.
 */
export function rbacSource(
  find: (group: string, version: string, plural: string) => LiveResource | undefined,
  jsonOf: (live: LiveResource, object: StoredObject) => Buffer | null,
): RbacSource {
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
  const objectsOf = (live: LiveResource): unknown[] => {
    const objects: unknown[] = []
    for (const object of live.cache.snapshot().objects(live.cache.prefix)) {
      const json = jsonOf(live, object)
      if (json !== null) objects.push(JSON.parse(json.toString('utf8')))
    }
    return objects
  }
  return {
    list(): RbacObjects | null {
      if (kinds.some(({ cache }) => cache.readiness.kind !== 'ready')) return null
      const [roles = [], clusterRoles = [], roleBindings = [], clusterRoleBindings = []] = kinds.map(objectsOf)
      return { roles, clusterRoles, roleBindings, clusterRoleBindings }
    },
    onChange(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}
