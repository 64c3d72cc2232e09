/** Asks a server which resources it serves. */
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
}

/** Requests one discovery document; null when the server answers 404. */
export type AskDiscovery = (path: string, accept: string) => Promise<unknown>

/** Since 1.26 one answer has all groups; older servers answer the same request with a list of them. */
const AGGREGATED = ['v2', 'v2beta1']
  .map((version) => `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`)
  .concat('application/json')
  .join(',')

interface GroupDiscovery {
  readonly metadata?: { readonly name?: string }
  readonly versions?: readonly {
    readonly version: string
    readonly resources?: readonly {
      readonly resource: string
      readonly responseKind?: { readonly kind?: string }
      readonly scope?: string
      readonly singularResource?: string
      readonly shortNames?: readonly string[]
    }[]
  }[]
}

interface Legacy {
  readonly kind?: string
  readonly items?: readonly GroupDiscovery[]
  readonly groups?: readonly {
    readonly name: string
    readonly preferredVersion?: { readonly version: string }
    readonly versions?: readonly { readonly version: string }[]
  }[]
  readonly resources?: readonly {
    readonly name: string
    readonly singularName?: string
    readonly namespaced?: boolean
    readonly kind?: string
    readonly shortNames?: readonly string[]
  }[]
}

/**
 * Returns the resources in order of preference: the core group first, then groups and versions in the server's order,
 * so that the first resource of a name is the preferred one. A group whose server is unreachable is omitted.
 *
 * @throws any error of `ask` for `/api`, `/api/v1` and `/apis`.
 */
export async function discover(ask: AskDiscovery): Promise<readonly ApiResource[]> {
  const get = async (path: string): Promise<Legacy | null> => (await ask(path, AGGREGATED)) as Legacy | null
  // A server with only custom resources has no core group.
  const [core, named] = await Promise.all([get('/api'), get('/apis')])
  const ofCore =
    core === null ? [] : isAggregated(core) ? fromAggregated(core) : fromList('', 'v1', await get('/api/v1'))
  if (named === null) return ofCore
  if (isAggregated(named)) return [...ofCore, ...fromAggregated(named)]
  const lists = await Promise.all(
    groupVersions(named).map(async ([group, version]) =>
      fromList(group, version, await get(`/apis/${group}/${version}`).catch(() => null)),
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

function isAggregated({ kind }: Legacy): boolean {
  return kind === 'APIGroupDiscoveryList'
}

/** The preferred version of each group comes first. */
function groupVersions({ groups = [] }: Legacy): readonly (readonly [group: string, version: string])[] {
  return groups.flatMap(({ name, preferredVersion, versions = [] }) => {
    const all = [...(preferredVersion === undefined ? [] : [preferredVersion]), ...versions]
    return [...new Set(all.map(({ version }) => version))].map((version): [string, string] => [name, version])
  })
}

function fromAggregated({ items = [] }: Legacy): ApiResource[] {
  return items.flatMap(({ metadata, versions = [] }) =>
    versions.flatMap(({ version, resources = [] }) =>
      resources.map(({ resource, responseKind, scope, singularResource = '', shortNames = [] }) => ({
        group: metadata?.name ?? '',
        version,
        plural: resource,
        singular: singularResource,
        kind: responseKind?.kind ?? '',
        namespaced: scope === 'Namespaced',
        shortNames,
      })),
    ),
  )
}

function fromList(group: string, version: string, list: Legacy | null): ApiResource[] {
  return (list?.resources ?? [])
    .filter(({ name }) => !name.includes('/'))
    .map(({ name, singularName = '', namespaced = false, kind = '', shortNames = [] }) => ({
      group,
      version,
      plural: name,
      singular: singularName,
      kind,
      namespaced,
      shortNames,
    }))
}
