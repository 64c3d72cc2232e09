/**
 * Finds the resources of another server that can be listed and watched. It reads the aggregated discovery documents,
 * or from older servers (1.26) one document per group. Other code decides what is served.
 */
import type { ApiResource } from '../model/api-resource.js'
import { WatchFailure } from '../../client/reflector/watch-failure.js'
import { asUpstreamError } from './http-failure.js'
import type { RemoteApiServer, TaggedDocument } from './remote-api-server.js'
import {
  AGGREGATED_DISCOVERY,
  type ApiResource as ListedResource,
  isAggregated,
  readAggregated,
  readResources,
} from '../../client/discovery.js'
import { listAt, textAt } from '../../support/fields.js'

export type DiscoveredResource = Omit<ApiResource, 'etcdPrefix' | 'holds'>

export interface Discovered {
  /** The resources by group. Within a group, the versions are in the server's order of preference. */
  readonly resources: readonly DiscoveredResource[]
  /** The `group/version` of each one that could not be read now. Their known resources stay. */
  readonly incomplete: ReadonlySet<string>
  /** `plural.group` of the resources defined by CustomResourceDefinitions; null if these cannot be read. */
  readonly customNames: ReadonlySet<string> | null
  /** The fields that another distributary leaves out of its objects (`strip`), as text; else ''. */
  readonly strips: string
  /**
   * The ETags of the two documents, if both are aggregated and complete. While the ETags stay the same, so does
   * everything above.
   */
  readonly etags: readonly [api: string, apis: string] | null
}

const NEEDED_VERBS = ['get', 'list', 'watch']

const ROOTS = ['/api', '/apis'] as const

/**
 * @param before the previous result, which is returned unchanged if nothing has changed.
 * @throws UpstreamError when the server does not respond.
 */
export async function discover(
  server: RemoteApiServer,
  signal?: AbortSignal,
  before: Discovered | null = null,
): Promise<Discovered> {
  if (before !== null && before.etags !== null && (await isUnchanged(server, before.etags, signal))) {
    if (before.customNames !== null) return before
    // A permission that is granted later changes neither document.
    const customNames = await readCustomNames(server, before.resources, signal)
    return customNames === null ? before : { ...before, customNames }
  }
  const etags: string[] = []
  let strips = ''
  const resources: DiscoveredResource[] = []
  const incomplete = new Set<string>()
  for (const path of ROOTS) {
    const pending = server.taggedDocument({
      path,
      accept: AGGREGATED_DISCOVERY,
      signal,
    })
    // An API server with only custom resources has no core group, and responds with 404.
    const tagged = path === '/api' ? await pending.catch(noneFor404) : await pending
    const { document, etag } = tagged
    strips = tagged.strips
    if (isAggregated(document)) {
      for (const one of readAggregated(document)) {
        if (one.isStale) incomplete.add(groupVersion(one.group, one.version))
        for (const resource of feedable(one.resources)) resources.push(resource)
      }
      if (etag !== null) etags.push(etag)
    } else await readGroups(server, path, document, resources, incomplete, signal)
  }
  const [api, apis] = etags
  const isWhole = api !== undefined && apis !== undefined && incomplete.size === 0
  return {
    resources,
    incomplete,
    strips,
    customNames: await readCustomNames(server, resources, signal),
    etags: isWhole ? [api, apis] : null,
  }
}

/**
 * Whether both documents still have these ETags. `/apis` has every custom resource, so it covers their names as well.
 */
async function isUnchanged(
  server: RemoteApiServer,
  etags: readonly [string, string],
  signal: AbortSignal | undefined,
): Promise<boolean> {
  for (const [i, path] of ROOTS.entries()) {
    try {
      await server.get({
        path,
        accept: AGGREGATED_DISCOVERY,
        headers: { 'if-none-match': etags[i]! },
        signal,
      })
      return false
    } catch (error) {
      const { cause } = asUpstreamError(error, path)
      if (!(cause instanceof WatchFailure && cause.code === 304)) throw error
    }
  }
  return true
}

function noneFor404(error: unknown): TaggedDocument {
  const { cause } = asUpstreamError(error, '/api')
  if (cause instanceof WatchFailure && cause.code === 404) return { document: null, etag: null, strips: '' }
  throw error
}

async function readGroups(
  server: RemoteApiServer,
  path: string,
  document: unknown,
  resources: DiscoveredResource[],
  incomplete: Set<string>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const versions: { readonly group: string; readonly version: string }[] =
    path === '/api'
      ? listAt(document, 'versions').map((version) => ({ group: '', version: String(version) }))
      : listAt(document, 'groups').flatMap((group) =>
          listAt(group, 'versions').map((version) => ({
            group: textAt(group, 'name'),
            version: textAt(version, 'version'),
          })),
        )
  for (const { group, version } of versions) {
    const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`
    let list: unknown
    try {
      list = await server.document({ path: root, signal })
    } catch (error) {
      if (signal?.aborted === true) throw asUpstreamError(error, root)
      // An aggregated API whose server is unreachable must not hide all others.
      incomplete.add(groupVersion(group, version))
      continue
    }
    for (const resource of feedable(readResources(group, version, list))) resources.push(resource)
  }
}

/** Reads the custom resources' names as `plural.group`, because nothing more is needed. */
async function readCustomNames(
  server: RemoteApiServer,
  resources: readonly DiscoveredResource[],
  signal: AbortSignal | undefined,
): Promise<ReadonlySet<string> | null> {
  const group = 'apiextensions.k8s.io'
  const served = resources.find((one) => one.group === group && one.plural === 'customresourcedefinitions')
  if (served === undefined) return null
  try {
    const list = await server.document({
      path: `/apis/${group}/${served.version}/customresourcedefinitions`,
      accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
      signal,
    })
    return new Set(listAt(list, 'items').map((item) => textAt(item, 'metadata', 'name')))
  } catch (error) {
    const { code } = asUpstreamError(error, served.plural)
    if (code === 'permission-denied' || code === 'protocol') return null
    throw error
  }
}

/** Returns the resources that can be listed and watched. */
function feedable(resources: readonly ListedResource[]): readonly DiscoveredResource[] {
  return resources.flatMap(({ verbs, ...resource }) => {
    const { plural, kind, singular } = resource
    const isNamed = plural !== '' && kind !== '' && !plural.includes('/')
    if (!isNamed || !NEEDED_VERBS.every((verb) => verbs.includes(verb))) return []
    return { ...resource, singular: singular === '' ? kind.toLowerCase() : singular, listKind: `${kind}List` }
  })
}

export function groupVersion(group: string, version: string): string {
  return `${group}/${version}`
}
