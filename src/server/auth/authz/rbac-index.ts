/**
 * All roles and bindings at one moment, indexed by subject, so that the cost of a decision depends only on the caller's
 * roles and not on all roles of the cluster. A role is compiled once, when a caller that is bound to it first makes a
 * request.
 */
import { getOrMake, oncePer } from '../../../support/memo.js'
import { LoopSlice, turns } from '../../../support/turns.js'
import type { User } from '../user.js'
import { CompiledRule } from './compiled-rule.js'
import {
  type Binding,
  type LabelSelector,
  matchesLabels,
  type PolicyRule,
  type Role,
  type Subject,
} from './rbac-types.js'

/** Small sets of roles are read and compiled without a pause, within one iteration of the event loop. */
const slice = new LoopSlice()

/** All objects of each kind. An unchanged object should be the same JavaScript object in the next call. */
export interface RbacObjects {
  readonly roles: readonly Role[]
  readonly clusterRoles: readonly Role[]
  readonly roleBindings: readonly Binding[]
  readonly clusterRoleBindings: readonly Binding[]
}

export interface Grant {
  readonly binding: Binding
  readonly subject: Subject
  /** The position that restores the API server's order of evaluation. */
  readonly order: number
}

/**
 * The rules of a role. They are compiled on first use, yielding to the event loop, because a role may have ten thousand
 * rules.
 */
export class RoleRules {
  #compiled: readonly CompiledRule[] | null = null

  constructor(readonly rules: readonly PolicyRule[]) {}

  /** null until compiled. */
  get compiled(): readonly CompiledRule[] | null {
    return this.#compiled
  }

  async compile(): Promise<readonly CompiledRule[]> {
    const compiled: CompiledRule[] = []
    for (const rule of this.rules) {
      if (slice.isOver) await turns.take()
      compiled.push(new CompiledRule(rule))
    }
    return (this.#compiled = compiled)
  }
}

/**
 * One walk over a caller's roles. If roles aggregate each other and are all bound to one caller, they lead to the same
 * rules many times. The walk visits each role once, so the cost of a decision grows with the sum of the roles and not
 * with their product.
 */
export class RoleWalk {
  readonly roles = new Set<Role>()
  readonly selections = new Set<readonly Role[]>()
}

export class RbacIndex {
  /** Grants by namespace ('' for ClusterRoleBindings), then by subject. */
  readonly #bindings = new Map<string, Map<string, Grant[]>>()
  readonly #roles = new Map<string, Role>()
  /** The roles that a selector matches, by the selector's text. Many roles may share a selector. */
  readonly #selected = new Map<string, readonly Role[]>()

  private constructor(
    private readonly clusterRoles: readonly Role[],
    private readonly isAggregating: boolean,
  ) {}

  /**
   * Builds the index, yielding to the event loop.
   *
   * @param isAggregating whether aggregation rules are evaluated here, because no controller fills in the rules of
   * aggregated roles.
   */
  static async of(objects: RbacObjects, isAggregating: boolean): Promise<RbacIndex> {
    const index = new RbacIndex(objects.clusterRoles, isAggregating)
    for (const role of objects.clusterRoles) {
      if (slice.isOver) await turns.take()
      index.#roles.set(`ClusterRole ${role.name}`, role)
    }
    for (const role of objects.roles) {
      if (slice.isOver) await turns.take()
      if (role.namespace !== '') index.#roles.set(`Role ${role.namespace}/${role.name}`, role)
    }
    let order = 0
    for (const binding of objects.clusterRoleBindings) {
      if (slice.isOver) await turns.take()
      order = index.#add({ ...binding, namespace: '' }, order)
    }
    for (const binding of objects.roleBindings) {
      if (slice.isOver) await turns.take()
      // Without a namespace, a RoleBinding would be as strong as a ClusterRoleBinding.
      if (binding.namespace !== '') order = index.#add(binding, order)
    }
    return index
  }

  /**
   * Yields the bindings of a user that apply in a namespace ('' for none) in the API server's order: cluster-wide
   * bindings first.
   */
  *grants(user: User, namespace: string): Generator<Grant> {
    const subjects = [`User ${user.name}`, ...user.groups.map((group) => `Group ${group}`)]
    for (const place of namespace === '' ? [''] : ['', namespace]) {
      const bySubject = this.#bindings.get(place)
      if (bySubject === undefined) continue
      yield* subjects.flatMap((subject) => bySubject.get(subject) ?? []).sort((a, b) => a.order - b.order)
    }
  }

  /**
   * Returns the rules of a role. These are its own rules, or, if aggregation is evaluated here and the role aggregates
   * others, the rules of every role that it reaches. An aggregated role among them contributes only the rules of the
   * roles that it selects.
   *
   * @param namespace the namespace of the binding that refers to the role; '' for none.
   * @param walk the roles that have already been visited, which are left out.
   * @returns undefined when there is no such role.
   */
  rulesOf(
    kind: string,
    name: string,
    namespace: string,
    walk: RoleWalk = new RoleWalk(),
  ): readonly RoleRules[] | undefined {
    const role = this.#roles.get(kind === 'Role' ? `Role ${namespace}/${name}` : `${kind} ${name}`)
    if (role === undefined) return undefined
    if (walk.roles.has(role)) return []
    walk.roles.add(role)
    return role.aggregates === null || !this.isAggregating ? [rulesOfRole(role)] : this.#aggregate(role, walk)
  }

  #aggregate(role: Role, walk: RoleWalk): readonly RoleRules[] {
    const found: RoleRules[] = []
    const leading = [role]
    // The loop also visits roles that are added while it runs, so it ends when no new role is found.
    for (const { aggregates } of leading) {
      for (const selector of aggregates ?? []) {
        const roles = this.#select(selector)
        if (walk.selections.has(roles)) continue
        walk.selections.add(roles)
        for (const one of roles) {
          if (walk.roles.has(one)) continue
          walk.roles.add(one)
          if (one.aggregates === null) found.push(rulesOfRole(one))
          else leading.push(one)
        }
      }
    }
    return found
  }

  #select(selector: LabelSelector): readonly Role[] {
    const select = (): readonly Role[] => this.clusterRoles.filter((role) => matchesLabels(selector, role.labels))
    return getOrMake(this.#selected, selector.text, select)
  }

  /** @returns the next order. */
  #add(binding: Binding, order: number): number {
    const bySubject = getOrMake(this.#bindings, binding.namespace, () => new Map<string, Grant[]>())
    const seen = new Set<string>()
    for (const subject of binding.subjects) {
      const key = subjectKey(subject, binding.namespace)
      if (key === null || seen.has(key)) continue
      seen.add(key)
      getOrMake(bySubject, key, () => []).push({ binding, subject, order: order++ })
    }
    return order
  }
}

const rulesOfRole = oncePer(({ rules }: Role) => new RoleRules(rules))

/** Returns null for a subject that can match no user. */
function subjectKey({ kind, name, namespace }: Subject, bindingNamespace: string): string | null {
  if (kind === 'User' || kind === 'Group') return name === '' ? null : `${kind} ${name}`
  if (kind !== 'ServiceAccount') return null
  const home = namespace === '' ? bindingNamespace : namespace
  return home === '' || name === '' ? null : `User system:serviceaccount:${home}:${name}`
}
