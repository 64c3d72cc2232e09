/**
 * Reconciles Kubernetes' own Roles and bindings: computes how a stored one must change to grant at least what the
 * release's own does. As in the API server, permissions, subjects, labels and annotations are added and never removed,
 * a binding to another role is replaced, and the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"`
 * protects an object.
 *
 * Source: `reconciliation` of k8s.io/component-helpers; the objects are those of kube-apiserver's `bootstrappolicy`.
 */
import { CompiledRule } from './compiled-rule.js'
import { parseRole } from './rbac-types.js'
import { missingPermissions, type Permission } from './rule-cover.js'
import { field, isObject, listAt, textAt } from '../../../support/fields.js'

export type PlainObject = Readonly<Record<string, unknown>>

export type Reconciled =
  | { readonly kind: 'keep' }
  /** Created, or replaced. */
  | { readonly kind: 'put'; readonly object: PlainObject }
  /** Removed and created again, because a binding's role cannot be changed. */
  | { readonly kind: 'recreate'; readonly object: PlainObject }

const KEEP: Reconciled = { kind: 'keep' }

/** @param existing the stored object; null if there is none. */
export async function reconcile(expected: PlainObject, existing: PlainObject | null): Promise<Reconciled> {
  if (existing === null) return { kind: 'put', object: expected }
  const annotations = field(existing, 'metadata', 'annotations')
  if (field(annotations, 'rbac.authorization.kubernetes.io/autoupdate') === 'false') return KEEP
  const isBinding = expected['roleRef'] !== undefined
  if (isBinding && !isSameRole(expected['roleRef'], existing['roleRef'])) return { kind: 'recreate', object: expected }
  const changes = {
    ...metadataChange(expected, existing),
    ...(isBinding ? subjectsChange(expected, existing) : await rulesChange(expected, existing)),
  }
  return Object.keys(changes).length === 0 ? KEEP : { kind: 'put', object: { ...existing, ...changes } }
}

function isSameRole(a: unknown, b: unknown): boolean {
  return ['apiGroup', 'kind', 'name'].every((name) => textAt(a, name) === textAt(b, name))
}

/** Labels and annotations that users have changed stay as they are. */
function metadataChange(expected: PlainObject, existing: PlainObject): PlainObject {
  const metadata = recordOf(existing['metadata'])
  const changed = ['annotations', 'labels'].flatMap((name) => {
    const held = recordOf(metadata[name])
    const wanted = recordOf(field(expected['metadata'], name))
    return Object.keys(wanted).every((key) => Object.hasOwn(held, key)) ? [] : [[name, { ...wanted, ...held }] as const]
  })
  return changed.length === 0 ? {} : { metadata: { ...metadata, ...Object.fromEntries(changed) } }
}

function subjectsChange(expected: PlainObject, existing: PlainObject): PlainObject {
  const held = listAt(existing['subjects'])
  const known = new Set(held.map(subjectKey))
  const missing = listAt(expected['subjects']).filter((subject) => !known.has(subjectKey(subject)))
  return missing.length === 0 ? {} : { subjects: [...held, ...missing] }
}

function subjectKey(subject: unknown): string {
  return JSON.stringify(['kind', 'apiGroup', 'name', 'namespace'].map((name) => textAt(subject, name)))
}

async function rulesChange(expected: PlainObject, existing: PlainObject): Promise<PlainObject> {
  const held = parseRole(existing)?.rules.map((rule) => new CompiledRule(rule)) ?? []
  const missing = await missingPermissions(held, parseRole(expected)?.rules ?? [])
  return {
    ...(missing === null || missing.length === 0
      ? {}
      : { rules: [...listAt(existing['rules']), ...missing.map(ruleOf)] }),
    ...aggregationChange(expected['aggregationRule'], existing['aggregationRule']),
  }
}

function ruleOf({ verb, group, resource, name, path }: Permission): PlainObject {
  if (path !== null) return { verbs: [verb], nonResourceURLs: [path] }
  return {
    verbs: [verb],
    apiGroups: [group],
    resources: [resource],
    ...(name === null ? {} : { resourceNames: [name] }),
  }
}

function aggregationChange(expected: unknown, existing: unknown): PlainObject {
  if (!isObject(expected)) return isObject(existing) ? { aggregationRule: null } : {}
  const held = listAt(existing, 'clusterRoleSelectors')
  const known = new Set(held.map(canonical))
  const missing = listAt(expected, 'clusterRoleSelectors').filter((one) => !known.has(canonical(one)))
  return missing.length === 0 ? {} : { aggregationRule: { clusterRoleSelectors: [...held, ...missing] } }
}

/** Returns a text that is equal for equal selectors. The release's own selectors have only one level of members. */
function canonical(selector: unknown): string {
  const labels = recordOf(field(selector, 'matchLabels'))
  const sorted = Object.keys(labels).sort()
  return JSON.stringify([sorted.map((key) => [key, labels[key]]), listAt(selector, 'matchExpressions')])
}

function recordOf(value: unknown): PlainObject {
  return isObject(value) ? value : {}
}
