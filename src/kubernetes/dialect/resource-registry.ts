/**
 * The resources served now. Well-known and declared ones are set at the start. CRDs come and go at run time. Each CRD
 * is one *owner* whose entries are replaced together, so that no request sees half of a definition.
 *
 * The registry handles only names; the stages that feed and cache a resource listen for changes. An entry whose path
 * belongs to another owner is rejected, so a CustomResourceDefinition cannot shadow a built-in resource.
 */
import { createHash } from 'node:crypto'
import type { DefinedSchema } from '../codec/defined-schema.js'
import { exactText } from '../codec/exact-json.js'
import type { ViewTarget } from '../codec/object-views.js'
import { ReadRules } from '../codec/read-rules.js'
import { apiVersion, type ApiResource, resourceId } from '../model/api-resource.js'
import { strippedResource, type StripRule } from './stripped-fields.js'
import type { Served, ServedChange, ServedList } from '../../engine/model/served.js'
import { getOrMake, oncePer } from '../../support/memo.js'

/** A column of a CRD's `additionalPrinterColumns`. */
export interface PrinterColumn {
  readonly name: string
  /** `integer`, `number`, `string`, `boolean` or `date`. */
  readonly type: string
  readonly format: string
  readonly description: string
  readonly priority: number
  readonly jsonPath: string
}

/** Where a scale subresource finds its numbers, as paths of member names. */
export interface ScalePaths {
  readonly specReplicas: readonly string[]
  readonly statusReplicas: readonly string[]
  /** The path of a selector; null if there is none. */
  readonly selector: readonly string[] | null
  /**
   * Whether one replica is the default and the selector is a LabelSelector or a map of labels. Otherwise the selector
   * is text.
   */
  readonly isBuiltIn: boolean
}

export interface Subresources {
  readonly status: boolean
  readonly scale: ScalePaths | null
  /** Whether its objects can be evicted, as only pods can. An Eviction is only created and never stored. */
  readonly eviction: boolean
  /** Subresources that read as the whole object and that only a kube-apiserver writes. */
  readonly readOnly: readonly string[]
}

const NO_SUBRESOURCES: Subresources = { status: false, scale: null, eviction: false, readOnly: [] }

/** The subresource for evicting pods, if writes are enabled. */
export const EVICTION_NAME = 'eviction'

/** The part that the versions of one definition share. */
export interface CustomDefinition {
  /** Changes with anything in the definition that affects its resource. */
  readonly fingerprint: string
  /** The version in which objects are written, served or not; older objects may still be stored in another version. */
  readonly storedVersion: string
  /** The schema of each version, even of those that are not served, because objects may still be stored in them. */
  readonly schemas: Readonly<Record<string, DefinedSchema | undefined>>
  /**
   * Whether members undeclared by any schema are kept, which definitions from before apiextensions.k8s.io/v1 can
   * request.
   */
  readonly preservesUnknownFields: boolean
}

export interface ServedResource extends Served {
  readonly resource: ApiResource
  readonly origin: 'well-known' | 'declared' | 'custom'
  /** undefined to use this project's own columns for the kind. */
  readonly printerColumns: readonly PrinterColumn[] | undefined
  /** The OpenAPI v3 schema of the CRD; undefined if there is none. */
  readonly schema: DefinedSchema | undefined
  /** null if no definition defines the resource. */
  readonly definition: CustomDefinition | null
  /**
   * Paths that a field selector may use beyond those every resource has. Discovery shows them; the other labels are in
   * `field-labels.ts`.
   */
  readonly selectableFields: readonly string[]
  /** The parts of an object that can be written separately, if writes are enabled. */
  readonly subresources: Subresources
  /** The version in which its objects are stored; null if that version is not served, undefined if it is unknown. */
  readonly storageVersion: string | null | undefined
  /** The warning on every response in this version; null if it is not deprecated. */
  readonly deprecation: string | null
  /** Whether a webhook converts between its versions. Objects stored in another version cannot be shown then. */
  readonly convertsByWebhook: boolean
  /**
   * Whether its objects come from a server that has already pruned and defaulted them by their definition. Default:
   * false.
   */
  readonly isReadThere?: boolean
}

