/**
 * Finds words in a policy that no request uses, although they look like ones that requests use: `lst`, `flag`. A rule
 * with such a word silently grants less than was meant. Custom resources and groups are unknown before they are defined,
 * so only a word that resembles a known one is reported.
 */
import { nearestName } from '../../../support/nearest-name.js'
import type { PolicyFileRule } from './policy.js'

const VERBS = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection']
const OTHER_VERBS = ['impersonate', 'escalate', 'bind', 'approve', 'sign', 'attest', 'use', 'proxy']
const METHODS = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options']
const VIRTUAL_GROUPS = ['authentication.k8s.io', 'authorization.k8s.io']
const VIRTUAL_RESOURCES = ['users', 'groups', 'uids', 'userextras', 'bindings', 'componentstatuses']

/** Many groups share this ending, so with it they would all look alike. */
const shortGroup = (name: string): string => name.replace(/\.k8s\.io$/, '')

/** @param known the resources and reviews that a server may serve. */
export function policyWarnings(
  rules: readonly PolicyFileRule[],
  known: readonly { readonly group: string; readonly plural: string }[],
): readonly string[] {
  const groups = [...VIRTUAL_GROUPS, ...known.map(({ group }) => group)]
  const resources = [...VIRTUAL_RESOURCES, ...known.map(({ plural }) => plural)]
  const check = (rule: PolicyFileRule, what: string, words: readonly string[], names: readonly string[]): string[] =>
    words.flatMap((word) => {
      const [base = ''] = word.split('/', 1)
      if (base === '' || base === '*' || names.includes(base)) return []
      const nearest = nearestName(shortGroup(base), names.map(shortGroup))
      const found = names.find((name) => nearest !== null && shortGroup(name) === nearest)
      return found === undefined ? [] : [`policy, ${rule.name}: ${what}: ${word} is unknown; did you mean ${found}?`]
    })
  return rules.flatMap((rule) => [
    ...check(
      rule,
      'verbs',
      rule.verbs.filter((verb) => !verb.startsWith('impersonate')),
      rule.paths.length > 0 ? METHODS : [...VERBS, ...OTHER_VERBS],
    ),
    ...check(rule, 'apiGroups', rule.apiGroups, groups),
    ...check(rule, 'resources', rule.resources, resources),
  ])
}
