/**
 * Discovery documents, built from the registry and kept as bytes until it changes: `/api`, `/apis`, a group, a group
 * version, their aggregated form (apidiscovery.k8s.io/v2), and `/version`.
 *
 * Groups have the order of the well-known table, followed by declared groups and then custom ones by name. Versions
 * have Kubernetes' order of preference. The documents of two replicas are therefore byte for byte equal, and so are
 * their ETags.
 */
import { createHash } from 'node:crypto'

import { keyFromText } from '../../engine/model/event.js'
import { apiVersion, type ApiResource } from '../model/api-resource.js'
import type { RemoteGroups, RemoteGroupVersion } from './remote-group.js'
import { EVICTION_NAME, type ResourceRegistry, type ServedResource, servedResource } from './resource-registry.js'
import { SCALE } from './scale.js'
import { EVICTION } from './well-known-resources.js'
import { getOrMake } from '../../support/memo.js'

export interface Document {
  readonly body: Buffer
  /** The ETag, in quotes as in the header. */
  readonly etag: string
}

const READ_VERBS = ['get', 'list', 'watch']
const WRITE_VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']
/** Each check of a health path has its own path. These are the checks that every server has. */
const OTHER_PATHS = [
  '/apis', '/healthz', '/healthz/ping', '/livez', '/livez/ping', '/metrics', '/openapi/v2', '/openapi/v3', '/readyz',
  '/readyz/ping', '/readyz/shutdown', '/version',
] // prettier-ignore
const CREATE_ONLY = ['create']
const SUBRESOURCE_VERBS = { read: ['get'], write: ['get', 'patch', 'update'] } as const

/**
 * The release whose schema and defaults this server uses. Clients compare their own version with it (kubectl warns
 * when the minors are more than one apart) and derive features from it. The build part names this project.
 */
export const KUBERNETES_RELEASE = '1.37.2'
const [MAJOR, MINOR] = KUBERNETES_RELEASE.split('.')

export interface Review {
  readonly group: string
  readonly plural: string
  readonly kind: string
  readonly namespaced: boolean
}

export interface DiscoveryOptions {
  /** Whether writes are enabled, so their verbs are listed. Default false. */
  readonly writable?: boolean
  /**
   * Versions that other servers serve through this one. A version is listed unless this server serves part of it
   * itself.
   */
  readonly remote?: RemoteGroups
  /** Access reviews: resources with only the verb `create`, for which nothing is stored. Default: none. */
  readonly reviews?: readonly Review[]
  /** The version of this project, for `/version`. */
  readonly productVersion?: string
}

export class Discovery {
  readonly #registry: ResourceRegistry
  readonly #isWritable: boolean
  readonly #remote: RemoteGroups | null
  readonly #reviews: readonly ServedResource[]
  readonly #version: Document
  #documents = new Map<string, Document | null>()
  #generation = -1

  constructor(registry: ResourceRegistry, options: DiscoveryOptions = {}) {
    this.#registry = registry
    this.#isWritable = options.writable ?? false
    this.#remote = options.remote ?? null
    this.#reviews = (options.reviews ?? []).map(reviewResource)
    this.#version = document(versionInfo(options.productVersion))
  }

  /** The document of `/version`. */
  version(): Document {
    return this.#version
  }

