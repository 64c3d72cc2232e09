/**
 * Writes PartialObjectMetadata as protobuf, for every object however it is stored. Metadata stored as protobuf is cut
 * out of the bytes; metadata stored as JSON is re-encoded.
 */
import { wholeObjects } from './failure-of.js'
import {
  encodedMetadataItem,
  encodePartialObjectMetadata,
  encodeStatus,
  type ListItem,
  metadataItem,
} from '../../codec/protobuf/encode.js'
import type { LeftOutFields } from '../../codec/left-out-fields.js'
import { encodeObjectMeta } from '../../codec/protobuf/encode-object.js'
import { openStored } from '../../codec/protobuf/resource-version-splice.js'
import { type ApiResource, apiVersion } from '../../model/api-resource.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { endOfValue } from '../../../support/json-walk.js'
import type { MetaVersion } from '../accept.js'
import type { JsonView } from './json-encoder.js'
import { bookmarkMetadata } from './bookmark-metadata.js'
import type { ObjectEncoder } from './object-encoder.js'
import { protobufList } from './protobuf-list.js'

/** @param leftOut the fields that no object shows; `view` has left them out already. */
export function protobufMetadataEncoder(
  resource: ApiResource,
  view: JsonView,
  metaVersion: MetaVersion,
  leftOut: LeftOutFields | null,
): ObjectEncoder {
  const version = apiVersion(resource)
  /** Returns null for an unreadable object. */
  const itemOf = (object: StoredObject, revision: Revision): ListItem | null => {
    // A scale is made from an object of another kind.
    const isStored = object.encoding === 'protobuf' && object.typeName === resource.kind
    if (isStored) {
      const { bytes } = object
      return metadataItem(openStored(leftOut?.fromProtobuf(bytes) ?? bytes), String(revision))
    }
    const json = view(object)
    if (json === null) return null
    const { bytes, revisionOffset } = json
    if (revisionOffset < 0) throw new RangeError('no metadata object to write as protobuf')
    const text = bytes.toString('utf8', revisionOffset - 1, endOfValue(bytes, revisionOffset - 1))
    return encodedMetadataItem(encodeObjectMeta(JSON.parse(text), String(revision)))
  }
  const encode = (object: StoredObject, revision: Revision): Buffer | null => {
    const item = itemOf(object, revision)
    return item === null ? null : encodePartialObjectMetadata(item, metaVersion)
  }
  return {
    ...wholeObjects(encodeStatus),
    key: `protobuf/partial/${metaVersion}/${version}`,
    schemaVersion: version,
    encode,
    bookmark: (bookmark) => {
      const metadata = bookmarkMetadata(bookmark)
      return encodePartialObjectMetadata(
        encodedMetadataItem(encodeObjectMeta(metadata, metadata.resourceVersion)),
        metaVersion,
      )
    },
    list: (metadata, objects) =>
      protobufList(metaVersion, 'PartialObjectMetadataList', metadata, objects, (object) =>
        itemOf(object, object.modRevision),
      ),
    single: (object) => encode(object, object.modRevision),
  }
}
