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
import { apiVersion, type ApiResource, resourceId } from '../../kubernetes/model/api-resource.js'
import { UnshowableError } from '../../kubernetes/model/status.js'
import type { FactSource } from '../../engine/model/fact-source.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import { FACT_PATHS } from '../../kubernetes/codec/fact-paths.js'
import { uidOf } from '../../kubernetes/codec/uid.js'

export class ServedViews {
  constructor(
    private readonly views: ObjectViews,
    private readonly registry: ResourceRegistry,
    readonly schema: Schema,
  ) {}

  /**
   * Returns the view for responses. For an object that cannot be shown, the view throws an error that names it, because
   * a list without the object would look complete.
   */
  viewOf(served: ServedResource): JsonView {
    const target = viewTargetOf(served)
    return (object) => {
      const json = this.views.json(object, target)
      if (json === null) throw notShown(served, object)
      return json
    }
  }

  /** Returns the object as JSON in the served version; null if that is impossible, which has already been logged. */
  json(served: ServedResource, object: StoredObject): Buffer | null {
    return this.views.json(object, viewTargetOf(served))?.bytes ?? null
  }

  /** Whether objects stored as this kind and version can be shown in the served version at all. */
  canShow(served: ServedResource, object: StoredObject): boolean {
    return this.views.canShow(object, viewTargetOf(served))
  }

  /** Returns the fields of a stored object that have no JSON form. */
  unknownFields(object: StoredObject): readonly string[] {
    return this.views.unknownFields(object)
  }

  /**
   * Returns the facts that selectors read.
   *
   * @param resource any of the resources as which the objects may be shown.
   */
  factsOf(resource: ApiResource): FactSource {
    return {
      paths: FACT_PATHS,
      json: (object, onlyAttributes, version) => this.#forSelectors(resource, object, onlyAttributes, version),
      identity: (object) => uidOf(this.#forSelectors(resource, object, true, '')),
    }
  }

  /** @param version the requested version; '' means the fields that all versions have in common, as stored. */
  #forSelectors(resource: ApiResource, object: StoredObject, onlyMetadata: boolean, version: string): Buffer | null {
    if (version !== '') {
      const [name = '', group = ''] = version.split('/').toReversed()
      const served = this.registry.find(group, name, resource.plural)
      return served === undefined ? null : (this.viewOf(served)(object)?.bytes ?? null)
    }
    if (onlyMetadata) return object.encoding === 'protobuf' ? metadataJson(object) : object.bytes
    // Fields are read in the object's own version if that is served.
    const [name = '', group = ''] = object.schemaVersion.split('/').toReversed()
    const own = group === resource.group ? this.registry.find(group, name, resource.plural) : undefined
    if (own?.origin === 'custom') return this.json(own, object)
    return (
      this.views.json(object, { apiVersion: object.schemaVersion, convertsByName: false, rules: null })?.bytes ?? null
    )
  }
}

function notShown({ resource, convertsByWebhook }: ServedResource, object: StoredObject): UnshowableError {
  const place = object.scope === '' ? object.name : `${object.scope}/${object.name}`
  const why = convertsByWebhook ? ': its conversion webhook is not called from here' : ''
  return new UnshowableError(
    `${resourceId(resource)} ${JSON.stringify(place)} is stored as ${object.typeName} of ${object.schemaVersion} ` +
      `(${object.encoding}) and cannot be shown as ${apiVersion(resource)}${why}`,
    { details: { name: object.name, group: resource.group, kind: resource.plural } },
  )
}

/** Returns only the metadata that label selectors and shards need, at a fraction of the cost of the whole object. */
function metadataJson(object: StoredObject): Buffer {
  const { uid, labels } = readMetadata(object.bytes)
  return Buffer.from(JSON.stringify({ metadata: { uid, labels: Object.fromEntries(labels) } }))
}
