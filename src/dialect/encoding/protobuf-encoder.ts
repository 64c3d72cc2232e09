/**
 * Writes whole objects stored as Kubernetes protobuf for clients that read it: the stored bytes with the resourceVersion
 * inserted at wire level. Objects stored as JSON have no protobuf form here, since that would take a schema per kind.
 */
import { encodeBookmark, encodeList, encodeStatus, objectItem } from '../../codec/protobuf/encode.js'
import { openStored, withResourceVersion } from '../../codec/protobuf/resource-version.js'
import { hasSameMessage } from '../../codec/versions/convert.js'
import { type Resource, apiVersion } from '../../model/resource.js'
import { NotAcceptableError } from '../../model/status.js'
import type { StoredObject } from '../../model/stored-object.js'
import { INITIAL_EVENTS_END, type ObjectEncoder } from './object-encoder.js'

const NOTHING = Buffer.alloc(0)

/** A list in protobuf begins with its length, so only `list` can write it. */
export const NO_PIECES = {
  listHead: () => NOTHING,
  listItem: () => NOTHING,
  separator: NOTHING,
  listTail: NOTHING,
} as const

/** Ends a stream that cannot go on in protobuf: the client asks again and is answered in JSON. */
function notProtobuf(resource: Resource, object: StoredObject): NotAcceptableError {
  return new NotAcceptableError(
    `${resource.plural} ${JSON.stringify(object.name)} is stored in a form that cannot be served as ${apiVersion(resource)} in protobuf`,
  )
}

export function protobufEncoder(resource: Resource): ObjectEncoder {
  const version = apiVersion(resource)
  const stored = (object: StoredObject): Buffer => {
    if (object.encoding === 'protobuf' && hasSameMessage(object.apiVersion, version, object.kind)) return object.bytes
    throw notProtobuf(resource, object)
  }
  const encode = (object: StoredObject, revision: number): Buffer =>
    withResourceVersion(stored(object), String(revision), version)
  return {
    ...NO_PIECES,
    key: `protobuf/none/${version}`,
    apiVersion: version,
    encode,
    encodeFirst: null,
    isSame: null,
    bookmark: (revision, initialEventsEnd) =>
      encodeBookmark(
        version,
        resource.kind,
        String(revision),
        initialEventsEnd ? { [INITIAL_EVENTS_END]: 'true' } : {},
      ),
    status: encodeStatus,
    list: (metadata, objects) => {
      const items = objects.map((object) => objectItem(openStored(stored(object)), String(object.modRevision)))
      return encodeList(version, resource.listKind, metadata, items).chunks
    },
    single: (object) => encode(object, object.modRevision),
  }
}
