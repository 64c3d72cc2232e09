/**
 * Prevents callers from granting more permissions than they have. To write a Role or ClusterRole, a caller needs every
 * permission that the role grants, or the verb `escalate` on the role. To write a binding, a caller needs every
 * permission of the bound role, or the verb `bind` on that role. To write a ClusterRole that aggregates others, a
 * caller needs permission for everything, because others decide later what the role aggregates.
 *
 * The configured authorizer decides `escalate` and `bind`; a caller's permissions are read from Roles and bindings that
 * are as fresh as etcd.
 *
 * Source: the policy-based storages of kube-apiserver's RBAC group.
 */
import { ForbiddenError, NotFoundError } from '../../../kubernetes/model/status.js'
import { PRIVILEGED_GROUP, type User } from '../user.js'
import { type Authorizer, resourceAttributes } from './authorizer.js'
import { CompiledRule } from './compiled-rule.js'
import { goQuoted, goQuotedList } from './go-quoted.js'
import { type RbacIndex, RoleWalk } from './rbac-index.js'
import { listed, type RbacRules } from './rbac.js'
import { parseBinding, parseRole, type PolicyRule } from './rbac-types.js'
import { coverage } from './rule-cover.js'

const GROUP = 'rbac.authorization.k8s.io'
const ROLES: ReadonlySet<string> = new Set(['roles', 'clusterroles'])
const BINDINGS: ReadonlySet<string> = new Set(['rolebindings', 'clusterrolebindings'])

/** A Role or binding that is about to be written. */
export interface RightsWrite {
  readonly plural: string
  readonly namespace: string
  /** The name in the path; '' for a create. */
  readonly pathName: string
  /** The current object as JSON; null if there is none. */
  readonly before: unknown
  /** The object after the write. */
  readonly after: unknown
}

/** Whether objects of a resource grant permissions. */
export function givesRights(resource: { readonly group: string; readonly plural: string }): boolean {
  return resource.group === GROUP && (ROLES.has(resource.plural) || BINDINGS.has(resource.plural))
}

const FULL_AUTHORITY: readonly PolicyRule[] = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'], resourceNames: [], nonResourceURLs: [] },
  { verbs: ['*'], apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: ['*'] },
]

export interface EscalationOptions {
  readonly authorizer: Pick<Authorizer, 'authorize'>
  /** null if Roles and bindings are not served and so grant nothing. */
  readonly rules: Pick<RbacRules, 'index'> | null
  /** Waits until the index is as fresh as etcd. @throws StatusError */
  readonly refresh: () => Promise<void>
}

export class EscalationCheck {
  constructor(private readonly options: EscalationOptions) {}

  /** @throws ForbiddenError in the API server's words; NotFoundError for a binding to a role that does not exist. */
  async confirm(user: User, write: RightsWrite): Promise<void> {
    if (user.groups.includes(PRIVILEGED_GROUP)) return
    if (ROLES.has(write.plural)) await this.#confirmRole(user, write)
    else await this.#confirmBinding(user, write)
  }

  async #confirmRole(user: User, write: RightsWrite): Promise<void> {
    const { plural, namespace, pathName } = write
    if (await this.#may(user, 'escalate', plural, namespace, pathName)) return
    const role = parseRole(write.after)
    const name = role?.name ?? ''
    await this.options.refresh()
    await this.#confirmRules(user, write, name, role?.rules ?? [])
    const gathers = [write.before, write.after].some((object) => (parseRole(object)?.aggregates ?? []).length > 0)
    if (plural !== 'clusterroles' || !gathers) return
    const full = await coverage(await this.#held(user, ''), FULL_AUTHORITY)
    if (full.kind !== 'covered')
      throw refused(write, name, 'must have cluster-admin privileges to use the aggregationRule')
  }

  async #confirmBinding(user: User, write: RightsWrite): Promise<void> {
    const { plural, namespace } = write
    const binding = parseBinding(write.after)
    const kind = binding?.roleKind ?? ''
    const roleName = binding?.roleName ?? ''
    const rolePlural = kind === 'Role' ? 'roles' : 'clusterroles'
    const isPossible = kind === 'ClusterRole' || (kind === 'Role' && plural === 'rolebindings')
    if (!isPossible) throw refused(write, binding?.name ?? '', `unsupported role reference kind: ${goQuoted(kind)}`)
    if (await this.#may(user, 'bind', rolePlural, namespace, roleName)) return
    await this.options.refresh()
    const rules = (await this.#index())?.rulesOf(kind, roleName, namespace)
    if (rules === undefined) {
      throw new NotFoundError(missingRole(kind, roleName), {
        details: { name: roleName, group: GROUP, kind: rolePlural },
      })
    }
    const wanted = rules.flatMap((role) => role.rules)
    await this.#confirmRules(user, write, binding?.name ?? '', wanted)
  }

  async #confirmRules(user: User, write: RightsWrite, name: string, wanted: readonly PolicyRule[]): Promise<void> {
    const unknown: string[] = []
    const found = await coverage(await this.#held(user, write.namespace, unknown), wanted)
    if (found.kind === 'covered') return
    const why =
      found.kind === 'too-many' ? 'it has too many rules to compare with those that you have' : found.lines.join('\n')
    const who = `user ${goQuoted(user.name)} (groups=${goQuotedList(user.groups)})`
    const lost = unknown.length === 0 ? '' : `; resolution errors: [${listed(unknown)}]`
    throw refused(write, name, `${who} is attempting to grant RBAC permissions not currently held:\n${why}${lost}`)
  }

  async #may(user: User, verb: string, plural: string, namespace: string, name: string): Promise<boolean> {
    const resource = { group: GROUP, version: '*', plural }
    const attributes = resourceAttributes({ verb, resource, namespace, name, path: '' })
    return (await this.options.authorizer.authorize(user, attributes)).allowed
  }

  /** @param unknown collects the problems of bindings to roles that do not exist. */
  async #held(user: User, namespace: string, unknown: string[] = []): Promise<readonly CompiledRule[]> {
    const index = await this.#index()
    if (index === null) return []
    const held: CompiledRule[] = []
    const walk = new RoleWalk()
    for (const { binding } of index.grants(user, namespace)) {
      const rules = index.rulesOf(binding.roleKind, binding.roleName, binding.namespace, walk)
      if (rules === undefined) unknown.push(missingRole(binding.roleKind, binding.roleName))
      for (const role of rules ?? []) for (const rule of role.compiled ?? (await role.compile())) held.push(rule)
    }
    return held
  }

  async #index(): Promise<RbacIndex | null> {
    return (await this.options.rules?.index()) ?? null
  }
}

function missingRole(kind: string, name: string): string {
  return `${kind === 'Role' ? 'roles' : 'clusterroles'}.${GROUP} ${goQuoted(name)} not found`
}

function refused({ plural }: RightsWrite, name: string, why: string): ForbiddenError {
  const what = name === '' ? `${plural}.${GROUP}` : `${plural}.${GROUP} ${goQuoted(name)}`
  return new ForbiddenError(`${what} is forbidden: ${why}`, {
    details: { ...(name === '' ? {} : { name }), group: GROUP, kind: plural },
  })
}
