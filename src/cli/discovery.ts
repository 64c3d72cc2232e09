/** Finds out what a server serves, and which resource `po`, `deployment` or `deploy.apps` means. */
import { WatchFailure } from '../reflector/failure.js'
import { nearestName } from '../support/nearest-name.js'
import type { Connection } from './connection.js'
import { CommandError } from './exit-code.js'
import { askJson } from './request.js'

export interface ApiResource {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly singular: string
  readonly kind: string
  readonly namespaced: boolean
  readonly shortNames: readonly string[]
}

/** From 1.26 on one answer has all groups; older servers answer the same request with a list of them. */
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
  readonly groups?: readonly { readonly name: string; readonly preferredVersion?: { readonly version: string } }[]
  readonly resources?: readonly {
    readonly name: string
    readonly singularName?: string
    readonly namespaced?: boolean
    readonly kind?: string
    readonly shortNames?: readonly string[]
  }[]
}

/**
 * The resources in the order of preference: the core group first, then groups and versions as the server orders them.
 * @throws CommandError
 */
export async function discover(connection: Connection, signal: AbortSignal): Promise<readonly ApiResource[]> {
  const get = async (path: string): Promise<Legacy> =>
    ((await askJson(connection, { path, accept: AGGREGATED, signal })) ?? {}) as Legacy
  const [core, named] = await Promise.all([get('/api').catch(noneFor404), get('/apis')])
  const isAggregated = (answer: Legacy): boolean => answer.kind === 'APIGroupDiscoveryList'
  const ofCore =
    core === null ? [] : isAggregated(core) ? fromAggregated(core) : fromList('', 'v1', await get('/api/v1'))
  if (isAggregated(named)) return [...ofCore, ...fromAggregated(named)]
  const groups = (named.groups ?? []).flatMap(({ name, preferredVersion }) =>
    preferredVersion === undefined ? [] : [{ name, version: preferredVersion.version }],
  )
  const lists = await Promise.all(
    // A group whose server is away must not hide all others.
    groups.map(async ({ name, version }) =>
      fromList(name, version, await get(`/apis/${name}/${version}`).catch(() => ({}))),
    ),
  )
  return [...ofCore, ...lists.flat()]
}

/** A server of custom resources alone has no core group, and says so by 404. */
function noneFor404(error: unknown): null {
  if (error instanceof CommandError && error.cause instanceof WatchFailure && error.cause.code === 404) return null
  throw error
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

function fromList(group: string, version: string, { resources = [] }: Legacy): ApiResource[] {
  return resources
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

/** @param text `pods`, `pod`, `po`, `Pod`, each also with `.group` or `.version.group`. @throws CommandError */
export function findResource(all: readonly ApiResource[], text: string): ApiResource {
  const wanted = text.toLowerCase()
  const [name = '', ...rest] = wanted.split('.')
  const suffix = rest.join('.')
  const inGroup = all.filter(
    ({ group, version }) =>
      suffix === '' || suffix === group || suffix === `${version}.${group}` || (group === '' && suffix === version),
  )
  const found =
    inGroup.find(({ plural }) => plural === name) ??
    inGroup.find(({ singular, kind }) => singular === name || kind.toLowerCase() === name) ??
    inGroup.find(({ shortNames }) => shortNames.includes(name))
  if (found !== undefined) return found
  const nearest = nearestName(name, new Set(all.flatMap(({ plural, shortNames }) => [plural, ...shortNames])))
  throw new CommandError(`the server has no resource "${text}"${nearest === null ? '' : `; did you mean ${nearest}?`}`)
}
