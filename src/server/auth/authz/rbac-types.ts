/**
 * Roles and bindings, read from the JSON of `rbac.authorization.k8s.io/v1`. An object without the expected shape grants
 * nothing, because an authorizer that guesses may allow too much.
 */
import { field, listAt, textAt, textsAt } from '../../../support/fields.js'

export interface PolicyRule {
  readonly verbs: readonly string[]
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly resourceNames: readonly string[]
  readonly nonResourceURLs: readonly string[]
}

export interface Role {
  /** '' for a ClusterRole. */
  readonly namespace: string
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly rules: readonly PolicyRule[]
  /** null when the role does not aggregate others. */
  readonly aggregates: readonly LabelSelector[] | null
}

export interface Binding {
  /** '' for a ClusterRoleBinding. */
  readonly namespace: string
  readonly name: string
  readonly roleKind: string
  readonly roleName: string
  readonly subjects: readonly Subject[]
}

export interface Subject {
  readonly kind: string
  readonly name: string
  /** The namespace of a ServiceAccount; '' means the namespace of the binding. */
  readonly namespace: string
}

export interface LabelSelector {
  /** The selector as written. Equal texts select the same roles. */
  readonly text: string
  readonly matchLabels: Readonly<Record<string, string>>
  readonly matchExpressions: readonly {
    readonly key: string
    readonly operator: string
    readonly values: ReadonlySet<string>
  }[]
}

/** Returns null when the object is not a role. */
export function parseRole(object: unknown): Role | null {
  const metadata = field(object, 'metadata')
  const name = textAt(metadata, 'name')
  if (name === '') return null
  const aggregationRule = field(object, 'aggregationRule')
  return {
    namespace: textAt(metadata, 'namespace'),
    name,
    labels: textMap(field(metadata, 'labels')),
    rules: listAt(object, 'rules').map(parseRule),
    aggregates:
      typeof aggregationRule === 'object' && aggregationRule !== null
        ? listAt(aggregationRule, 'clusterRoleSelectors').map(parseSelector)
        : null,
  }
}

/** Returns null when the object is not a binding. */
export function parseBinding(object: unknown): Binding | null {
  const metadata = field(object, 'metadata')
  const roleRef = field(object, 'roleRef')
  const name = textAt(metadata, 'name')
  if (name === '') return null
  return {
    namespace: textAt(metadata, 'namespace'),
    name,
    roleKind: textAt(roleRef, 'kind'),
    roleName: textAt(roleRef, 'name'),
    subjects: listAt(object, 'subjects').map((subject) => ({
      kind: textAt(subject, 'kind'),
      name: textAt(subject, 'name'),
      namespace: textAt(subject, 'namespace'),
    })),
  }
}

/** An empty selector matches everything; an unknown operator matches nothing. */
export function matchesLabels(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  const value = (key: string): string | undefined => (Object.hasOwn(labels, key) ? labels[key] : undefined)
  return (
    Object.entries(selector.matchLabels).every(([key, wanted]) => value(key) === wanted) &&
    selector.matchExpressions.every(({ key, operator, values }) => {
      const held = value(key)
      if (operator === 'In') return held !== undefined && values.has(held)
      if (operator === 'NotIn') return held === undefined || !values.has(held)
      if (operator === 'Exists') return held !== undefined
      return operator === 'DoesNotExist' && held === undefined
    })
  )
}

function parseRule(rule: unknown): PolicyRule {
  return {
    verbs: textsAt(rule, 'verbs'),
    apiGroups: textsAt(rule, 'apiGroups'),
    resources: textsAt(rule, 'resources'),
    resourceNames: resourceNames(field(rule, 'resourceNames')),
    nonResourceURLs: textsAt(rule, 'nonResourceURLs'),
  }
}

/**
 * An empty list of names means every name, so an invalid name must not disappear from the list. It is replaced by a
 * name that no object has.
 */
function resourceNames(value: unknown): readonly string[] {
  if (value === undefined || value === null) return []
  if (!Array.isArray(value)) return [NOBODYS_NAME]
  return value.map((item: unknown) => (typeof item === 'string' ? item : NOBODYS_NAME))
}

const NOBODYS_NAME = '\0'

function parseSelector(selector: unknown): LabelSelector {
  return {
    text: JSON.stringify([selector]),
    matchLabels: textMap(field(selector, 'matchLabels')),
    matchExpressions: listAt(selector, 'matchExpressions').map((expression) => ({
      key: textAt(expression, 'key'),
      operator: textAt(expression, 'operator'),
      values: new Set(textsAt(expression, 'values')),
    })),
  }
}

function textMap(value: unknown): Readonly<Record<string, string>> {
  if (typeof value !== 'object' || value === null) return {}
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
