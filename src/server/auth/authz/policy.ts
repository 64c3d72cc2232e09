/**
 * The Policy mode: rules in a YAML file, for servers without an API server to ask or Roles to read. `docs/guide/policy.md`
 * describes it, with examples.
 *
 * Rules only grant permissions. A request that no rule allows is refused. A star alone matches everything; a star at
 * the end of a name, a namespace or a path matches any continuation. There are no other patterns, because their effect
 * cannot be seen at a glance. `verbs` are required, and so are `apiGroups` together with `resources`, so that a
 * forgotten line never grants more than was meant.
 */
import { isMap, isScalar, isSeq, type Node, offsetOf, parseYaml } from '../../../support/yaml.js'

import { keyName } from '../../../support/key-name.js'
import { ALL_UNAUTHENTICATED, type User } from '../user.js'
import type { WatchedFiles } from '../watched-file.js'
import type { Attributes, Authorizer } from './authorizer.js'

export interface PolicyFileRule {
  readonly name: string
  readonly users: readonly string[]
  readonly groups: readonly string[]
  readonly verbs: readonly string[]
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  /** null means every single namespace, requests for all namespaces, and cluster-scoped resources. */
  readonly namespaces: readonly string[] | null
  readonly names: readonly string[] | null
  readonly paths: readonly string[]
}

/** @param rules `--authorization-policy-file`, read again when it changes. */
export function policy(rules: WatchedFiles<readonly PolicyFileRule[]>): Authorizer {
  return {
    changesSilently: false,
    async authorize(user, attributes) {
      const rule = rules.value.find((one) => unmetBy(one, user, attributes) === null)
      return { allowed: rule !== undefined, reason: '', rule: rule === undefined ? null : `Policy: ${rule.name}` }
    },
    async rulesFor(user, namespace) {
      const own = rules.value.filter(
        (rule) => isFor(rule, user) && (rule.namespaces === null || matchesOne(rule.namespaces, namespace)),
      )
      return {
        resourceRules: own
          .filter(({ resources }) => resources.length > 0)
          .map(({ verbs, apiGroups, resources, names }) => ({
            verbs,
            apiGroups,
            resources,
            ...(names === null ? {} : { resourceNames: names }),
          })),
        nonResourceRules: own
          .filter(({ paths }) => paths.length > 0)
          .map(({ verbs, paths }) => ({ verbs, nonResourceURLs: paths })),
        incomplete: false,
      }
    },
    onChange: (listener) => rules.onChange(listener),
    close: () => rules.close(),
  }
}

function isFor(rule: PolicyFileRule, user: User): boolean {
  // "*" means every authenticated user. Anonymous callers must be named: system:anonymous, system:unauthenticated.
  const everybody = rule.users.includes('*') && !user.groups.includes(ALL_UNAUTHENTICATED)
  return everybody || rule.users.includes(user.name) || user.groups.some((group) => rule.groups.includes(group))
}

/** The parts of a rule, in the order in which a decision checks them. */
export type RulePart = 'who' | 'verbs' | 'resources' | 'apiGroups' | 'namespaces' | 'names' | 'paths'

/** Returns the first part of a rule that does not match a request; null when the rule allows it. */
export function unmetBy(rule: PolicyFileRule, user: User, attributes: Attributes): RulePart | null {
  if (!isFor(rule, user)) return 'who'
  if (!covers(rule.verbs, attributes.verb)) return 'verbs'
  if (!attributes.isResourceRequest) {
    return rule.paths.some((pattern) => covered(pattern, attributes.path)) ? null : 'paths'
  }
  const { group, resource, subresource, namespace, name, namesFrom } = attributes
  const wanted = subresource === '' ? resource : `${resource}/${subresource}`
  const isResource = (one: string): boolean =>
    one === '*' || one === wanted || (subresource !== '' && one === `*/${subresource}`)
  if (!rule.resources.some(isResource)) return 'resources'
  if (!covers(rule.apiGroups, group)) return 'apiGroups'
  if (rule.namespaces !== null && !matchesOne(rule.namespaces, namespace)) return 'namespaces'
  if (rule.names !== null && !matchesOne(rule.names, name) && !coversAll(rule.names, namesFrom)) return 'names'
  return null
}

function covers(allowed: readonly string[], wanted: string): boolean {
  return allowed.includes('*') || allowed.includes(wanted)
}

/** A request for all namespaces has the namespace '', which only "*" matches, because no pattern is empty. */
function matchesOne(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) => covered(pattern, text))
}

/** Whether one of the patterns covers every name with this prefix. */
function coversAll(patterns: readonly string[], namesFrom: string | undefined): boolean {
  if (namesFrom === undefined) return false
  return patterns.some((pattern) => pattern.endsWith('*') && namesFrom.startsWith(pattern.slice(0, -1)))
}

function covered(pattern: string, text: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : pattern === text
}

const LISTS = ['users', 'groups', 'verbs', 'apiGroups', 'resources', 'namespaces', 'names', 'paths'] as const
type ListName = (typeof LISTS)[number]

