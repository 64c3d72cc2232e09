/**
 * Writes objects stored as Kubernetes protobuf for clients that read it: the stored bytes with the resourceVersion
 * inserted at wire level, whole or as metadata alone. Objects stored as JSON have no protobuf form here, since that
 * would take a schema per kind.
 */
import {
  encodeBookmark,
  encodeList,
  encodePartialObjectMetadata,
  encodeStatus,
  metadataItem,
  objectItem,
} from '../../codec/protobuf/encode.js'
import { openStored, withResourceVersion } from '../../codec/protobuf/resource-version.js'
import { hasSameMessage } from '../../codec/versions/convert.js'
import { type Resource, apiVersion } from '../../model/resource.js'
import { NotAcceptableError } from '../../model/status.js'
import type { StoredObject } from '../../model/stored-object.js'
import { INITIAL_EVENTS_END, type ObjectEncoder } from './object-encoder.js'

const NOTHING = Buffer.alloc(0)

/** Ends a stream that cannot go on in protobuf: the client asks again and is answered in JSON. */
function notProtobuf(resource: Resource, object: StoredObject): NotAcceptableError {
  return new NotAcceptableError(
    `${resource.plural} ${JSON.stringify(object.name)} is stored in a form that cannot be served as ${apiVersion(resource)} in protobuf`,
  )
}

export function protobufEncoder(resource: Resource, transform: 'none' | 'partial'): ObjectEncoder {
  const version = apiVersion(resource)
  const isPartial = transform === 'partial'
  const stored = (object: StoredObject): Buffer => {
    if (object.encoding === 'protobuf' && (isPartial || hasSameMessage(object.apiVersion, version, object.kind))) {
      return object.bytes
    }
    throw notProtobuf(resource, object)
  }
  const encode = (object: StoredObject, revision: number): Buffer =>
    isPartial
      ? encodePartialObjectMetadata(openStored(stored(object)), String(revision))
      : withResourceVersion(stored(object), String(revision), version)
  const kind = isPartial ? 'PartialObjectMetadata' : resource.kind
  const metaVersion = isPartial ? 'meta.k8s.io/v1' : version
  return {
    key: `protobuf/${transform}/${version}`,
    apiVersion: version,
    encode,
    encodeFirst: null,
    isSame: null,
    bookmark: (revision, initialEventsEnd) =>
      encodeBookmark(metaVersion, kind, String(revision), initialEventsEnd ? { [INITIAL_EVENTS_END]: 'true' } : {}),
    status: encodeStatus,
    // A list in protobuf begins with its length, so only `list` can write it.
    listHead: () => NOTHING,
    listItem: () => NOTHING,
    separator: NOTHING,
    listTail: NOTHING,
    list: (metadata, objects) => {
      const items = objects.map((object) => {
        const opened = openStored(stored(object))
        const resourceVersion = String(object.modRevision)
        return isPartial ? metadataItem(opened, resourceVersion) : objectItem(opened, resourceVersion)
      })
      const listKind = isPartial ? 'PartialObjectMetadataList' : resource.listKind
      return encodeList(metaVersion, listKind, metadata, items).chunks
    },
    single: (object) => encode(object, object.modRevision),
  }
}
