/**
 * Makes the JSON of objects in the versions served here. Only this file knows which versions can be made from the
 * stored ones, for responses and for everything else that reads objects in this process (definitions, permissions,
 * writes, selectors).
 */
import type { ObjectViews } from '../../kubernetes/codec/object-views.js'
import { readMetadata } from '../../kubernetes/codec/protobuf/metadata.js'
import type { Schema } from '../../kubernetes/codec/protobuf/schema.js'
import type { JsonView } from '../../kubernetes/dialect/encoding/json-encoder.js'
import { type ResourceRegistry, type ServedResource, viewTargetOf } from '../../kubernetes/dialect/resource-registry.js'
import { apiVersion, type Resource, resourceId } from '../../engine/model/resource.js'
import { UnshowableError } from '../../engine/model/status.js'
import type { StoredObject } from '../../engine/model/stored-object.js'

export class ServedViews {
  readonly #views: ObjectViews
  readonly #registry: ResourceRegistry

  constructor(
    views: ObjectViews,
    registry: ResourceRegistry,
    readonly schema: Schema,
  ) {
    this.#views = views
    this.#registry = registry
  }

  /**
   * Returns the view for responses. For an object that cannot be shown, the view throws an error that names it, because
   * a list without the object would look complete.
   */
  viewOf(served: ServedResource): JsonView {
    const target = viewTargetOf(served)
    return (object) => {
      const json = this.#views.json(object, target)
      if (json === null) throw notShown(served, object)
      return json
    }
  }

  /** Returns the object as JSON in the served version; null if that is impossible, which has already been logged. */
  json(served: ServedResource, object: StoredObject): Buffer | null {
    return this.#views.json(object, viewTargetOf(served))?.bytes ?? null
  }

  /** Whether objects stored as this kind and version can be shown in the served version at all. */
  canShow(served: ServedResource, object: StoredObject): boolean {
    return this.#views.canShow(object, viewTargetOf(served))
  }

  /** Returns the fields of a stored object that have no JSON form. */
  unknownFields(object: StoredObject): readonly string[] {
    return this.#views.unknownFields(object)
  }

  /**
   * Returns the JSON that selectors read.
   *
   * @param resource any of the resources as which the object may be shown.
   * @param version the requested version; '' means the fields that all versions have in common, as stored.
   */
  forSelectors(resource: Resource, object: StoredObject, onlyMetadata: boolean, version: string): Buffer | null {
    if (version !== '') {
      const [name = '', group = ''] = version.split('/').toReversed()
      const served = this.#registry.find(group, name, resource.plural)
      return served === undefined ? null : (this.viewOf(served)(object)?.bytes ?? null)
    }
    if (onlyMetadata) return object.encoding === 'protobuf' ? metadataJson(object) : object.bytes
    // Fields are read in the object's own version if that is served.
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
  const why = convertsByWebhook ? ': its conversion webhook is not called from here' : ''
  return new UnshowableError(
    `${resourceId(resource)} ${JSON.stringify(place)} is stored as ${object.kind} of ${object.apiVersion} ` +
      `(${object.encoding}) and cannot be shown as ${apiVersion(resource)}${why}`,
    { details: { name: object.name, group: resource.group, kind: resource.plural } },
  )
}

/** Returns only the metadata that label selectors and shards need, at a fraction of the cost of the whole object. */
function metadataJson(object: StoredObject): Buffer {
  const { uid, labels } = readMetadata(object.bytes)
  return Buffer.from(JSON.stringify({ metadata: { uid, labels: Object.fromEntries(labels) } }))
}
