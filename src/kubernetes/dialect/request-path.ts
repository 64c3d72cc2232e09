/**
 * Parses the path of a request as the API server does. The path is decoded once, as a whole, and then split. `%2F` is
 * therefore a slash like any other, and a server behind this one sees the same resource in the path. An etcd key with
 * slashes has a name without any (`engine/model/key-name.ts`).
 *
 * These paths are recognized: discovery, OpenAPI and version documents, and resources (namespaced or not, the old
 * `/watch/` paths, names, subresources). Every other path is `other`: health, metrics and the status page have their
 * own routes. The caller decides whether a verb or a subresource is served.
 *
 * Source: the request info resolver of kubernetes/apiserver; legal path segments as in apimachinery.
 */
import { hasKey, isNamespaceSpelled } from '../model/api-resource.js'
import { BadRequestError, NotFoundError, MethodNotAllowedError } from '../model/status.js'
import type { ServedResource } from './resource-registry.js'

export type RequestPath =
  /** `/`: the list of paths */
  | { readonly kind: 'paths' }
  /** `/api` */
  | { readonly kind: 'api-versions' }
  /** `/apis` */
  | { readonly kind: 'api-groups' }
  /** `/apis/{group}` */
  | { readonly kind: 'api-group'; readonly group: string }
  /** `/api/v1`, `/apis/{group}/{version}` */
  | { readonly kind: 'api-resources'; readonly group: string; readonly version: string }
  | { readonly kind: 'version' }
  | { readonly kind: 'openapi-v2' }
  /** `/openapi/v3` */
  | { readonly kind: 'openapi-v3-index' }
  /** `/openapi/v3/api/v1`, `/openapi/v3/apis/{group}/{version}` */
  | { readonly kind: 'openapi-v3'; readonly group: string; readonly version: string }
  | ResourcePath
  | { readonly kind: 'other' }

export interface ResourcePath {
  readonly kind: 'resource'
  readonly group: string
  readonly version: string
  readonly plural: string
  /** undefined if the resource is not served here, or not with this scope. Authorization comes before the 404. */
  readonly served: ServedResource | undefined
  /** '' for a cluster-scoped resource, and for a list over all namespaces. */
  readonly namespace: string
  /** Whether the path contains an empty namespace segment. */
  readonly hasEmptyNamespace: boolean
  /** '' for a collection. */
  readonly name: string
  /** The path after the name, such as `status`, `log` or `proxy/a/b`; '' for the object itself. */
  readonly subresource: string
  /** On the old `/watch/` paths a name means `metadata.name=NAME`. */
  readonly legacyWatch: boolean
}

export type FindResource = (group: string, version: string, plural: string) => ServedResource | undefined

/** The segments after `/namespaces/{name}` that are not resources in that namespace. */
const NAMESPACE_SUBRESOURCES: ReadonlySet<string> = new Set(['status', 'finalize'])

/**
 * @param path the path of the request line, not decoded, without the query.
 * @param find the registry's `find`.
 * @throws BadRequestError for a path that cannot be decoded, or that a proxy might read differently; NotFoundError
 * for a path that cannot be a resource. `checkName` rejects names later, at the same point as the API server.
 */
export function parseRequestPath(path: string, find: FindResource): RequestPath {
  if (path === '/' || path === '/index.html') return { kind: 'paths' }
  const whole = decodedPath(path)
  const root = ROOT.exec(whole)?.[1]
  if (root === undefined) return { kind: 'other' }
  const segments = segmentsOf(whole)
  const most = root === 'api' ? 2 : root === 'apis' ? 3 : Infinity
  const [fixedSegments, names] = [segments.slice(0, most), segments.slice(most)]
  if (fixedSegments.some((segment) => segment === '' || isDots(segment))) throw unknownResource()
  // A document has exactly its own path, with at most one trailing slash.
  if (names.length === 0 && whole.endsWith('//')) throw unknownResource()
  if (root === 'version') return segments.length === 1 ? { kind: 'version' } : { kind: 'other' }
  if (root === 'openapi') return openApiPath(segments)

  const [group, version] = root === 'api' ? ['', segments[1]] : [segments[1], segments[2]]
  if (group === undefined) return { kind: 'api-groups' }
  if (group !== '') fixed(group)
  if (version === undefined) return root === 'api' ? { kind: 'api-versions' } : { kind: 'api-group', group }
  if (names.length === 0) return { kind: 'api-resources', group, version: fixed(version) }
  return resourcePath(group, fixed(version), names, find)
}

/** @throws BadRequestError for a name that the API server's storage rejects, in its words, or that no key can have. */
export function checkName({ namespace, name, served }: ResourcePath): void {
  const problem = isDots(name)
    ? `may not be '${name}'`
    : name.includes('%')
      ? "may not contain '%'"
      : name !== '' && served !== undefined && !hasKey(served.resource, { namespace, name })
        ? 'no key has this name: a slash is written ":", and other special characters as ~ and two hexadecimal digits'
        : null
  if (problem !== null) throw new BadRequestError(`Name parameter invalid: ${quote(name)}: ${problem}`)
}

const ROOT = /^\/(apis?|openapi|version)(?:\/|$)/

