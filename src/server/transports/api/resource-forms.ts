/**
 * Decides in which forms a resource can be answered (JSON, YAML, protobuf, tables), and chooses the encoder for each.
 */
import type { WatchCache } from '../../../engine/cache/watch-cache.js'
import { hasSameMessage } from '../../../kubernetes/codec/versions/convert.js'
import type { Schema } from '../../../kubernetes/codec/protobuf/schema.js'
import type { Negotiated, Servable } from '../../../kubernetes/dialect/accept.js'
import { chooseEncoder } from '../../../kubernetes/dialect/encoding/encoders.js'
import type { JsonView } from '../../../kubernetes/dialect/encoding/json-encoder.js'
import type { ObjectEncoder } from '../../../kubernetes/dialect/encoding/object-encoder.js'
import type { Projection } from '../../../kubernetes/dialect/projection.js'
import { scaleResource, scaleView } from '../../../kubernetes/dialect/scale.js'
import type { ServedResource } from '../../../kubernetes/dialect/resource-registry.js'
import { apiVersion } from '../../../kubernetes/model/api-resource.js'
import { NotAcceptableError } from '../../../kubernetes/model/status.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { Clock } from '../../../support/clock.js'

/** A resource, and the cache that a request reads. The cache is null if the request reads none, such as a write. */
export interface FormedResource {
  readonly served: ServedResource
  readonly cache: WatchCache | null
  /** Default: the objects themselves. */
  readonly view?: JsonView
}

export interface FormOptions {
  readonly includeObject: string
  readonly projection: Projection | null
}

export interface JsonViews {
  viewOf(served: ServedResource): JsonView
  /** Whether an object can be shown in the served version at all. */
  canShow(served: ServedResource, object: StoredObject): boolean
  /** Returns the fields of a stored object that have no JSON form; empty for nearly every object. */
  unknownFields(object: StoredObject): readonly string[]
  /** The messages in which objects can be written. */
  readonly schema: Schema
}

const ONLY_JSON: Servable = { protobufObjects: false }

export class ResourceForms {
  constructor(
    private readonly views: JsonViews,
    private readonly clock: Clock,
  ) {}

  /** Returns the resource that contains the scales of these objects. */
  scalesOf({ served }: FormedResource): FormedResource {
    const { scale } = served.subresources
    if (scale === null) throw new RangeError(`${served.resource.plural} have no scale`)
    return { served: scaleResource(served), cache: null, view: scaleView(scale, this.views.viewOf(served)) }
  }

  /** Returns the fields of an object that only protobuf can show. */
  unknownFields(object: StoredObject): readonly string[] {
    return this.views.unknownFields(object)
  }

  /** Returns the forms that can be negotiated for the resource. */
  servable({ served, cache, view }: FormedResource): Servable {
    const isBuiltIn = served.origin === 'well-known' || view !== undefined
    const { kind } = served.resource
    if (isBuiltIn && this.views.schema.messageOfKind(apiVersion(served.resource), kind) !== undefined) return {}
    if (cache === null || !cache.contents.isAllProtobuf) return ONLY_JSON
    const version = apiVersion(served.resource)
    // An object may still be stored in an older version. If that version differs in more than its name, the object
    // would end lists and watches of the newer version.
    const isSame = [...cache.contents.protobufTypes].every((stored) => {
      const [from = '', kind = ''] = stored.split(' ')
      return hasSameMessage(from, version, kind)
    })
    return { protobufObjects: isSame }
  }

  /** @throws NotAcceptableError when the resource is not available in that form; BadRequestError. */
  encoder(resource: FormedResource, form: Negotiated, { includeObject, projection }: FormOptions): ObjectEncoder {
    if (form.encoding !== 'protobuf') this.#assertHasJson(resource)
    const { served } = resource
    const { schema } = this.views
    const parts = { view: resource.view ?? this.views.viewOf(served), schema, now: () => this.clock.now() }
    return chooseEncoder(parts, served, form, includeObject, projection)
  }

  /** @throws NotAcceptableError when the stored objects have no JSON form here. */
  #assertHasJson({ served, cache }: FormedResource): void {
    if (cache === null || !cache.contents.isAllProtobuf) return
    for (const object of cache.snapshot().objects(cache.prefix)) {
      if (this.views.canShow(served, object)) return
      throw new NotAcceptableError(
        `${served.resource.plural} are stored as protobuf (${object.typeName} of ${object.schemaVersion}) without a schema for ` +
          `${apiVersion(served.resource)}: ask for application/vnd.kubernetes.protobuf, or start with --proto-descriptors`,
      )
    }
  }
}
