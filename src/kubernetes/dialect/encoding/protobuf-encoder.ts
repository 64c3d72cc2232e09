/**
 * Writes whole objects as Kubernetes protobuf. For objects stored as protobuf, these are the stored bytes with the
 * resourceVersion inserted at wire level. Objects of built-in kinds that are stored as JSON, or in a version with
 * other messages, are encoded from the JSON in which they are shown.
 */
import { readPlainTree } from '../../codec/json-tree.js'
import { encodeIfPossible } from '../../codec/protobuf/encode-object.js'
import { encodeBookmark, encodeStatus, objectItem } from '../../codec/protobuf/encode.js'
import { openStored, withResourceVersion } from '../../codec/protobuf/resource-version.js'
import type { Schema } from '../../codec/protobuf/schema.js'
import { hasSameMessage } from '../../codec/versions/convert.js'
import { type Resource, apiVersion } from '../../../engine/model/resource.js'
import { NotAcceptableError } from '../../../engine/model/status.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { bookmarkMetadata } from './bookmark.js'
import type { JsonView } from './json-encoder.js'
import type { ObjectEncoder } from './object-encoder.js'
import { protobufList } from './protobuf-list.js'

/** Ends a stream that cannot continue in protobuf, so that the client retries and gets JSON. */
function notProtobuf(resource: Resource, object: StoredObject): NotAcceptableError {
  return new NotAcceptableError(
    `${resource.plural} ${JSON.stringify(object.name)} is stored in a form that cannot be served as ${apiVersion(resource)} in protobuf`,
  )
}

export function protobufEncoder(resource: Resource, view: JsonView, schema: Schema): ObjectEncoder {
  const version = apiVersion(resource)
  const isBuiltIn = schema.messageOfKind(version, resource.kind) !== undefined
  const stored = (object: StoredObject): Buffer => {
    const isSame = object.kind === resource.kind && hasSameMessage(object.apiVersion, version, object.kind)
    if (object.encoding === 'protobuf' && isSame) return object.bytes
    const json = isBuiltIn ? view(object) : null
    const encoded = json === null ? null : encodeIfPossible(readPlainTree(json.bytes), schema)
    if (encoded === null) throw notProtobuf(resource, object)
    return encoded
  }
  const encode = (object: StoredObject, revision: number): Buffer =>
    withResourceVersion(stored(object), String(revision), version)
  return {
    key: `protobuf/none/${version}`,
    apiVersion: version,
    encode,
    encodeFirst: null,
    isSame: null,
    bookmark: (bookmark) => encodeBookmark(version, resource.kind, bookmarkMetadata(bookmark)),
    status: encodeStatus,
    list: (metadata, objects) =>
      protobufList(version, resource.listKind, metadata, objects, (object) =>
        objectItem(openStored(stored(object)), String(object.modRevision)),
      ),
    single: (object) => encode(object, object.modRevision),
  }
}
