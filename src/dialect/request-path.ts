/**
 * Parses the path of a request. It is split before anything is decoded, and each segment is decoded at most once and
 * only where a name is. A `%2F` can therefore be part of a name (of a resource whose names are whole keys) but never a
 * separator, and no later proxy or handler can take the path for another resource.
 *
 * These paths are recognised: discovery, OpenAPI and version documents, resources (namespaced or not, the old `/watch/`
 * paths, names, subresources). Every other path is `other`: health, metrics and the status page have routes of their
 * own. The caller decides whether a verb or a subresource is served.
 *
 * Source: the request info resolver of kubernetes/apiserver; legal path segments as in apimachinery.
 */
import { BadRequestError, NotFoundError } from '../model/status.js'
import type { ServedResource } from './resource-registry.js'

export type RequestPath =
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
  /** undefined when the resource is not served here, or not with this scope. Authorization comes before the 404. */
  readonly served: ServedResource | undefined
  /** '' for a cluster-scoped resource, and for a list over all namespaces. */
  readonly namespace: string
  /** '' for a collection. */
  readonly name: string
  /** What follows the name, such as `status`, `log` or `proxy/a/b`; '' for the object itself. */
  readonly subresource: string
  /** On the old paths with `/watch/` a name means `metadata.name=NAME`. */
  readonly legacyWatch: boolean
}

export type FindResource = (group: string, version: string, plural: string) => ServedResource | undefined

/** The segments after `/namespaces/{name}` that are not resources in that namespace. */
const NAMESPACE_SUBRESOURCES: ReadonlySet<string> = new Set(['status', 'finalize'])

/**
 * @param path the path of the request line, not decoded, without the query.
 * @param find the registry's `find`.
 * @throws BadRequestError for an ambiguous path; NotFoundError for one that cannot be a resource.
 */
export function parseRequestPath(path: string, find: FindResource): RequestPath {
  const segments = path.slice(1).split('/')
  const root = segments[0]
  if (!path.startsWith('/') || (root !== 'api' && root !== 'apis' && root !== 'openapi' && root !== 'version')) {
    return { kind: 'other' }
  }
  // A slash at the end changes nothing, as in the API server.
  if (segments.length > 1 && segments.at(-1) === '') segments.pop()
  for (const segment of segments) checkSegment(segment, path)

  switch (root) {
    case 'version':
      return segments.length === 1 ? { kind: 'version' } : { kind: 'other' }
    case 'openapi':
      return openApiPath(segments)
    case 'api': {
      const [, version] = segments
      if (version === undefined) return { kind: 'api-versions' }
      if (segments.length === 2) return { kind: 'api-resources', group: '', version: fixed(version) }
      return resourcePath('', fixed(version), segments.slice(2), find)
    }
    case 'apis': {
      const [, group, version] = segments
      if (group === undefined) return { kind: 'api-groups' }
      if (version === undefined) return { kind: 'api-group', group: fixed(group) }
      if (segments.length === 3) return { kind: 'api-resources', group: fixed(group), version: fixed(version) }
      return resourcePath(fixed(group), fixed(version), segments.slice(3), find)
    }
  }
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

/** @param rest the segments after the version, at least one. */
function resourcePath(group: string, version: string, rest: readonly string[], find: FindResource): ResourcePath {
  const legacyWatch = rest[0] === 'watch'
  const parts = legacyWatch ? rest.slice(1) : rest
  const inNamespace =
    parts[0] === 'namespaces' && parts.length > 2 && !(group === '' && NAMESPACE_SUBRESOURCES.has(parts[2]!))
  const [rawPlural, rawName, ...subresource] = inNamespace ? parts.slice(2) : parts
  if (rawPlural === undefined) throw unknownResource()
  const plural = fixed(rawPlural)
  const found = find(group, version, plural)
  const name = rawName === undefined ? '' : decodeName(rawName, found?.resource.wholeKeyNames === true)

  const isScopeRight =
    found !== undefined && (found.resource.namespaced ? inNamespace || name === '' || legacyWatch : !inNamespace)
  return {
    kind: 'resource',
    group,
    version,
    plural,
    served: isScopeRight ? found : undefined,
    namespace: inNamespace ? decodeName(parts[1]!, false) : '',
    name,
    subresource: subresource.join('/'),
    legacyWatch,
  }
}

/** The API server's answer to a path under `/api` or `/apis` that leads nowhere. */
export function unknownResource(): NotFoundError {
  return new NotFoundError('the server could not find the requested resource', { details: {} })
}

/** Refuses, before any decoding, what servers and proxies are known to read differently. */
function checkSegment(segment: string, path: string): void {
  if (segment === '') throw unknownResource()
  if (/^(\.|%2e){1,2}$/i.test(segment)) throw new BadRequestError(`path ${quote(path)} has a "." or ".." segment`)
}

/** Checks a group, version or plural, which is never written with escapes. */
function fixed(segment: string): string {
  if (!/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(segment)) throw unknownResource()
  return segment
}

/** Decodes a name exactly once: `%252F` is the name `%2F`, which only a whole-key name may be. */
function decodeName(segment: string, isWholeKey: boolean): string {
  let name: string
  try {
    name = decodeURIComponent(segment)
  } catch {
    throw new BadRequestError(`${quote(segment)} is not percent-encoded UTF-8`)
  }
  if (name.includes('\0')) throw new BadRequestError(`name ${quote(segment)} has a NUL`)
  if (!isWholeKey && /[/%]/.test(name)) {
    throw new BadRequestError(`invalid name ${quote(name)}: may not contain "/" or "%"`)
  }
  return name
}

function quote(text: string): string {
  return JSON.stringify(text.length > 256 ? `${text.slice(0, 256)}...` : text)
}