  /** The document of `/`: the available paths, sorted. */
  paths(): Document {
    return this.#cached('/', () => {
      const roots = this.#groups().flatMap(({ name, versions }) => {
        const root = name === '' ? '/api' : `/apis/${name}`
        return [root, ...versions.map((version) => `${root}/${version.name}`)]
      })
      return { paths: [...new Set([...OTHER_PATHS, ...roots])].sort() }
    })!
  }

  /** The document of `/api`: APIVersions. */
  apiVersions(): Document {
    return this.#cached('/api', () => ({
      kind: 'APIVersions',
      versions: this.#groups()
        .filter(({ name }) => name === '')
        .flatMap(({ versions }) => versions.map(({ name }) => name)),
      serverAddressByClientCIDRs: [],
    }))!
  }

  /** The document of `/apis`: APIGroupList. */
  apiGroups(): Document {
    return this.#cached('/apis', () => ({
      kind: 'APIGroupList',
      apiVersion: 'v1',
      groups: inListOrder(this.#groups().filter(({ name }) => name !== '')).map(groupJson),
    }))!
  }

  /** The document of `/apis/{group}`: APIGroup; null if nothing of the group is served. */
  apiGroup(group: string): Document | null {
    return this.#cached(`/apis/${group}`, () => {
      const found = group === '' ? undefined : this.#groups().find(({ name }) => name === group)
      return found === undefined ? null : { kind: 'APIGroup', apiVersion: 'v1', ...groupJson(found) }
    })
  }

  /**
   * The document of `/api/v1` and `/apis/{group}/{version}`: APIResourceList. null if nothing of the version is
   * served here, because another server then responds.
   */
  apiResources(group: string, version: string): Document | null {
    return this.#cached(`/apis/${group}/${version}`, () => {
      const found = this.#groups()
        .find(({ name }) => name === group)
        ?.versions.find(({ name }) => name === version)
      if (found === undefined || found.remote !== undefined) return null
      return {
        kind: 'APIResourceList',
        ...(group === '' ? {} : { apiVersion: 'v1' }),
        groupVersion: apiVersion({ group, version }),
        resources: found.resources.flatMap((served) => {
          const { resource } = served
          return [
            {
              name: resource.plural,
              singularName: resource.singular,
              namespaced: resource.namespaced,
              kind: resource.kind,
              verbs: this.#verbsOf(resource),
              ...namesJson(resource),
              ...this.#storageJson(served),
            },
            ...this.#subresourcesOf(served).map(({ name, kind, verbs, ...version }) => ({
              name: `${resource.plural}/${name}`,
              singularName: '',
              namespaced: resource.namespaced,
              ...(kind === resource.kind ? {} : version),
              kind,
              verbs,
            })),
          ]
        }),
      }
    })
  }

  /** APIGroupDiscoveryList: the core group for `/api`, all others for `/apis`. */
  aggregated(root: 'api' | 'apis'): Document {
    return this.#cached(`aggregated ${root}`, () => ({
      kind: 'APIGroupDiscoveryList',
      apiVersion: 'apidiscovery.k8s.io/v2',
      metadata: {},
      items: this.#groups()
        .filter(({ name }) => (name === '') === (root === 'api'))
        .map(({ name, versions }) => ({
          metadata: name === '' ? {} : { name },
          versions: versions.map((version) => ({
            version: version.name,
            resources:
              version.remote?.resources ??
              version.resources.map((served) => {
                const { resource } = served
                return {
                  resource: resource.plural,
                  responseKind: responseKindOf(served, resource),
                  scope: resource.namespaced ? 'Namespaced' : 'Cluster',
                  singularResource: resource.singular,
                  verbs: this.#verbsOf(resource),
                  ...namesJson(resource),
                  ...this.#subresourcesJson(served),
                }
              }),
            freshness: version.remote?.isCurrent === false ? 'Stale' : 'Current',
          })),
        })),
    }))!
  }

  /** Namespaces have no `deletecollection`, as in Kubernetes. */
  #verbsOf({ group, plural, etcdPrefix }: ApiResource): readonly string[] {
    if (etcdPrefix === NOWHERE) return CREATE_ONLY
    if (!this.#isWritable) return READ_VERBS
    return group === '' && plural === 'namespaces'
      ? WRITE_VERBS.filter((verb) => verb !== 'deletecollection')
      : WRITE_VERBS
  }

  get #subresourceVerbs(): readonly string[] {
    return this.#isWritable ? SUBRESOURCE_VERBS.write : SUBRESOURCE_VERBS.read
  }

  #subresourcesOf({ resource, origin, subresources }: ServedResource): readonly Subresource[] {
    const { group, version, kind } = resource
    const verbs = this.#subresourceVerbs
    const scale = subresources.scale === null ? [] : [{ name: 'scale', ...SCALE, verbs }]
    const status = subresources.status ? [{ name: 'status', group, version, kind, verbs }] : []
    const isEvicted = subresources.eviction && this.#isWritable
    const eviction = isEvicted ? [{ name: EVICTION_NAME, ...EVICTION, verbs: CREATE_ONLY }] : []
    const readOnly = subresources.readOnly.map((name) => ({
      name,
      group,
      version,
      kind,
      verbs: SUBRESOURCE_VERBS.read,
    }))
    // The API server sorts the subresources of built-in kinds by name, but not those of custom resources.
    if (origin === 'custom') return [...status, ...scale]
    return [...eviction, ...readOnly, ...scale, ...status].sort((a, b) => byName(a.name, b.name))
  }

  #subresourcesJson(served: ServedResource): object {
    const subresources = this.#subresourcesOf(served)
    if (subresources.length === 0) return {}
    return {
      subresources: subresources.map(({ name, verbs, ...kind }) => ({
        subresource: name,
        responseKind: responseKindOf(served, kind),
        verbs,
      })),
    }
  }

  /** The hash is omitted if it is unknown in which of several versions a kind is stored. */
  #storageJson({ resource, origin, storageVersion }: ServedResource): object {
    if (origin === 'declared' || storageVersion === null || resource.etcdPrefix === NOWHERE) return {}
    const known = HASHED_AS[resource.group]
    if (known !== undefined) return { storageVersionHash: storageVersionHash(...known, resource.kind) }
    const { group, version, kind, etcdPrefix } = resource
    const stored = storageVersion ?? version
    if (storageVersion === undefined) {
      const isAlone = this.#registry.list().every((other) => {
        const { resource: another } = other
        return another.etcdPrefix !== etcdPrefix || (another.group === group && another.version === version)
      })
      if (!isAlone) return {}
    }
    return { storageVersionHash: storageVersionHash(group, stored, kind) }
  }

  #cached(path: string, make: () => object | null): Document | null {
    // Both numbers only rise, and so does their sum.
    const generation = this.#registry.generation + (this.#remote?.generation ?? 0)
    if (this.#generation !== generation) {
      this.#documents = new Map()
      this.#generation = generation
    }
    let cached = this.#documents.get(path)
    if (cached === undefined) {
      const made = make()
      // A missing document is not cached, because clients can request any name.
      if (made === null) return null
      cached = document(made)
      this.#documents.set(path, cached)
    }
    return cached
  }

  #groups(): readonly Group[] {
    const served = this.#registry.list()
    const before = served.findIndex(({ resource }) => !BEFORE_REVIEWS.has(resource.group))
    const at = before === -1 ? served.length : before
    const here = groupsOf([...served.slice(0, at), ...this.#reviews, ...served.slice(at)])
    return this.#remote === null ? here : withRemote(here, this.#remote.list())
  }
}

