/**
 * The RBAC mode: evaluates Roles and bindings as the API server does. The objects are watched elsewhere.
 *
 * Rules only grant; there is no deny. Bindings are indexed by subject, so that a decision costs as much as the caller
 * has bindings, not as much as the cluster has. The index is built again at the first question after a change. An
 * aggregated ClusterRole is computed here from the labels, as the cluster's controller would write it: a plain etcd has
 * no controller, and in a real cluster the two agree a moment later. Escalation checks are not made, since this server
 * only reads roles.
 *
 * Source: the API server's RBAC authorizer (rule matching, subjects, order) and the Kubernetes RBAC reference.
 */
import type { User } from '../user.js'
import { PRIVILEGED_GROUP } from '../user.js'
import { type Attributes, type Authorizer, type Decision, EVERY_RULE, type UserRules } from './authorizer.js'
import {
  type Binding,
  matchesLabels,
  parseBinding,
  parseRole,
  type PolicyRule,
  type Role,
  type Subject,
} from './rbac-types.js'

/** All objects of each kind, as parsed JSON. */
export interface RbacObjects {
  readonly roles: readonly unknown[]
  readonly clusterRoles: readonly unknown[]
  readonly roleBindings: readonly unknown[]
  readonly clusterRoleBindings: readonly unknown[]
}

export interface RbacSource {
  /** Returns null until all four kinds have been listed. Until then every request is refused. */
  list(): RbacObjects | null
  onChange(listener: () => void): () => void
}

interface Index {
  /** Grants by namespace ('' for ClusterRoleBindings), then by subject. */
  readonly bindings: ReadonlyMap<string, ReadonlyMap<string, readonly Grant[]>>
  readonly roles: ReadonlyMap<string, readonly PolicyRule[]>
}

interface Grant {
  readonly binding: Binding
  readonly subject: Subject
  /** The position that restores the API server's order of evaluation. */
  readonly order: number
}

export function rbac(source: RbacSource): Authorizer {
  let index: Index | null = null
  const stale = source.onChange(() => {
    index = null
  })
  const current = (): Index | null => {
    const objects = index === null ? source.list() : null
    if (objects !== null) index = buildIndex(objects)
    return index
  }
  return {
    changesSilently: false,
    async authorize(user, attributes) {
      if (user.groups.includes(PRIVILEGED_GROUP)) {
        return { allowed: true, reason: '', rule: `RBAC: member of ${PRIVILEGED_GROUP}` }
      }
      const now = current()
      return now === null ? { allowed: false, reason: UNREAD, rule: null } : decide(now, user, attributes)
    },
    async rulesFor(user, namespace) {
      if (user.groups.includes(PRIVILEGED_GROUP)) return EVERY_RULE
      const now = current()
      return now === null
        ? { resourceRules: [], nonResourceRules: [], incomplete: true, evaluationError: UNREAD }
        : rulesOf(now, user, namespace)
    },
    onChange: (listener) => source.onChange(listener),
    close: stale,
  }
}

const UNREAD = 'RBAC: roles and bindings have not been read yet'

/** Returns what bindings grant the user there, in the order in which they are asked. */
function grantsOf(index: Index, user: User, namespace: string): readonly Grant[] {
  const bySubject = index.bindings.get(namespace)
  if (bySubject === undefined) return []
  return [`User ${user.name}`, ...user.groups.map((group) => `Group ${group}`)]
    .flatMap((subject) => bySubject.get(subject) ?? [])
    .sort((a, b) => a.order - b.order)
}

function rulesOf(index: Index, user: User, namespace: string): UserRules {
  const missing: string[] = []
  const rules = ['', namespace].flatMap((place) =>
    grantsOf(index, user, place).flatMap(({ binding }) => {
      const found = index.roles.get(roleKey(binding))
      if (found === undefined) missing.push(missingRole(binding))
      return found ?? []
    }),
  )
  return {
    resourceRules: rules
      .filter(({ resources }) => resources.length > 0)
      .map(({ verbs, apiGroups, resources, resourceNames }) => ({
        verbs,
        apiGroups,
        resources,
        ...(resourceNames.length === 0 ? {} : { resourceNames }),
      })),
    nonResourceRules: rules
      .filter(({ nonResourceURLs }) => nonResourceURLs.length > 0)
      .map(({ verbs, nonResourceURLs }) => ({ verbs, nonResourceURLs })),
    incomplete: missing.length > 0,
    ...(missing.length === 0 ? {} : { evaluationError: listed(missing) }),
  }
}

function decide(index: Index, user: User, attributes: Attributes): Decision {
  const missing: string[] = []
  const namespaces = attributes.namespace === '' ? [''] : ['', attributes.namespace]
  for (const namespace of namespaces) {
    for (const { binding, subject } of grantsOf(index, user, namespace)) {
      const rules = index.roles.get(roleKey(binding))
      if (rules === undefined) missing.push(missingRole(binding))
      else if (rules.some((rule) => ruleAllows(rule, attributes))) {
        return { allowed: true, reason: '', rule: explain(binding, subject) }
      }
    }
  }
  return { allowed: false, reason: missing.length === 0 ? '' : `RBAC: ${listed(missing)}`, rule: null }
}