export type RegistryChange = ServedChange<ServedResource>

export function servedResource(
  resource: ApiResource,
  origin: ServedResource['origin'],
  extras: Partial<Omit<ServedResource, 'resource' | 'origin'>> = {},
): ServedResource {
  return {
    resource,
    origin,
    printerColumns: extras.printerColumns,
    schema: extras.schema,
    definition: extras.definition ?? null,
    selectableFields: extras.selectableFields ?? [],
    subresources: extras.subresources ?? NO_SUBRESOURCES,
    storageVersion: extras.storageVersion,
    deprecation: extras.deprecation ?? null,
    convertsByWebhook: extras.convertsByWebhook ?? false,
  }
}

/** The apiVersion with which objects are written. */
export function storedApiVersion({ resource, definition }: ServedResource): string {
  return apiVersion(definition === null ? resource : { group: resource.group, version: definition.storedVersion })
}

export function hasSubresource({ subresources }: ServedResource, name: string): boolean {
  const { status, scale, eviction } = subresources
  return (name === 'status' && status) || (name === 'scale' && scale !== null) || (name === EVICTION_NAME && eviction)
}

/** Whether an object can be read under that subresource. */
export function canReadSubresource(served: ServedResource, name: string): boolean {
  return hasSubresource(served, name) || served.subresources.readOnly.includes(name)
}

const pathOf = (group: string, version: string, plural: string): string => `${group}/${version}/${plural}`
const pathOfEntry = ({ resource }: ServedResource): string => pathOf(resource.group, resource.version, resource.plural)

const rules = new WeakMap<CustomDefinition, ReadRules>()

/**
 * Custom resources convert by name, because `None` is the only possible conversion here. Returns one object per
 * resource.
 */
export const viewTargetOf = oncePer((served: ServedResource): ViewTarget => {
  const { resource, origin, convertsByWebhook, definition, isReadThere = false } = served
  const convertsByName = origin !== 'well-known' && !convertsByWebhook
  const read = definition === null || isReadThere ? null : readRulesOf(definition, resource)
  return { apiVersion: apiVersion(resource), convertsByName, rules: read }
})

/** Returns the read rules, which the versions of one definition share. */
function readRulesOf(definition: CustomDefinition, { group, kind }: ApiResource): ReadRules {
  return getOrMake(rules, definition, () => new ReadRules({ ...definition, group, kind }))
}

export class ResourceRegistry implements ServedList<ServedResource> {
  readonly #owners = new Map<string, ReadonlyMap<string, ServedResource>>()
  readonly #byPath = new Map<string, ServedResource>()
  readonly #listeners = new Set<(change: RegistryChange) => void>()
  readonly #leftOut: ReadonlySet<string>
  readonly #ownStrips: readonly StripRule[]
  #upstreamStrips: readonly StripRule[] = []
  #list: readonly ServedResource[] | undefined
  #generation = 0

  /**
   * @param leftOut ids of resources never served, even if a definition declares them.
   * @param strips what is left out of the objects of resources.
   */
  constructor(leftOut: Iterable<string> = [], strips: readonly StripRule[] = []) {
    this.#leftOut = new Set(leftOut)
    this.#ownStrips = strips
  }