interface Subresource {
  readonly name: string
  readonly verbs: readonly string[]
  readonly group: string
  readonly version: string
  readonly kind: string
}

interface Group {
  readonly name: string
  /** The versions, the preferred one first. */
  readonly versions: readonly GroupVersion[]
}

export interface GroupVersion {
  readonly name: string
  readonly resources: readonly ServedResource[]
  /** Set when another server serves the version. */
  readonly remote?: RemoteGroupVersion
}

/** Returns the groups in the order of discovery. */
export function groupsOf(served: readonly ServedResource[]): readonly Group[] {
  const groups = new Map<string, Map<string, ServedResource[]>>()
  const inOrder = served.filter(({ origin }) => origin !== 'custom')
  const custom = served.filter(({ origin }) => origin === 'custom').sort((a, b) => byName(sortKey(a), sortKey(b)))
  for (const entry of [...inOrder, ...custom]) {
    const { group, version } = entry.resource
    const versions = getOrMake(groups, group, () => new Map<string, ServedResource[]>())
    getOrMake(versions, version, () => []).push(entry)
  }
  return [...groups].map(([name, versions]) => ({
    name,
    versions: [...versions]
      .map(([version, resources]) => ({ name: version, resources }))
      .sort((a, b) => compareVersions(a.name, b.name)),
  }))
}

/** Adds the remote versions. New groups come last, by name. */
function withRemote(here: readonly Group[], remote: readonly RemoteGroupVersion[]): readonly Group[] {
  const groups = new Map(here.map((group) => [group.name, group]))
  for (const one of [...remote].sort((a, b) => byName(a.group, b.group))) {
    const versions = groups.get(one.group)?.versions ?? []
    if (versions.some(({ name }) => name === one.version)) continue
    const all = [...versions, { name: one.version, resources: [], remote: one }]
    groups.set(one.group, {
      name: one.group,
      versions: all.sort((a, b) => compareVersions(a.name, b.name)),
    })
  }
  return [...groups.values()]
}

/**
 * Sorts the groups of definitions by the least name of their versions' APIServices, as in the API server's
 * APIGroupList. Aggregated discovery sorts them by group name instead.
 */