/** Whether one rule covers the request. Exported so that tests can check a table of cases. */
export function ruleAllows(rule: PolicyRule, attributes: Attributes): boolean {
  if (!matches(rule.verbs, attributes.verb)) return false
  if (!attributes.isResourceRequest)
    return rule.nonResourceURLs.some((pattern) => matchesPath(pattern, attributes.path))
  return (
    matches(rule.apiGroups, attributes.group) &&
    matchesResource(rule.resources, attributes) &&
    (rule.resourceNames.length === 0 || rule.resourceNames.includes(attributes.name))
  )
}

function matches(allowed: readonly string[], wanted: string): boolean {
  return allowed.some((one) => one === '*' || one === wanted)
}

/**
 * `pods` does not cover `pods/log`. `*` covers everything, subresources included. The only other use of a star is a
 * subresource of any resource: `*\/scale`.
 */
function matchesResource(allowed: readonly string[], { resource, subresource }: Attributes): boolean {
  const wanted = subresource === '' ? resource : `${resource}/${subresource}`
  return allowed.some((one) => one === '*' || one === wanted || (subresource !== '' && one === `*/${subresource}`))
}

/** A star counts only at the end of the pattern. */
function matchesPath(pattern: string, path: string): boolean {
  if (pattern === '*' || pattern === path) return true
  return pattern.endsWith('*') && path.startsWith(pattern.replace(/\*+$/, ''))
}

function buildIndex(objects: RbacObjects): Index {
  const clusterRoles = objects.clusterRoles.map(parseRole).filter((role) => role !== null)
  const roles = new Map<string, readonly PolicyRule[]>()
  for (const role of clusterRoles) roles.set(`ClusterRole ${role.name}`, effectiveRules(role, clusterRoles))
  for (const role of objects.roles.map(parseRole)) {
    if (role !== null && role.namespace !== '') roles.set(`Role ${role.namespace}/${role.name}`, role.rules)
  }
  const bindings = new Map<string, Map<string, Grant[]>>()
  let order = 0
  const add = (binding: Binding): void => {
    const bySubject = bindings.get(binding.namespace) ?? new Map<string, Grant[]>()
    bindings.set(binding.namespace, bySubject)
    const seen = new Set<string>()
    for (const subject of binding.subjects) {
      const key = subjectKey(subject, binding.namespace)
      if (key === null || seen.has(key)) continue
      seen.add(key)
      const grants = bySubject.get(key) ?? []
      grants.push({ binding, subject, order: order++ })
      bySubject.set(key, grants)
    }
  }
  for (const object of objects.clusterRoleBindings) {
    const binding = parseBinding(object)
    if (binding !== null) add({ ...binding, namespace: '' })
  }
  for (const object of objects.roleBindings) {
    const binding = parseBinding(object)
    // Without a namespace, a RoleBinding would be as strong as a ClusterRoleBinding.
    if (binding !== null && binding.namespace !== '') add(binding)
  }
  return { bindings, roles }
}

/**
 * Returns the rules of every role that the labels lead to. A role that is itself aggregated contributes only the roles
 * it leads to.
 */
function effectiveRules(role: Role, clusterRoles: readonly Role[]): readonly PolicyRule[] {
  if (role.aggregates === null) return role.rules
  const reached = new Set<Role>([role])
  // The iteration of a Set visits the items added meanwhile, so this ends when nothing new is found.
  for (const current of reached) {
    for (const candidate of clusterRoles) {
      if (current.aggregates?.some((selector) => matchesLabels(selector, candidate.labels))) reached.add(candidate)
    }
  }
  return [...reached].filter((one) => one.aggregates === null).flatMap((one) => one.rules)
}

/** Returns null for a subject that cannot be anybody. */
function subjectKey({ kind, name, namespace }: Subject, bindingNamespace: string): string | null {
  if (kind === 'User' || kind === 'Group') return name === '' ? null : `${kind} ${name}`
  if (kind !== 'ServiceAccount') return null
  const home = namespace === '' ? bindingNamespace : namespace
  return home === '' || name === '' ? null : `User system:serviceaccount:${home}:${name}`
}

/**
 * Returns the key of the bound role. A RoleBinding refers to a Role in its namespace or to a ClusterRole, a
 * ClusterRoleBinding to a ClusterRole.
 */
function roleKey({ roleKind, roleName, namespace }: Binding): string {
  return roleKind === 'Role' ? `Role ${namespace}/${roleName}` : `${roleKind} ${roleName}`
}

function missingRole({ roleKind, roleName }: Binding): string {
  const plural = roleKind === 'Role' ? 'role' : 'clusterrole'
  return `${plural}.rbac.authorization.k8s.io ${JSON.stringify(roleName)} not found`
}

function listed(problems: readonly string[]): string {
  const distinct = [...new Set(problems)]
  return distinct.length === 1 ? distinct.join() : `[${distinct.join(', ')}]`
}

/** Words the reason as the API server's own audit annotation does. */
function explain(binding: Binding, subject: Subject): string {
  const where = binding.namespace === '' ? 'ClusterRoleBinding' : 'RoleBinding'
  const name = binding.namespace === '' ? binding.name : `${binding.name}/${binding.namespace}`
  const home = subject.namespace === '' ? binding.namespace : subject.namespace
  const whom = subject.kind === 'ServiceAccount' ? `${subject.name}/${home}` : subject.name
  return `RBAC: allowed by ${where} ${JSON.stringify(name)} of ${binding.roleKind} ${JSON.stringify(binding.roleName)} to ${subject.kind} ${JSON.stringify(whom)}`
}