  /** What is left out of objects here, also what the server behind `--upstream` has left out already. */
  get strips(): readonly StripRule[] {
    return [...this.#ownStrips, ...this.#upstreamStrips]
  }

  set upstreamStrips(rules: readonly StripRule[]) {
    this.#upstreamStrips = rules
    for (const [owner, entries] of this.#owners) this.set(owner, [...entries.values()])
  }

  /** Rises with every change. Data derived from the registry is cached under it. */
  get generation(): number {
    return this.#generation
  }

  /** Returns the resources in the order in which they were set: well-known first, CRDs last. */
  list(): readonly ServedResource[] {
    this.#list ??= [...this.#byPath.values()]
    return this.#list
  }

  find(group: string, version: string, plural: string): ServedResource | undefined {
    return this.#byPath.get(pathOf(group, version, plural))
  }

  /** Returns the owner of the path of this entry; undefined if nothing is served there. */
  ownerOf(entry: ServedResource): string | undefined {
    const path = pathOfEntry(entry)
    for (const [owner, entries] of this.#owners) if (entries.has(path)) return owner
    return undefined
  }

  ownedBy(owner: string): readonly ServedResource[] {
    return [...(this.#owners.get(owner)?.values() ?? [])]
  }

  /**
   * Whether any resource of the group (and version) is served, to distinguish an unknown resource from an unknown
   * group.
   */
  hasGroup(group: string, version?: string): boolean {
    return this.list().some(
      ({ resource }) => resource.group === group && (version === undefined || resource.version === version),
    )
  }

  /**
   * Replaces all entries of `owner`. An entry equal to the one before keeps its identity and is not part of the change.
   *
   * @returns the entries refused because another owner serves that path (or the owner named it twice).
   */
  set(owner: string, entries: readonly ServedResource[]): readonly ServedResource[] {
    const before = this.#owners.get(owner) ?? new Map<string, ServedResource>()
    const after = new Map<string, ServedResource>()
    const refused: ServedResource[] = []
    for (const one of entries) {
      if (this.#leftOut.has(resourceId(one.resource))) continue
      const entry = this.#stripped(one, entries)
      const path = pathOfEntry(entry)
      if (after.has(path) || (this.#byPath.has(path) && !before.has(path))) {
        refused.push(entry)
        continue
      }
      const old = before.get(path)
      after.set(path, old !== undefined && isSame(old, entry) ? old : entry)
    }
    const removed = [...before].filter(([path, entry]) => after.get(path) !== entry)
    const added = [...after].filter(([path, entry]) => before.get(path) !== entry)
    if (after.size === 0) this.#owners.delete(owner)
    else this.#owners.set(owner, after)
    if (removed.length === 0 && added.length === 0) return refused

    for (const [path] of removed) this.#byPath.delete(path)
    for (const [path, entry] of added) this.#byPath.set(path, entry)
    this.#list = undefined
    this.#generation++
    const change = { added: added.map(([, entry]) => entry), removed: removed.map(([, entry]) => entry) }
    for (const listener of this.#listeners) listener(change)
    return refused
  }

  #stripped(entry: ServedResource, entries: readonly ServedResource[]): ServedResource {
    const { strips } = this
    if (strips.length === 0 && entry.resource.stripped === undefined) return entry
    const id = resourceId(entry.resource)
    const columns = entries
      .filter(({ resource }) => resourceId(resource) === id)
      .flatMap(({ printerColumns }) => printerColumns ?? [])
    return { ...entry, resource: strippedResource(entry.resource, strips, columns) }
  }

  remove(owner: string): void {
    this.set(owner, [])
  }

  /** Calls the listener synchronously, after each change. @returns a function that removes it. */
  onChange(listener: (change: RegistryChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}

/** Compares by value, because a CRD is rewritten whenever its status changes and watchers must not notice that. */
function isSame(a: ServedResource, b: ServedResource): boolean {
  return valueOf(a) === valueOf(b)
}

/** Equal for two entries that show objects in the same way, even in different processes. */
export const fingerprintOf = oncePer((served: ServedResource) =>
  createHash('sha256').update(valueOf(served)).digest('base64url'),
)

/** Everything in the entry as text, with a fingerprint in place of large schemas. */
export const valueOf = oncePer(({ schema, definition, ...rest }: ServedResource) =>
  exactText([rest, definition === null ? schema?.parsed : definition.fingerprint]),
)
