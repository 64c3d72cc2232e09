/**
 * The resources that a kube-apiserver keeps in etcd, and the properties of each. The data is in
 * `well-known-resources.txt`: `declared-resource.ts` (flags and config) decides which of them are served, and
 * `resource-registry.ts` holds those. Virtual resources (component statuses, bindings, reviews) have no keys and are
 * missing here.
 *
 * The data has one line for each resource in each version:
 *
 *     @ apps/v1                                        the apiVersion of the lines below
 *     deployments Deployment namespaced short=deploy category=all status scale generation
 *
 * A line begins with plural, kind and scope. These words follow where they apply:
 *
 * - `short=` and `category=`: short names and categories.
 * - `path=`: the place below the etcd prefix if it is not the plural. Built-in kinds have no API group in their key,
 *   and a few have historic names.
 * - `by-name`, `preview` or `other-version`: see `WellKnownResource.served`.
 * - `stored=`: the version in which Kubernetes stores the resource, if it is not that of the first line with its
 *   name.
 * - `name=`: the rule for its names if they are not DNS subdomains.
 * - `status`, `scale`, `eviction` and `read-only=`: the subresources.
 * - `status=metadata`: a write of the status may also change the metadata, except for the members of `status-keeps=`.
 * - `generation`: its objects have `metadata.generation`.
 * - `put-creates`: a PUT creates a missing object.
 * - `versioned-put`: a PUT must name the version that it replaces.
 * - `deprecated=`, `removed=` and `use=`: the minor releases 1.N that deprecated the version and no longer serve it,
 *   and the type to use instead.
 * - `fields=`: all labels that its field selectors may use besides `metadata.name`, as `label:paths:otherwise`
 *   (`FieldLabel`). The path is the label itself unless there are others, joined by `|`.
 * - `unserved=`: subresources that only a cluster has, as `name:who`, where `who` serves them; a kube-apiserver if it
 *   is absent.
 */
import { keyFromText } from '../../engine/model/event.js'
import { apiVersion, type ApiResource } from '../model/api-resource.js'
import { readPackageFile } from '../../support/package-file.js'
import type { ScalePaths, Subresources } from './resource-registry.js'

export interface WellKnownResource {
  readonly resource: ApiResource
  /**
   * - `default`: served from the start.
   * - `by-name`: only if the operator names it (Secrets).
   * - `preview`: an alpha or beta version, which the operator enables by name, as with the API server's
   *   `--runtime-config`.
   * - `other-version`: a version that current API servers have dropped, with the keys of a default row. Its objects
   *   are shown in the default's version. The version itself is served only if the operator names it and never
   *   because of the stored objects, so that equal flags give equal discovery.
   */
  readonly served: 'default' | (typeof SERVED_OTHERWISE)[number]
}

const SERVED_OTHERWISE = ['by-name', 'preview', 'other-version'] as const

/** A line: the first three words, and the other words by name. A word without a value has ''. */
interface Row {
  readonly group: string
  readonly version: string
  readonly plural: string
  readonly kind: string
  readonly namespaced: boolean
  readonly words: ReadonlyMap<string, string>
}

const FILE = 'src/kubernetes/dialect/well-known-resources.txt'

function readRows(): readonly Row[] {
  const rows: Row[] = []
  let [group, version] = ['', '']
  for (const line of readPackageFile(FILE).toString('utf8').split('\n')) {
    const [first = '', second = '', scope, ...others] = line.split(' ')
    if (first === '' || first === '#') continue
    if (first === '@') [version = '', group = ''] = second.split('/').toReversed()
    else {
      const words = new Map(others.map((word) => word.split('=', 2)).map(([name = '', value = '']) => [name, value]))
      rows.push({ group, version, plural: first, kind: second, namespaced: scope === 'namespaced', words })
    }
  }
  return rows
}

const ROWS = readRows()
const NO_WORDS: Row['words'] = new Map()

type Named = Pick<ApiResource, 'group' | 'plural'>

/** Returns the first row of a resource, whatever its version. */
function rowOf({ group, plural }: Named): Row | undefined {
  return ROWS.find((row) => row.group === group && row.plural === plural)
}

function wordsOf(resource: Named): Row['words'] {
  return rowOf(resource)?.words ?? NO_WORDS
}

function listOf(words: Row['words'], name: string): readonly string[] {
  return words.get(name)?.split(',') ?? []
}

/** kube-apiserver's own default for `--etcd-prefix`. */
export const DEFAULT_ETCD_PREFIX = '/registry'

/**
 * Returns the prefix with one '/' at its start and none at its end. As in the API server, `registry/` is `/registry`.
 */
export function normalizeEtcdPrefix(prefix: string): string {
  return `/${prefix}`.replace(/\/+/g, '/').replace(/\/$/, '')
}

/** Returns every row, in the order of discovery. @param etcdPrefix the API server's `--etcd-prefix`. */
export function wellKnownResources(etcdPrefix: string = DEFAULT_ETCD_PREFIX): readonly WellKnownResource[] {
  const root = normalizeEtcdPrefix(etcdPrefix)
  return ROWS.map((row) => ({
    resource: {
      group: row.group,
      version: row.version,
      plural: row.plural,
      singular: row.kind.toLowerCase(),
      kind: row.kind,
      listKind: `${row.kind}List`,
      shortNames: listOf(row.words, 'short'),
      categories: listOf(row.words, 'category'),
      namespaced: row.namespaced,
      etcdPrefix: keyFromText(`${root}/${row.words.get('path') ?? row.plural}/`),
      holds: 'kubernetes',
    },
    served: SERVED_OTHERWISE.find((way) => row.words.has(way)) ?? 'default',
  }))
}

