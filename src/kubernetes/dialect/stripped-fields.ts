/**
 * The fields that the operator leaves out of the objects of a resource (`strip`). A rule is
 * `pods=metadata.managedFields`, with more fields after a `+`; `*` stands for all resources.
 *
 * Some annotations can never be left out, because this server reads them itself: for a version that has no other member
 * for them, a cell of a Table, a node's permissions. All of these have a domain of Kubernetes or none at all.
 */
import { parseFieldPath } from '../../engine/facts/field-path.js'
import { type ApiResource, resourceId } from '../model/api-resource.js'
import { annotationOf, LeftOutFields, MANAGED_FIELDS } from '../codec/left-out-fields.js'
import { MAX_STRIP_LENGTH } from '../model/limits.js'
import { BadRequestError } from '../model/status.js'
import { oncePer } from '../../support/memo.js'

export interface StripRule {
  /** `pods`, `deployments.apps`, or `*`. */
  readonly resource: string
  readonly paths: readonly string[]
}

/** Names the fields that no object of a response has. */
export const STRIPPED_HEADER = 'x-distributary-stripped'

const ALL = '*'
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'
const OF_KUBERNETES = /(?:^|\.)(?:kubernetes|k8s)\.io$/
/** The two kinds of events share one cache. */
const EVENTS = ['events', 'events.events.k8s.io']
/** Any path of metadata but those that cannot lead to a stripped field. */
const READS_METADATA =
  /\.\.|\*|metadata(?!\.(?:name|generateName|namespace|uid|generation|creationTimestamp|deletionTimestamp|labels|ownerReferences|finalizers)\b)/

/** @returns null if the text is not a rule; its fields are not checked. */
export function parseStripRule(text: string): StripRule | null {
  const [, resource, fields] = /^(\*|[a-z0-9][-a-z0-9.]*)=(.+)$/.exec(text) ?? []
  return resource === undefined || fields === undefined ? null : { resource, paths: fields.split('+') }
}

/** Parses the rules of another server. Rules of a later release, which may name other fields, are left out. */
export function parseStripRules(text: string): readonly StripRule[] {
  const rules = text
    .slice(0, 2 * MAX_STRIP_LENGTH)
    .split(',')
    .map(parseStripRule)
  return rules.filter((rule): rule is StripRule => rule !== null && problemOfStripped(rule) === null)
}

export function formatStripRules(rules: readonly StripRule[]): string {
  return [...new Set(rules.map(({ resource, paths }) => `${resource}=${paths.join('+')}`))].join(',')
}

/** Whether a field is one annotation, for which an operator must consent separately. */
export function isAnnotation(path: string): boolean {
  return annotationOf(path) !== null
}

/** Returns why a field cannot be left out; null if it can. */
export function problemOfStripped({ resource, paths }: StripRule): string | null {
  for (const path of paths) {
    if (path === MANAGED_FIELDS) continue
    const annotation = annotationOf(path)
    if (annotation === null)
      return `${path} is neither ${MANAGED_FIELDS} nor an annotation such as metadata.annotations.example\\.com/note`
    if (resource === ALL) return `${path}: annotations are left out of single resources only, not of *`
    const domain = annotation.includes('/') ? annotation.slice(0, annotation.indexOf('/')) : ''
    if (annotation !== LAST_APPLIED && (domain === '' || OF_KUBERNETES.test(domain)))
      return `${path}: this server and kubectl read annotations of Kubernetes themselves`
  }
  return null
}

/**
 * Returns a resource with the fields that the rules leave out of its objects.
 * @param columns the columns of all its versions. A custom resource whose columns may read a stripped field keeps all.
 */
export function strippedResource(
  { stripped: _before, ...resource }: ApiResource,
  rules: readonly StripRule[],
  columns: readonly { readonly jsonPath: string }[],
): ApiResource {
  if (resource.holds === 'values' || columns.some(({ jsonPath }) => READS_METADATA.test(jsonPath))) return resource
  const id = resourceId(resource)
  const names = [ALL, ...(EVENTS.includes(id) ? EVENTS : [id])]
  const paths = rules.filter((rule) => names.includes(rule.resource)).flatMap((rule) => rule.paths)
  return paths.length === 0 ? resource : { ...resource, stripped: new LeftOutFields(paths).paths }
}

/** Returns null if nothing is left out of the objects of this resource. */
export const leftOutOf = oncePer(({ stripped }: ApiResource): LeftOutFields | null =>
  stripped === undefined ? null : new LeftOutFields(stripped),
)

/** @throws BadRequestError when a selector reads a field that no object has here. */
export function assertNotStripped({ stripped = [] }: ApiResource, label: string): void {
  const segments = parseFieldPath(label) ?? []
  const isInside = (path: string): boolean => parseFieldPath(path)!.every((segment, i) => segment === segments[i])
  const path = stripped.find(isInside)
  if (path !== undefined) throw new BadRequestError(`field label not supported: ${path} is left out here (strip)`)
}
