/**
 * The JSON of objects as the resources served here have them: one place knows which versions of a resource can be made of
 * what is stored, for answers and for all that reads objects within (definitions, rights, writes, selectors).
 */
import type { ObjectViews, ViewTarget } from './codec/object-views.js'
import { readMetadata } from './codec/protobuf/metadata.js'
import type { JsonView } from './dialect/encoding/json-encoder.js'
import type { ResourceRegistry, ServedResource } from './dialect/resource-registry.js'
import { apiVersion, type Resource } from './model/resource.js'
import type { StoredObject } from './model/stored-object.js'

export class ServedViews {
  readonly #views: ObjectViews
  readonly #registry: ResourceRegistry

  constructor(views: ObjectViews, registry: ResourceRegistry) {
    this.#views = views
    this.#registry = registry
  }

  /** For answers. */
  viewOf(served: ServedResource): JsonView {
    const target = targetOf(served)
    return (object) => this.#views.json(object, target)
  }

  /** null when it has no JSON as that version, which has been told. */
  json(served: ServedResource, object: StoredObject): Buffer | null {
    return this.#views.json(object, targetOf(served))?.bytes ?? null
  }

  /** Whether objects stored as this kind and version can be shown as the served version at all. */
  canShow(served: ServedResource, object: StoredObject): boolean {
    return this.#views.canShow(object, targetOf(served))
  }

  /**
   * What selectors look at.
   *
   * @param resource one of those that the object may be shown as.
   * @param version the one that was asked for; '': what all have in common, as it is stored.
   */
  forSelectors(resource: Resource, object: StoredObject, onlyMetadata: boolean, version: string): Buffer | null {
    if (version !== '') {
      const [name = '', group = ''] = version.split('/').toReversed()
      const served = this.#registry.find(group, name, resource.plural)
      return served === undefined ? null : this.json(served, object)
    }
    if (onlyMetadata && object.encoding === 'protobuf') return metadataJson(object)
    return this.#views.json(object, { apiVersion: object.apiVersion, convertsByName: false })?.bytes ?? null
  }
}

/** Custom resources convert by name: `None` is the only conversion that can be made here. */
function targetOf({ resource, origin }: ServedResource): ViewTarget {
  return { apiVersion: apiVersion(resource), convertsByName: origin !== 'well-known' }
}

/** Enough for label selectors, at a fraction of the cost of the whole. */
function metadataJson(object: StoredObject): Buffer {
  return Buffer.from(JSON.stringify({ metadata: { labels: Object.fromEntries(readMetadata(object.bytes).labels) } }))
}
