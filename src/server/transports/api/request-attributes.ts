/**
 * Derives the attributes by which a request for a resource is authorized and logged. They are derived only here, so that every
 * authorizer and the access log see the request that is then performed.
 *
 * The verb comes from the method; only a read may turn into a watch. The name comes from the path. A field selector
 * `metadata.name=x` names an object for the verbs that apply selectors and for no other: a create takes its name from the
 * body, which nobody has read yet, so a selected name would let a caller choose the name that it is judged by.
 *
 * Source: the request info resolver of kubernetes/apiserver. Unlike there, a selected name counts for `deletecollection`
 * too, which deletes no other object then.
 */
import { type Attributes, resourceAttributes } from '../../auth/authz/authorizer.js'
import { parseFieldSelector } from '../../../kubernetes/dialect/field-selector.js'
import { isWatch } from '../../../kubernetes/dialect/list-options.js'
import { nameOfRest } from '../../../engine/model/key-name.js'
import { parseKeyPrefix } from '../../../kubernetes/dialect/key-prefix.js'
import { parameter } from '../../../kubernetes/dialect/query.js'
import type { ResourcePath } from '../../../kubernetes/dialect/request-path.js'
import type { WriteVerb } from '../../../kubernetes/writes/writer.js'

export type Verb = 'get' | 'list' | 'watch' | WriteVerb | 'other'

/** The parts of an exchange that attributes are derived from. */
export interface AskedRequest {
  readonly request: { readonly method?: string | undefined }
  /** Without the query. */
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

export function verbOf({ request: { method = '' }, query }: AskedRequest, path: ResourcePath): Verb {
  if (method !== 'GET' && method !== 'HEAD') {
    const verb = Object.hasOwn(WRITE_VERBS, method) ? WRITE_VERBS[method]! : 'other'
    return verb === 'delete' && path.name === '' ? 'deletecollection' : verb
  }
  if (path.legacyWatch) return 'watch'
  if (path.name !== '') return 'get'
  return isWatch(query) ? 'watch' : 'list'
}

/** @param verb the verb of the request, or another that it needs as well: a PUT that creates an object needs `create`. */
export function attributesOf(asked: AskedRequest, path: ResourcePath, verb: Verb): Attributes {
  const attributes = resourceAttributes({
    verb,
    resource: path,
    // `pods/p/proxy/a/b` is the subresource `proxy`, and what follows is its own.
    subresource: path.subresource.split('/', 1)[0] ?? '',
    namespace: path.namespace,
    name: path.name,
    path: asked.path,
  })
  if (path.name !== '' || path.legacyWatch) return attributes
  const isList = verb === 'list' || verb === 'watch'
  if (!isList && verb !== 'deletecollection') return attributes
  const namesFrom = isList ? prefixOfNames(asked.query, path) : ''
  return { ...attributes, name: selectedName(asked.query), ...(namesFrom === '' ? {} : { namesFrom }) }
}

/**
 * What every name begins with when the keys begin with `?prefix=`; '' where that can be anything, or the prefix is malformed, which is
 * refused later. Only ASCII is spelled alike in all of them: a key that is not UTF-8 is spelled byte by byte, as `.` and `..` are.
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

/** Returns the name that a field selector requires; '' when it requires none, or is malformed, which is refused later. */
function selectedName(query: URLSearchParams): string {
  const text = parameter(query, 'fieldSelector') ?? ''
  if (text === '') return ''
  try {
    return parseFieldSelector(text).requiredValue('metadata.name') ?? ''
  } catch {
    return ''
  }
}
