/**
 * The JSON of objects as the resources served here have them: one place knows which versions of a resource can be made
 * of what is stored, for answers and for all that reads objects in this process (definitions, permissions, writes,
 * selectors).
 */
import type { ObjectViews } from '../../kubernetes/codec/object-views.js'
import { readMetadata } from '../../kubernetes/codec/protobuf/metadata.js'
import type { JsonView } from '../../kubernetes/dialect/encoding/json-encoder.js'
import { type ResourceRegistry, type ServedResource, viewTargetOf } from '../../kubernetes/dialect/resource-registry.js'
import { apiVersion, type Resource, resourceId } from '../../engine/model/resource.js'
import { UnshowableError } from '../../engine/model/status.js'
import type { StoredObject } from '../../engine/model/stored-object.js'

export class ServedViews {
  readonly #views: ObjectViews
  readonly #registry: ResourceRegistry

  constructor(views: ObjectViews, registry: ResourceRegistry) {
    this.#views = views
    this.#registry = registry
  }

  /**
   * For answers. An object that cannot be shown is an error that names it: a list without it would be taken for all there
   * is.
   */
  viewOf(served: ServedResource): JsonView {
    const target = viewTargetOf(served)
    return (object) => {
      const json = this.#views.json(object, target)
      if (json === null) throw notShown(served, object)
      return json
    }
  }

  /** Returns null for an object that has no JSON in that version, which has been logged. */
  json(served: ServedResource, object: StoredObject): Buffer | null {
    return this.#views.json(object, viewTargetOf(served))?.bytes ?? null
  }

  /** Whether objects stored as this kind and version can be shown as the served version at all. */
  canShow(served: ServedResource, object: StoredObject): boolean {
    return this.#views.canShow(object, viewTargetOf(served))
  }

  /** The fields of a stored object that have no JSON. */
  unknownFields(object: StoredObject): readonly string[] {
    return this.#views.unknownFields(object)
  }

  /**
   * The JSON that selectors look at.
   *
   * @param resource one of those that the object may be shown as.
   * @param version the one that was asked for; '': what all have in common, as it is stored.
   */
  forSelectors(resource: Resource, object: StoredObject, onlyMetadata: boolean, version: string): Buffer | null {
    if (version !== '') {
      const [name = '', group = ''] = version.split('/').toReversed()
      const served = this.#registry.find(group, name, resource.plural)
      return served === undefined ? null : (this.viewOf(served)(object)?.bytes ?? null)
    }
    if (onlyMetadata) return object.encoding === 'protobuf' ? metadataJson(object) : object.bytes
    // Its fields are what its own version shows, where that is served.
    const [name = '', group = ''] = object.apiVersion.split('/').toReversed()
    const own = group === resource.group ? this.#registry.find(group, name, resource.plural) : undefined
    if (own?.origin === 'custom') return this.json(own, object)
    return (
      this.#views.json(object, { apiVersion: object.apiVersion, convertsByName: false, rules: null })?.bytes ?? null
    )
  }
}

function notShown({ resource, convertsByWebhook }: ServedResource, object: StoredObject): UnshowableError {
  const place = object.namespace === '' ? object.name : `${object.namespace}/${object.name}`
  const why = convertsByWebhook ? ', which a webhook converts that is not asked from here' : ''
  return new UnshowableError(
    `${resourceId(resource)} ${JSON.stringify(place)} is stored as ${object.kind} of ${object.apiVersion} ` +
      `(${object.encoding}) and cannot be shown as ${apiVersion(resource)}${why}`,
    { details: { name: object.name, group: resource.group, kind: resource.plural } },
  )
}

/** Label selectors need no more than this, at a fraction of the cost of the whole object. */
function metadataJson(object: StoredObject): Buffer {
  return Buffer.from(JSON.stringify({ metadata: { labels: Object.fromEntries(readMetadata(object.bytes).labels) } }))
}
