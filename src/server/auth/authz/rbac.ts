/**
 * The RBAC mode: evaluates Roles and bindings as the API server does. A source watches and holds these objects.
 *
 * Permissions only add up; no rule denies. The index is rebuilt at the first request after a change, yielding to the
 * event loop. A request is decided by an index that is no older than the request. As in the API server, an aggregated
 * ClusterRole grants the rules that its controller has stored in it. If no controller runs, the aggregation rule is
 * evaluated here. `escalation.ts` decides who may grant permissions.
 *
 * Source: the API server's RBAC authorizer (rule matching, subjects, order) and the Kubernetes RBAC reference.
 */
import { ServiceUnavailableError } from '../../../kubernetes/model/status.js'
import { SingleFlight } from '../../../support/single-flight.js'
import type { User } from '../user.js'
import { PRIVILEGED_GROUP } from '../user.js'
import { type Attributes, type Authorizer, type Decision, EVERY_RULE, type UserRules } from './authorizer.js'
import { RbacIndex, type RbacObjects, type RoleRules, RoleWalk } from './rbac-index.js'
import type { Binding, Subject } from './rbac-types.js'

export interface RbacSource {
  /** Why no request can be judged; null while all four kinds can be read. */
  readonly unread: string | null
  /** All objects at the moment of the call. */
  list(): Promise<RbacObjects>
  onChange(listener: () => void): () => void
}

export interface RbacRulesOptions {
  /** Whether aggregated ClusterRoles are evaluated here, because no controller fills them. Default: false. */
  readonly isAggregating?: boolean
}

/** The index of the source's objects. */
export class RbacRules {
  #index: RbacIndex | null = null
  #changes = 0
  /** The index being built, and the number of changes it includes. */
  #running: { readonly changes: number; readonly index: Promise<RbacIndex> } | null = null
  readonly #isAggregating: boolean
  readonly #stale: () => void
  readonly #making = new SingleFlight(() => this.#make())

  constructor(
    private readonly source: RbacSource,
    { isAggregating = false }: RbacRulesOptions = {},
  ) {
    this.#isAggregating = isAggregating
    this.#stale = source.onChange(() => {
      this.#index = null
      this.#changes++
    })
  }

  /** Why there is no index; null while there is one. */
  get unread(): string | null {
    return this.source.unread
  }

  /** Returns an index of the source's state at the time of the call or later; null while the source cannot be read. */
  async index(): Promise<RbacIndex | null> {
    if (this.unread !== null) return null
    if (this.#index !== null) return this.#index
    return await (this.#running?.changes === this.#changes ? this.#running.index : this.#making.join())
  }

  async #make(): Promise<RbacIndex> {
    const changes = this.#changes
    const index = this.source.list().then((objects) => RbacIndex.of(objects, this.#isAggregating))
    this.#running = { changes, index }
    try {
      const made = await index
      if (this.#changes === changes) this.#index = made
      return made
    } finally {
      this.#running = null
    }
  }

  onChange(listener: () => void): () => void {
    return this.source.onChange(listener)
  }

  close(): void {
    this.#stale()
  }
}

export function rbac(rules: RbacRules): Authorizer {
  return {
    changesSilently: false,
    async authorize(user, attributes) {
      if (user.groups.includes(PRIVILEGED_GROUP)) {
        return { allowed: true, reason: '', rule: `RBAC: member of ${PRIVILEGED_GROUP}` }
      }
      const index = await rules.index()
      // This is not a 403, because a 403 would make a client that reconnects after a restart give up its watch.
      if (index === null) throw new ServiceUnavailableError(unread(rules), { details: { retryAfterSeconds: 1 } })
      return await decide(index, user, attributes)
    },
    async rulesFor(user, namespace) {
      if (user.groups.includes(PRIVILEGED_GROUP)) return EVERY_RULE
      const index = await rules.index()
      if (index !== null) return rulesOf(index, user, namespace)
      return { resourceRules: [], nonResourceRules: [], incomplete: true, evaluationError: unread(rules) }
    },
    onChange: (listener) => rules.onChange(listener),
    close: () => {},
  }
}

export const NOT_YET_READ = 'roles and bindings have not been read yet'

function unread(rules: RbacRules): string {
  return `RBAC: ${rules.unread ?? NOT_YET_READ}`
}

/** The most rules in a response, because callers can create any number of them. */
const MAX_LISTED_RULES = 10_000

function rulesOf(index: RbacIndex, user: User, namespace: string): UserRules {
  const problems: string[] = []
  const roles: RoleRules[] = []
  const walk = new RoleWalk()
  let count = 0
  for (const { binding } of index.grants(user, namespace)) {
    const found = index.rulesOf(binding.roleKind, binding.roleName, binding.namespace, walk)
    if (found === undefined) problems.push(missingRole(binding))
    for (const role of found ?? []) {
      count += role.rules.length
      if (count <= MAX_LISTED_RULES) roles.push(role)
    }
  }
  if (count > MAX_LISTED_RULES) problems.push(`there are more than ${MAX_LISTED_RULES} rules`)
  const rules = roles.flatMap((role) => role.rules)
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
    incomplete: problems.length > 0,
    ...(problems.length === 0 ? {} : { evaluationError: listed(problems) }),
  }
}

async function decide(index: RbacIndex, user: User, attributes: Attributes): Promise<Decision> {
  const missing: string[] = []
  const walk = new RoleWalk()
  for (const { binding, subject } of index.grants(user, attributes.namespace)) {
    const rules = index.rulesOf(binding.roleKind, binding.roleName, binding.namespace, walk)
    if (rules === undefined) missing.push(missingRole(binding))
    for (const role of rules ?? []) {
      const compiled = role.compiled ?? (await role.compile())
      if (!compiled.some((rule) => rule.allows(attributes))) continue
      return { allowed: true, reason: '', rule: explain(binding, subject) }
    }
  }
  return { allowed: false, reason: missing.length === 0 ? '' : `RBAC: ${listed(missing)}`, rule: null }
}

function missingRole({ roleKind, roleName }: Binding): string {
  const plural = roleKind === 'Role' ? 'role' : 'clusterrole'
  return `${plural}.rbac.authorization.k8s.io ${JSON.stringify(roleName)} not found`
}

/** Returns several errors as one text, in the API server's words. */
export function listed(problems: readonly string[]): string {
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
