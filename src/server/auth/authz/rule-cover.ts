/**
 * Checks whether a caller's rules cover the rules that it wants to grant. The wanted rules are split into single
 * permissions, each of which a single held rule must cover. Permissions that no rule covers are reported in the API
 * server's words.
 *
 * A rule with a thousand verbs, resources and groups amounts to a billion permissions, so the comparison yields to
 * other work every few thousand steps, and gives up beyond a limit.
 *
 * Source: `Covers` of k8s.io/component-helpers, and how kube-apiserver reports its result.
 */
import type { CompiledRule } from './compiled-rule.js'
import { hasOrAll } from './compiled-rule.js'
import { turns } from '../../../support/turns.js'
import { goQuoted, goQuotedList } from './go-quoted.js'
import type { PolicyRule } from './rbac-types.js'

/** One verb on one resource, one named object, or one path. */
export interface Permission {
  readonly verb: string
  readonly group: string
  readonly resource: string
  /** null means any name, or none. */
  readonly name: string | null
  /** null for a permission on a resource. */
  readonly path: string | null
}

/** The number of steps between two readings of the clock; they take about a millisecond. */
const STEPS_PER_TURN = 10_000
const MAX_STEPS = 4_000_000
/** The most missing permissions that are reported. */
const MAX_MISSING = 1_000

export type Coverage =
  | { readonly kind: 'covered' }
  /** Sorted lines: one for each group, resource and name, or for each path. */
  | { readonly kind: 'missing'; readonly lines: readonly string[] }
  | { readonly kind: 'too-many' }

export async function coverage(held: readonly CompiledRule[], wanted: readonly PolicyRule[]): Promise<Coverage> {
  const missing = await missingPermissions(held, wanted)
  if (missing === null) return { kind: 'too-many' }
  return missing.length === 0 ? { kind: 'covered' } : { kind: 'missing', lines: describe(missing) }
}

/** Stops soon after it has found `MAX_MISSING` permissions. @returns null if there is too much to compare. */
export async function missingPermissions(
  held: readonly CompiledRule[],
  wanted: readonly PolicyRule[],
): Promise<readonly Permission[] | null> {
  const missing: Permission[] = []
  const budget = new Budget()
  const allResources = held.some(coversAllResources)
  const allPaths = held.some((rule) => rule.verbs.has('*') && rule.paths.coversAll)
  for (const rule of wanted) {
    for (const uncovered of [
      allResources ? [] : missingResources(held, rule, budget),
      allPaths ? [] : missingPaths(held, rule, budget),
    ]) {
      for (const permission of uncovered) {
        if (permission !== null) missing.push(permission)
        else if (turns.isOver) await turns.take()
        if (budget.isSpent || missing.length > MAX_MISSING) break
      }
    }
    if (budget.isSpent) return null
    if (missing.length > MAX_MISSING) break
  }
  return missing
}

/** Yields null now and then, so that its caller can let other work run. */
function* missingResources(
  held: readonly CompiledRule[],
  rule: PolicyRule,
  budget: Budget,
): Generator<Permission | null> {
  const names = rule.resourceNames.length === 0 ? [null] : rule.resourceNames
  for (const group of rule.apiGroups) {
    for (const resource of rule.resources) {
      const fitting: CompiledRule[] = []
      for (const one of held) {
        if (hasOrAll(one.apiGroups, group) && coversResource(one, resource)) fitting.push(one)
        if (budget.step()) yield null
      }
      for (const verb of rule.verbs) {
        const allowing = fitting.filter((one) => hasOrAll(one.verbs, verb))
        if (budget.step(fitting.length)) yield null
        for (const name of names) {
          if (budget.step(allowing.length)) yield null
          if (allowing.some((one) => one.names === null || (name !== null && one.names.has(name)))) continue
          yield { verb, group, resource, name, path: null }
        }
      }
    }
  }
}

function* missingPaths(held: readonly CompiledRule[], rule: PolicyRule, budget: Budget): Generator<Permission | null> {
  for (const path of rule.nonResourceURLs) {
    const fitting: CompiledRule[] = []
    for (const one of held) {
      if (one.paths.covers(path)) fitting.push(one)
      if (budget.step()) yield null
    }
    for (const verb of rule.verbs) {
      if (budget.step(fitting.length)) yield null
      if (fitting.some((one) => hasOrAll(one.verbs, verb))) continue
      yield { verb, group: '', resource: '', name: null, path }
    }
  }
}

function coversAllResources({ verbs, apiGroups, resources, names }: CompiledRule): boolean {
  return verbs.has('*') && apiGroups.has('*') && resources.has('*') && names === null
}

function coversResource({ resources }: CompiledRule, resource: string): boolean {
  if (resources.has('*') || resources.has(resource)) return true
  const slash = resource.indexOf('/')
  return slash !== -1 && resources.has(`*${resource.slice(slash)}`)
}

/** The budget of one comparison. */
class Budget {
  #steps = 0
  #turns = 0

  /** @returns whether it is time to let other work run. */
  step(count = 1): boolean {
    this.#steps += count + 1
    if (this.#steps < (this.#turns + 1) * STEPS_PER_TURN) return false
    this.#turns = Math.floor(this.#steps / STEPS_PER_TURN)
    return true
  }

  get isSpent(): boolean {
    return this.#steps > MAX_STEPS
  }
}

/** The verbs on one resource, or on one of its objects, share a line. */
function describe(missing: readonly Permission[]): readonly string[] {
  const verbs = new Map<string, string[]>()
  for (const { verb, group, resource, name, path } of missing) {
    if (path !== null) {
      verbs.set(`{NonResourceURLs:${goQuotedList([path])}, Verbs:${goQuotedList([verb])}}`, [])
      continue
    }
    const names = name === null ? '' : `, ResourceNames:${goQuotedList([name])}`
    const what = `{APIGroups:${goQuotedList([group])}, Resources:${goQuotedList([resource])}${names}`
    const known = verbs.get(what)
    if (known === undefined) verbs.set(what, [goQuoted(verb)])
    else known.push(goQuoted(verb))
  }
  const lines = [...verbs].map(([what, quoted]) =>
    quoted.length === 0 ? what : `${what}, Verbs:[${quoted.join(' ')}]}`,
  )
  lines.sort()
  return missing.length > MAX_MISSING ? [...lines, '…'] : lines
}
