/**
 * A second implementation of Kubernetes RBAC, as short and slow as possible, written from the sentences of the
 * documentation; shares nothing with `src/server/auth`. It accepts only well-formed objects.
 */
export interface Rule {
  verbs: string[]
  apiGroups?: string[]
  resources?: string[]
  resourceNames?: string[]
  nonResourceURLs?: string[]
}
export interface RoleObject {
  metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  rules?: Rule[]
  aggregationRule?: { clusterRoleSelectors: { matchLabels: Record<string, string> }[] }
}
export interface BindingObject {
  metadata: { name: string; namespace?: string }
  roleRef: { apiGroup: string; kind: string; name: string }
  subjects?: { kind: string; name: string; namespace?: string }[]
}
export interface World {
  roles: RoleObject[]
  clusterRoles: RoleObject[]
  roleBindings: BindingObject[]
  clusterRoleBindings: BindingObject[]
}
export interface Question {
  user: string
  groups: string[]
  verb: string
  /** A path, or a resource request. */
  path?: string
  group?: string
  /** `pods` or `pods/log`. */
  resource?: string
  namespace?: string
  name?: string
}

export function mayDo(world: World, q: Question): boolean {
  if (q.groups.includes('system:masters')) return true
  const granted: Rule[] = []
  for (const binding of world.clusterRoleBindings) {
    if (speaksOf(binding, '', q))
      granted.push(...clusterRoleRules(world, binding.roleRef.name, binding.roleRef.kind, []))
  }
  for (const binding of world.roleBindings) {
    const home = binding.metadata.namespace ?? ''
    if (!q.namespace || home !== q.namespace || !speaksOf(binding, home, q)) continue
    if (binding.roleRef.kind === 'Role') {
      const role = world.roles.find((r) => r.metadata.name === binding.roleRef.name && r.metadata.namespace === home)
      granted.push(...(role?.rules ?? []))
    } else granted.push(...clusterRoleRules(world, binding.roleRef.name, binding.roleRef.kind, []))
  }
  return granted.some((rule) => coversQuestion(rule, q))
}

function clusterRoleRules(world: World, name: string, kind: string, seen: string[]): Rule[] {
  const role = world.clusterRoles.find((r) => r.metadata.name === name)
  if (kind !== 'ClusterRole' || role === undefined || seen.includes(name)) return []
  if (role.aggregationRule === undefined) return role.rules ?? []
  const selectors = role.aggregationRule.clusterRoleSelectors
  return world.clusterRoles
    .filter((other) =>
      selectors.some((s) => Object.entries(s.matchLabels).every(([k, v]) => other.metadata.labels?.[k] === v)),
    )
    .flatMap((other) => clusterRoleRules(world, other.metadata.name, 'ClusterRole', [...seen, name]))
}

function speaksOf(binding: BindingObject, home: string, q: Question): boolean {
  return (binding.subjects ?? []).some((s) => {
    switch (s.kind) {
      case 'User':
        return s.name === q.user
      case 'Group':
        return q.groups.includes(s.name)
      case 'ServiceAccount': {
        const namespace = s.namespace || home
        return namespace !== '' && q.user === ['system', 'serviceaccount', namespace, s.name].join(':')
      }
      default:
        return false
    }
  })
}

function coversQuestion(rule: Rule, q: Question): boolean {
  const has = (list: string[] | undefined, ...wanted: string[]) => wanted.some((w) => (list ?? []).indexOf(w) >= 0)
  if (!has(rule.verbs, '*', q.verb)) return false
  if (q.path !== undefined) {
    const path = q.path
    return (rule.nonResourceURLs ?? []).some((u) => {
      const star = u.indexOf('*')
      return star === -1 ? u === path : star === u.length - 1 && path.slice(0, star) === u.slice(0, star)
    })
  }
  const [, sub] = (q.resource ?? '').split('/')
  const resources = ['*', q.resource ?? '', ...(sub === undefined ? [] : [`*/${sub}`])]
  if (!has(rule.apiGroups, '*', q.group ?? '') || !has(rule.resources, ...resources)) return false
  return (rule.resourceNames ?? []).length === 0 || has(rule.resourceNames, q.name ?? '')
}
