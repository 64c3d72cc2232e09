/**
 * Writes whole objects as Kubernetes protobuf. For objects stored as protobuf, these are the stored bytes with the
 * resourceVersion inserted at wire level. Objects of built-in kinds that are stored as JSON, or in a version with
 * other messages, are encoded from the JSON in which they are shown.
 */
import { wholeObjects } from './failure-of.js'
import { readPlainTree } from '../../codec/json-tree.js'
import type { LeftOutFields } from '../../codec/left-out-fields.js'
import { encodeIfPossible } from '../../codec/protobuf/encode-object.js'
import { encodeBookmark, encodeStatus, objectItem } from '../../codec/protobuf/encode.js'
import { openStored, withResourceVersion } from '../../codec/protobuf/resource-version-splice.js'
import type { Schema } from '../../codec/protobuf/schema.js'
import { hasSameMessage } from '../../codec/versions/convert.js'
import { type ApiResource, apiVersion } from '../../model/api-resource.js'
import { NotAcceptableError } from '../../model/status.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { bookmarkMetadata } from './bookmark-metadata.js'
import type { JsonView } from './json-encoder.js'
import type { ObjectEncoder } from './object-encoder.js'
import { protobufList } from './protobuf-list.js'

/** Ends a stream that cannot continue in protobuf, so that the client retries and gets JSON. */
function notProtobuf(resource: ApiResource, object: StoredObject): NotAcceptableError {
  return new NotAcceptableError(
    `${resource.plural} ${JSON.stringify(object.name)} is stored in a form that cannot be served as ${apiVersion(resource)} in protobuf`,
  )
}

/** @param leftOut the fields that no object shows; `view` has left them out already. */
export function protobufEncoder(
  resource: ApiResource,
  view: JsonView,
  schema: Schema,
  leftOut: LeftOutFields | null,
): ObjectEncoder {
  const version = apiVersion(resource)
  const isBuiltIn = schema.messageOfKind(version, resource.kind) !== undefined
  const stored = (object: StoredObject): Buffer => {
    const isSame = object.typeName === resource.kind && hasSameMessage(object.schemaVersion, version, object.typeName)
    if (object.encoding === 'protobuf' && isSame) return leftOut?.fromProtobuf(object.bytes) ?? object.bytes
    const json = isBuiltIn ? view(object) : null
    const encoded = json === null ? null : encodeIfPossible(readPlainTree(json.bytes), schema)
    if (encoded === null) throw notProtobuf(resource, object)
    return encoded
  }
  const encode = (object: StoredObject, revision: number): Buffer =>
    withResourceVersion(stored(object), String(revision), version)
  return {
    ...wholeObjects(encodeStatus),
    key: `protobuf/none/${version}`,
    schemaVersion: version,
    encode,
    bookmark: (bookmark) => encodeBookmark(version, resource.kind, bookmarkMetadata(bookmark)),
    list: (metadata, objects) =>
      protobufList(version, resource.listKind, metadata, objects, (object) =>
        objectItem(openStored(stored(object)), String(object.modRevision)),
      ),
    single: (object) => encode(object, object.modRevision),
  }
}
