/** Asks a server which resources it serves. */
import { field, isTrue, listAt, textAt, textsAt } from '../support/fields.js'
import type { ResourceName } from './resource-path.js'

/** A resource that a server serves. */
export interface ApiResource {
  /** '' for the core group. */
  readonly group: string
  readonly version: string
  /** `pods`, as in paths. */
  readonly plural: string
  readonly singular: string
  readonly kind: string
  readonly namespaced: boolean
  readonly shortNames: readonly string[]
  /** `all`, which `kubectl get all` shows. */
  readonly categories: readonly string[]
  /** `get`, `list`, `watch` and others. */
  readonly verbs: readonly string[]
}

/** Requests one discovery document; null when the server answers 404. */
export type RequestDiscovery = (path: string, accept: string) => Promise<unknown>

/**
 * Since Kubernetes 1.26, one response describes the resources of all groups. Older servers answer the same request with
 * a list of the groups only.
 */
export const AGGREGATED_DISCOVERY = ['v2', 'v2beta1']
  .map((version) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`)
  .concat('application/json')
  .join(',')

/**
 * Returns the resources in order of preference: the core group first, then groups and versions in the server's order,
 * so that the first resource with a name is the preferred one. A group whose server is unreachable is omitted.
 *
 * @throws any error of `request` for `/api`, `/api/v1` and `/apis`.
 */
export async function discover(request: RequestDiscovery): Promise<readonly ApiResource[]> {
  const get = async (path: string): Promise<unknown> => await request(path, AGGREGATED_DISCOVERY)
  // A server with only custom resources has no core group.
  const [core, named] = await Promise.all([get('/api'), get('/apis')])
  const ofCore =
    core === null ? [] : isAggregated(core) ? resourcesOf(core) : readResources('', 'v1', await get('/api/v1'))
  if (named === null) return ofCore
  if (isAggregated(named)) return [...ofCore, ...resourcesOf(named)]
  const lists = await Promise.all(
    groupVersions(named).map(async ([group, version]) =>
      readResources(group, version, await get(`/apis/${group}/${version}`).catch(() => null)),
    ),
  )
  return [...ofCore, ...lists.flat()]
}

/**
 * Returns the resource meant by `text`: `pods`, `pod`, `po`, `Pod`, each also with `.group` or `.version.group`; null
 * if there is none.
 */
export function resourceNamed(all: readonly ApiResource[], text: string): ApiResource | null {
  const [name = '', ...rest] = text.toLowerCase().split('.')
  const suffix = rest.join('.')
  const inGroup = all.filter(
    ({ group, version }) =>
      suffix === '' || suffix === group || suffix === `${version}.${group}` || (group === '' && suffix === version),
  )
  return (
    inGroup.find(({ plural }) => plural === name) ??
    inGroup.find(({ singular, kind }) => singular === name || kind.toLowerCase() === name) ??
    inGroup.find(({ shortNames }) => shortNames.includes(name)) ??
    null
  )
}

/** Returns the name for `resourcePath`; the namespace is dropped for a resource without namespaces. */
export function resourceNameOf(resource: ApiResource, namespace?: string): ResourceName {
  const { group, version, plural, namespaced } = resource
  return { group, version, plural, ...(namespaced && namespace !== undefined ? { namespace } : {}) }
}

export function isAggregated(document: unknown): boolean {
  return textAt(document, 'kind') === 'APIGroupDiscoveryList'
}

/** Returns the versions of each group in an aggregated document. Versions whose server is unreachable are stale. */
export function readAggregated(document: unknown): readonly {
  readonly group: string
  readonly version: string
  readonly isStale: boolean
  readonly resources: readonly ApiResource[]
}[] {
  return listAt(document, 'items').flatMap((item) => {
    const group = textAt(item, 'metadata', 'name')
    return listAt(item, 'versions').map((one) => {
      const version = textAt(one, 'version')
      const resources = listAt(one, 'resources').map((resource) => ({
        group,
        version,
        plural: textAt(resource, 'resource'),
        singular: textAt(resource, 'singularResource'),
        kind: textAt(resource, 'responseKind', 'kind'),
        namespaced: textAt(resource, 'scope') === 'Namespaced',
        ...wordsOf(resource),
      }))
      return { group, version, isStale: textAt(one, 'freshness') === 'Stale', resources }
    })
  })
}

/** Returns the resources of an APIResourceList, without subresources. */
export function readResources(group: string, version: string, document: unknown): readonly ApiResource[] {
  return listAt(document, 'resources')
    .filter((resource) => !textAt(resource, 'name').includes('/'))
    .map((resource) => ({
      group,
      version,
      plural: textAt(resource, 'name'),
      singular: textAt(resource, 'singularName'),
      kind: textAt(resource, 'kind'),
      namespaced: isTrue(resource, 'namespaced'),
      ...wordsOf(resource),
    }))
}

function wordsOf(resource: unknown): Pick<ApiResource, 'shortNames' | 'categories' | 'verbs'> {
  return {
    shortNames: textsAt(resource, 'shortNames'),
    categories: textsAt(resource, 'categories'),
    verbs: textsAt(resource, 'verbs'),
  }
}

function resourcesOf(document: unknown): readonly ApiResource[] {
  return readAggregated(document).flatMap(({ resources }) => resources)
}

/** Returns all versions of all groups, with the preferred version of each group first. */
function groupVersions(document: unknown): readonly (readonly [group: string, version: string])[] {
  return listAt(document, 'groups').flatMap((group) => {
    const preferred = field(group, 'preferredVersion')
    const all = [...(preferred === undefined ? [] : [preferred]), ...listAt(group, 'versions')]
    const versions = new Set(all.map((one) => textAt(one, 'version')))
    return [...versions].map((version): [string, string] => [textAt(group, 'name'), version])
  })
}