/** Trailing slashes are ignored. */
function segmentsOf(path: string): string[] {
  let end = path.length
  while (end > 1 && path[end - 1] === '/') end--
  return path.slice(1, end).split('/')
}

function openApiPath(segments: readonly string[]): RequestPath {
  const [, edition, root, ...rest] = segments
  if (edition === 'v2' && root === undefined) return { kind: 'openapi-v2' }
  if (edition !== 'v3') return { kind: 'other' }
  if (root === undefined) return { kind: 'openapi-v3-index' }
  const [first, second] = rest
  if (root === 'api' && first !== undefined && rest.length === 1) {
    return { kind: 'openapi-v3', group: '', version: fixed(first) }
  }
  if (root === 'apis' && first !== undefined && second !== undefined && rest.length === 2) {
    return { kind: 'openapi-v3', group: fixed(first), version: fixed(second) }
  }
  return { kind: 'other' }
}

/** @param names the segments after the version, at least one. */
function resourcePath(group: string, version: string, names: readonly string[], find: FindResource): ResourcePath {
  const { isNamespaced, hasEmptyNamespace, namespace, plural, name, subresource, legacyWatch } = partsOf(group, names)
  const found = find(group, version, fixed(plural))
  // As in the API server, an empty namespace means all namespaces. For built-in resources this holds only in a path
  // without a name; for custom resources it holds in every path.
  const isEmptyTaken =
    found?.origin === 'custom' || (found?.origin === 'well-known' && found.resource.namespaced && name === '')
  if (hasEmptyNamespace && !isEmptyTaken) throw unknownResource()
  if (/[\0\uFFFD]/.test(namespace + name))
    throw new BadRequestError(`${quote(namespace + name)} is not valid UTF-8, or contains a NUL`)
  if (isDots(namespace) || subresource.split('/').some(isDots)) throw ambiguous(`${namespace}/${name}/${subresource}`)

  const isScopeRight =
    found !== undefined && (found.resource.namespaced ? isNamespaced || name === '' || legacyWatch : !isNamespaced)
  if (isDots(name) && !isScopeRight) throw unknownResource()
  // No object has an empty name, or a namespace that no key can spell.
  const isNamed = name !== '' || subresource === ''
  const isPlace = namespace === '' || found === undefined || isNamespaceSpelled(found.resource, namespace)
  return {
    kind: 'resource',
    group,
    version,
    plural,
    served: isScopeRight && isNamed && isPlace ? found : undefined,
    namespace,
    hasEmptyNamespace,
    name,
    subresource,
    legacyWatch,
  }
}

interface Parts extends Pick<
  ResourcePath,
  'namespace' | 'hasEmptyNamespace' | 'plural' | 'name' | 'subresource' | 'legacyWatch'
> {
  /** Whether the path names a namespace. */
  readonly isNamespaced: boolean
}

function partsOf(group: string, rest: readonly string[]): Parts {
  const legacyWatch = rest[0] === 'watch'
  const parts = legacyWatch ? rest.slice(1) : rest
  const isNamespaced =
    parts[0] === 'namespaces' && parts.length > 2 && !(group === '' && NAMESPACE_SUBRESOURCES.has(parts[2]!))
  const [plural, name = '', ...subresource] = isNamespaced ? parts.slice(2) : parts
  if (plural === undefined) throw unknownResource()
  const namespace = isNamespaced ? parts[1]! : ''
  const hasEmptyNamespace = isNamespaced && namespace === ''
  return {
    isNamespaced: namespace !== '',
    hasEmptyNamespace,
    namespace,
    plural,
    name,
    subresource: subresource.join('/'),
    legacyWatch,
  }
}

export function methodNotAllowed(): MethodNotAllowedError {
  return new MethodNotAllowedError('the server does not allow this method on the requested resource')
}

/** The API server's response to a path under `/api` or `/apis` that leads nowhere. */
export function unknownResource(): NotFoundError {
  return new NotFoundError('the server could not find the requested resource', { details: {} })
}

function isDots(segment: string): boolean {
  return segment === '.' || segment === '..'
}

/** Refuses a path that servers and proxies are known to interpret differently. */
function ambiguous(path: string): BadRequestError {
  return new BadRequestError(`path ${quote(path)} has a "." or ".." segment`)
}

/** Checks a group, version or plural, which have fixed spellings. */
function fixed(segment: string): string {
  if (!/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(segment)) throw unknownResource()
  return segment
}

/**
 * Returns the path as the API server sees it. Bytes that are not UTF-8 become U+FFFD, which no name may contain. The
 * part after a name is forwarded as written.
 *
 * @throws BadRequestError
 */
export function decodedPath(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    if (/%(?![\dA-F]{2})/i.test(text)) throw new BadRequestError(`${quote(text)} is not percent-encoded`)
    return Buffer.from(
      text.replaceAll(/%([\dA-F]{2})|[^%]+/gi, (part, hex: string | undefined) =>
        hex === undefined ? Buffer.from(part).toString('latin1') : String.fromCharCode(Number.parseInt(hex, 16)),
      ),
      'latin1',
    ).toString()
  }
}

function quote(text: string): string {
  return JSON.stringify(text.length > 256 ? `${text.slice(0, 256)}...` : text)
}