/** @throws Error that lists every problem with its line: A policy with one unreadable line is not used at all. */
export function parsePolicy(text: string): readonly PolicyFileRule[] {
  const { document, lines } = parseYaml(text, { uniqueKeys: true })
  const problems: string[] = []
  const problem = (offset: number, message: string): void =>
    void problems.push(`line ${lines.linePos(offset).line}: ${message}`)
  for (const error of document.errors) problem(error.pos[0], error.message)
  const rules: PolicyFileRule[] = []
  if (problems.length === 0) {
    const root: Node | null = document.contents
    if (!isMap<Node, Node | null>(root)) problem(0, 'the file must contain one mapping with the key "rules"')
    else {
      for (const { key } of root.items) {
        if (!isScalar(key) || key.value !== 'rules')
          problem(offsetOf(key), `unknown key ${nameOf(key)}; the only key is "rules"`)
      }
      const list = root.items.find(({ key }) => isScalar(key) && key.value === 'rules')?.value ?? null
      if (!isSeq<Node>(list)) problem(offsetOf(list ?? root), 'rules must be a list')
      else {
        for (const [index, item] of list.items.entries()) {
          const rule = parseRule(item, index, problem)
          if (rule !== null) rules.push(rule)
        }
      }
    }
  }
  if (problems.length > 0) throw new Error(problems.join('\n'))
  return rules
}

function parseRule(
  item: Node,
  index: number,
  problem: (offset: number, message: string) => void,
): PolicyFileRule | null {
  if (!isMap<Node, Node | null>(item)) {
    problem(offsetOf(item), 'a rule must be a mapping')
    return null
  }
  let name = `rule ${index + 1}`
  const lists = new Map<ListName, readonly string[]>()
  for (const { key, value } of item.items) {
    const field = LISTS.find((one) => isScalar(key) && key.value === one)
    if (field === undefined) {
      if (!isScalar(key) || key.value !== 'name') problem(offsetOf(key), `unknown key ${nameOf(key)}`)
      else if (isScalar(value) && typeof value.value === 'string') name = value.value
      else problem(offsetOf(key), 'name must be a string')
      continue
    }
    const texts = textsOf(value)
    if (texts === null) problem(offsetOf(key), `${field} must be a non-empty list of strings`)
    else {
      lists.set(field, texts)
      for (const text of texts) {
        const wrong = badPattern(field, text)
        if (wrong !== null) problem(offsetOf(value ?? key), `${field}: ${JSON.stringify(text)} ${wrong}`)
      }
    }
  }
  const has = (field: ListName): boolean => lists.has(field)
  const at = offsetOf(item)
  if (!has('users') && !has('groups')) problem(at, 'a rule needs users or groups')
  if (!has('verbs')) problem(at, 'a rule needs verbs')
  if (has('resources') === has('paths')) problem(at, 'a rule needs either resources or paths')
  if (has('resources') && !has('apiGroups'))
    problem(at, 'resources need apiGroups: "" is the core group, "*" means all groups')
  if (has('paths') && (has('apiGroups') || has('namespaces') || has('names'))) {
    problem(at, 'apiGroups, namespaces and names cannot be combined with paths')
  }
  const list = (field: ListName): readonly string[] => lists.get(field) ?? []
  return {
    name,
    users: list('users'),
    groups: list('groups'),
    verbs: list('verbs'),
    apiGroups: list('apiGroups'),
    resources: list('resources'),
    namespaces: lists.get('namespaces') ?? null,
    names: lists.get('names')?.map(spelled) ?? null,
    paths: list('paths'),
  }
}

/** Converts a pattern for keys under a declared prefix into one for their names, which cannot contain a slash. */
function spelled(pattern: string): string {
  if (!pattern.includes('/')) return pattern
  return pattern.endsWith('*') ? `${keyName(pattern.slice(0, -1))}*` : keyName(pattern)
}

const STAR_AT_END: readonly ListName[] = ['namespaces', 'names', 'paths']

/** Returns what is wrong with a pattern, or null. */
function badPattern(field: ListName, text: string): string | null {
  if (text === '' && field !== 'apiGroups') return 'is empty'
  if (field === 'paths' && text !== '*' && !text.startsWith('/')) return 'must begin with "/"'
  if (text === '*') return field === 'groups' ? 'is not allowed as a group: for all callers, write users: ["*"]' : null
  const star = text.indexOf('*')
  if (star === -1 || (field === 'resources' && text.startsWith('*/') && text.lastIndexOf('*') === 0)) return null
  return STAR_AT_END.includes(field) && star === text.length - 1 ? null : 'has a "*" where none is allowed'
}

function textsOf(value: Node | null): readonly string[] | null {
  if (!isSeq<Node>(value) || value.items.length === 0) return null
  const texts = value.items.map((item) => (isScalar(item) && typeof item.value === 'string' ? item.value : null))
  return texts.every((text) => text !== null) ? texts : null
}

function nameOf(key: Node): string {
  return isScalar(key) ? JSON.stringify(key.value) : 'a key that is not a string'
}