/** The version in which an API server of 1.37 stores a resource; undefined for one that is not in the table. */
export function storageVersionOf(resource: Named): string | undefined {
  const row = rowOf(resource)
  return row?.words.get('stored') ?? row?.version
}

/** Whether the objects of a resource in the table have `metadata.generation`, as the API server 1.37.2 creates them. */
export function hasGeneration(resource: Named): boolean {
  return wordsOf(resource).has('generation')
}

/** Whether a PUT creates a missing object, as in Kubernetes. */
export function isCreatedByPut(resource: Named): boolean {
  return wordsOf(resource).has('put-creates')
}

/** Whether a PUT must name the resourceVersion that it replaces, as in Kubernetes. */
export function isPutVersioned(resource: Named): boolean {
  return wordsOf(resource).has('versioned-put')
}

const NAME_RULES = ['label', 'label-1035', 'path-segment'] as const

/** Returns the rule for the names of its objects. */
export function nameRuleOf(resource: Named): 'subdomain' | (typeof NAME_RULES)[number] {
  const rule = wordsOf(resource).get('name')
  return NAME_RULES.find((one) => one === rule) ?? 'subdomain'
}

/** The members of the metadata that a write of the status leaves unchanged; null if it leaves all of them. */
export function keptByStatus(resource: Named): readonly string[] | null {
  const words = wordsOf(resource)
  return words.get('status') === 'metadata' ? listOf(words, 'status-keeps') : null
}

export interface FieldLabel {
  /** The paths to read. The first value that is not '' wins. */
  readonly paths: readonly string[]
  /** The value when the values at all paths are ''. */
  readonly otherwise: string
}

const LABELS = new Map(ROWS.map(({ words }) => [words, labelsIn(words)]))

function labelsIn(words: Row['words']): ReadonlyMap<string, FieldLabel> | undefined {
  if (!words.has('fields')) return undefined
  const labels = listOf(words, 'fields').map((text) => {
    const [label = '', paths = '', otherwise = ''] = text.split(':')
    return [label, { paths: (paths || label).split('|'), otherwise }] as const
  })
  return new Map(labels)
}

/** Returns the field labels of a resource besides `metadata.name`; undefined if it has none. */
export function ownFieldLabels(resource: Named): ReadonlyMap<string, FieldLabel> | undefined {
  return LABELS.get(wordsOf(resource))
}

/** Returns who serves a subresource that is not served here: '' for a kube-apiserver; undefined for an unknown one. */
export function subresourceServer(resource: Named, subresource: string): string | undefined {
  const texts = listOf(wordsOf(resource), 'unserved')
  return new Map(texts.map((text) => text.split(':')).map(([name = '', who = '']) => [name, who])).get(subresource)
}

/** The type of the object posted to evict a pod. */
export const EVICTION = { group: 'policy', version: 'v1', kind: 'Eviction' } as const

const REPLICAS: ScalePaths = {
  specReplicas: ['spec', 'replicas'],
  statusReplicas: ['status', 'replicas'],
  selector: ['spec', 'selector'],
  isBuiltIn: true,
}

/** Other subresources (logs, exec, bindings, tokens) exist only in a cluster; see `unserved-subresources.ts`. */
export function wellKnownSubresources(resource: Named): Subresources {
  const words = wordsOf(resource)
  return {
    status: words.has('status'),
    scale: words.has('scale') ? REPLICAS : null,
    eviction: words.has('eviction'),
    readOnly: listOf(words, 'read-only'),
  }
}

/**
 * Returns the API server's warning about a version; null if it is not deprecated. The table covers everything that
 * can be served here, even if the release that deprecated it is newer than the one in `/version`; the text names that
 * release.
 */
export function wellKnownDeprecation(resource: Pick<ApiResource, 'group' | 'version' | 'plural'>): string | null {
  const row = ROWS.find((one) => qualifiedName(one) === qualifiedName(resource))
  const since = row?.words.get('deprecated')
  if (row === undefined || since === undefined) return null
  const removed = row.words.get('removed')
  const unavailable = removed === undefined ? '' : `, unavailable in v1.${removed}+`
  const use = row.words.get('use')
  const instead = use === undefined ? '' : `; use ${use.replace(/\/(?=[^/]*$)/, ' ')}`
  return `${apiVersion(row)} ${row.kind} is deprecated in v1.${since}+${unavailable}${instead}`
}

/**
 * Returns the rows that a value of the API server's `--runtime-config` enables: `api/all`, `api/beta`, `api/alpha`,
 * `resource.k8s.io/v1beta1`. The result is empty when the value names none.
 */
export function previewsOf(table: readonly WellKnownResource[], name: string): readonly WellKnownResource[] {
  const [group = '', version = ''] = name.split('/')
  return table.filter(({ resource, served }) => {
    if (served !== 'preview') return false
    if (group !== 'api') return resource.group === group && resource.version === version
    return version === 'all' || (/^(alpha|beta)$/.test(version) && resource.version.includes(version))
  })
}

/** Returns a name that is unique in the table: `poddisruptionbudgets.v1.policy`, `pods.v1.`. */
export function qualifiedName(resource: Pick<ApiResource, 'group' | 'version' | 'plural'>): string {
  return `${resource.plural}.${resource.version}.${resource.group}`
}

/**
 * Finds a row by plural (`secrets`: the first row of that name), by `plural.group` (`events.events.k8s.io`: its
 * preferred version) or by `plural.version.group` (`cronjobs.v1beta1.batch`).
 */
export function findWellKnown(table: readonly WellKnownResource[], name: string): WellKnownResource | undefined {
  return (
    table.find(({ resource }) => qualifiedName(resource) === name) ??
    table.find(({ resource }) => resource.group !== '' && `${resource.plural}.${resource.group}` === name) ??
    table.find(({ resource }) => resource.plural === name)
  )
}