function inListOrder(groups: readonly Group[]): readonly Group[] {
  const isCustom = ({ versions }: Group): boolean =>
    versions.some(({ resources }) => resources.some(({ origin }) => origin === 'custom'))
  const leastName = ({ name, versions }: Group): string => versions.map((one) => `${one.name}.${name}`).sort()[0]!
  const custom = groups.filter(isCustom).sort((a, b) => byName(leastName(a), leastName(b)))
  let next = 0
  return groups.map((group) => (isCustom(group) ? custom[next++]! : group))
}

/**
 * Compares versions in Kubernetes' order of preference: v10, v2, v1, v11beta2, v10beta3, v1alpha1, then anything else
 * by its letters.
 *
 * @returns below 0 when `a` is preferred.
 */
export function compareVersions(a: string, b: string): number {
  const [x, y] = [parseVersion(a), parseVersion(b)]
  if (x === null || y === null) return x === y ? byName(a, b) : x === null ? 1 : -1
  return y.stability - x.stability || y.major - x.major || y.minor - x.minor
}

function parseVersion(text: string): { stability: number; major: number; minor: number } | null {
  const match = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(text)
  if (match === null) return null
  const [, major, level, minor] = match
  const stability = level === undefined ? 2 : level === 'beta' ? 1 : 0
  return { stability, major: Number(major), minor: Number(minor ?? 0) }
}

function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

function sortKey({ resource }: ServedResource): string {
  return `${resource.group}/${resource.plural}`
}

/** Computed like the API server's hash. Eight bytes are enough to tell that the version has changed. */
function storageVersionHash(group: string, version: string, kind: string): string {
  return createHash('sha256').update(`${group}/${version}/${kind}`).digest().subarray(0, 8).toString('base64')
}

/** Groups that come before the reviews in the API server's order. */
const BEFORE_REVIEWS: ReadonlySet<string> = new Set(['', 'apiregistration.k8s.io', 'apps', 'events.k8s.io'])

/** Groups for which the API server hashes another group or version than the stored one. */
const HASHED_AS: Readonly<Record<string, readonly [group: string, version: string]>> = {
  'events.k8s.io': ['', 'v1'],
  'apiextensions.k8s.io': ['apiextensions.k8s.io', 'v1beta1'],
}

type GroupVersionKind = Pick<ApiResource, 'group' | 'version' | 'kind'>

/** Group and version are empty for a built-in kind of the resource's own version, as in the API server. */
function responseKindOf({ origin, resource }: ServedResource, { group, version, kind }: GroupVersionKind): object {
  const isOwn = group === resource.group && version === resource.version
  return isOwn && origin === 'well-known' ? { group: '', version: '', kind } : { group, version, kind }
}

/** An etcd prefix under which no object is stored. */
const NOWHERE = keyFromText('')

function reviewResource({ group, plural, kind, namespaced }: Review): ServedResource {
  const singular = kind.toLowerCase()
  const names = { plural, singular, kind, listKind: `${kind}List`, shortNames: [], categories: [] }
  return servedResource(
    { group, version: 'v1', ...names, namespaced, etcdPrefix: NOWHERE, holds: 'kubernetes' },
    'well-known',
  )
}

function groupJson({ name, versions }: Group): object {
  const list = versions.map((version) => ({
    groupVersion: apiVersion({ group: name, version: version.name }),
    version: version.name,
  }))
  return { name, versions: list, preferredVersion: list[0] }
}

function namesJson({ shortNames, categories }: ServedResource['resource']): object {
  return { ...(shortNames.length === 0 ? {} : { shortNames }), ...(categories.length === 0 ? {} : { categories }) }
}

function versionInfo(productVersion: string | undefined): object {
  return {
    major: MAJOR,
    minor: MINOR,
    emulationMajor: MAJOR,
    emulationMinor: MINOR,
    minCompatibilityMajor: MAJOR,
    minCompatibilityMinor: String(Number(MINOR) - 1),
    gitVersion: `v${KUBERNETES_RELEASE}+distributary${productVersion === undefined ? '' : `.${productVersion}`}`,
    gitCommit: '',
    gitTreeState: 'clean',
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: '',
    compiler: '',
    platform: '',
  }
}

function document(content: object): Document {
  return documentOf(Buffer.from(JSON.stringify(content)))
}

export function documentOf(body: Buffer): Document {
  return { body, etag: `"${createHash('sha256').update(body).digest('hex').toUpperCase()}"` }
}
