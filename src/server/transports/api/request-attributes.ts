/**
 * Derives the attributes by which a resource request is authorized and logged. They are derived only here, so that
 * every authorizer and the access log see the request that is then performed.
 *
 * The verb comes from the method; only a read may turn into a watch. The name comes from the path. A field selector
 * `metadata.name=x` names an object only for the verbs that apply selectors. A create takes its name from the body,
 * which has not been read yet. If the selector named the object, callers could choose the name for which they are
 * authorized.
 *
 * Source: the request info resolver of kubernetes/apiserver. Unlike in the API server, a selected name also counts for
 * `deletecollection`, which then deletes no other object.
 */
import { type Attributes, resourceAttributes, type SelectorRequirement } from '../../auth/authz/authorizer.js'
import { labelRequirements } from '../../auth/authz/reviews.js'
import { parseFieldSelector, parseFieldTerms } from '../../../kubernetes/dialect/field-selector.js'
import { isWatch } from '../../../kubernetes/dialect/list-options.js'
import { nameOfRest } from '../../../support/key-name.js'
import { parseKeyPrefix } from '../../../kubernetes/dialect/key-prefix.js'
import { parameter } from '../../../kubernetes/dialect/query.js'
import type { ResourcePath } from '../../../kubernetes/dialect/request-path.js'
import type { WriteVerb } from '../../../kubernetes/writes/writer.js'

export type Verb = 'get' | 'list' | 'watch' | WriteVerb | 'other'

/** The parts of an exchange that determine the attributes. */
export interface RequestParts {
  readonly request: { readonly method?: string | undefined }
  /** The path without the query. */
  readonly path: string
  readonly query: URLSearchParams
}

const WRITE_VERBS: Readonly<Record<string, WriteVerb>> = {
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
}

export function isRead(verb: Verb): verb is 'get' | 'list' | 'watch' {
  return verb === 'get' || verb === 'list' || verb === 'watch'
}

export function verbOf({ request: { method = '' }, query }: RequestParts, path: ResourcePath): Verb {
  if (method !== 'GET' && method !== 'HEAD') {
    const verb = Object.hasOwn(WRITE_VERBS, method) ? WRITE_VERBS[method]! : 'other'
    return verb === 'delete' && path.name === '' ? 'deletecollection' : verb
  }
  if (path.legacyWatch) return 'watch'
  if (path.name !== '') return 'get'
  return isWatch(query) ? 'watch' : 'list'
}

/**
 * @param verb the verb of the request, or another one that it also needs: a PUT that creates an object needs `create`.
 */
export function attributesOf(parts: RequestParts, path: ResourcePath, verb: Verb): Attributes {
  const attributes = resourceAttributes({
    verb,
    resource: path,
    // In `pods/p/proxy/a/b` the subresource is `proxy`; the rest does not matter here.
    subresource: path.subresource.split('/', 1)[0] ?? '',
    namespace: path.namespace,
    name: path.name,
    path: parts.path,
  })
  if (path.name !== '' || path.legacyWatch) return attributes
  const isList = verb === 'list' || verb === 'watch'
  if (!isList && verb !== 'deletecollection') return attributes
  const namesFrom = isList ? prefixOfNames(parts.query, path) : ''
  return {
    ...attributes,
    name: selectedName(parts.query),
    ...(namesFrom === '' ? {} : { namesFrom }),
    ...selectorsOf(parts.query),
  }
}

/** Leaves out a malformed selector, as the API server does, because the request is rejected later. */
function selectorsOf(query: URLSearchParams): Pick<Attributes, 'fieldSelector' | 'labelSelector'> {
  const fieldSelector = parsed(parameter(query, 'fieldSelector'), fieldRequirements)
  const labelSelector = parsed(parameter(query, 'labelSelector'), labelRequirements)
  return { ...(fieldSelector.length > 0 && { fieldSelector }), ...(labelSelector.length > 0 && { labelSelector }) }
}

function parsed(
  text: string | null | undefined,
  parse: (text: string) => readonly SelectorRequirement[],
): readonly SelectorRequirement[] {
  if (text === null || text === undefined || text === '') return []
  try {
    return parse(text)
  } catch {
    return []
  }
}

/** Exported for reviews. @throws BadRequestError */
export function fieldRequirements(text: string): readonly SelectorRequirement[] {
  return parseFieldTerms(text).map(({ label, negated, value }) => ({
    key: label,
    operator: negated ? 'NotIn' : 'In',
    values: [value],
  }))
}

/**
 * Returns the common prefix of all names under the key prefix `?prefix=`; '' if there is none, or if the prefix is
 * malformed, which is rejected later. Only an ASCII prefix is spelled the same in all of these names, because a key
 * that is not UTF-8 is spelled byte by byte, and so are `.` and `..`.
 */
function prefixOfNames(query: URLSearchParams, { served, namespace }: ResourcePath): string {
  if (served === undefined || served.resource.holds === 'kubernetes') return ''
  try {
    const [ascii] = /^[\0-\x7f]*/.exec(parseKeyPrefix(query, served.resource, namespace))!
    return ['', '.', '..'].includes(ascii) ? '' : nameOfRest(ascii)
  } catch {
    return ''
  }
}

/** Returns the name that a field selector requires; '' if it requires none or is malformed, which is rejected later. */
function selectedName(query: URLSearchParams): string {
  const text = parameter(query, 'fieldSelector') ?? ''
  if (text === '') return ''
  try {
    return parseFieldSelector(text).requiredValue('metadata.name') ?? ''
  } catch {
    return ''
  }
}
