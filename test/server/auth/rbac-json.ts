/** Roles and bindings as JSON, as the API has them. */
import { parseBinding, parseRole } from '../../../src/server/auth/authz/rbac-types.js'
import type { RbacObjects } from '../../../src/server/auth/authz/rbac-index.js'

export type RbacJson = Readonly<Record<keyof RbacObjects, readonly unknown[]>>

export function rbacObjects({ roles, clusterRoles, roleBindings, clusterRoleBindings }: RbacJson): RbacObjects {
  return {
    roles: roles.flatMap((object) => parseRole(object) ?? []),
    clusterRoles: clusterRoles.flatMap((object) => parseRole(object) ?? []),
    roleBindings: roleBindings.flatMap((object) => parseBinding(object) ?? []),
    clusterRoleBindings: clusterRoleBindings.flatMap((object) => parseBinding(object) ?? []),
  }
}
