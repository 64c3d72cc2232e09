/**
 * Writes PartialObjectMetadata as protobuf, for every object however it is stored. Metadata stored as protobuf is cut
 * out of the bytes; metadata stored as JSON is re-encoded.
 */
import {
  encodedMetadataItem,
  encodePartialObjectMetadata,
  encodeStatus,
  type ListItem,
  metadataItem,
} from '../../codec/protobuf/encode.js'
import { encodeObjectMeta } from '../../codec/protobuf/encode-object.js'
import { openStored } from '../../codec/protobuf/resource-version.js'
import { type Resource, apiVersion } from '../../../engine/model/resource.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { endOfValue } from '../../../support/json-walk.js'
import type { MetaVersion } from '../accept.js'
import type { JsonView } from './json-encoder.js'
import { bookmarkMetadata } from './bookmark.js'
import { isMetadataPlain } from './metadata-view.js'
import type { ObjectEncoder } from './object-encoder.js'
import { protobufList } from './protobuf-list.js'

export function protobufMetadataEncoder(resource: Resource, view: JsonView, metaVersion: MetaVersion): ObjectEncoder {
  const version = apiVersion(resource)
  const isPlain = isMetadataPlain(resource)
  /** Returns null for an unreadable object. */
  const itemOf = (object: StoredObject, revision: Revision): ListItem | null => {
    // A scale is made from an object of another kind.
    const isStored = object.encoding === 'protobuf' && object.kind === resource.kind
    if (isStored && isPlain) return metadataItem(openStored(object.bytes), String(revision))
    const json = view(object)
    if (json === null) return null
    const { bytes, metadataOffset } = json
    if (metadataOffset < 0) throw new RangeError('no metadata object to write as protobuf')
    const text = bytes.toString('utf8', metadataOffset - 1, endOfValue(bytes, metadataOffset - 1))
    return encodedMetadataItem(encodeObjectMeta(JSON.parse(text), String(revision)))
  }
  const encode = (object: StoredObject, revision: Revision): Buffer | null => {
    const item = itemOf(object, revision)
    return item === null ? null : encodePartialObjectMetadata(item, metaVersion)
  }
  return {
    key: `protobuf/partial/${metaVersion}/${version}`,
    apiVersion: version,
    encode,
    encodeFirst: null,
    isSame: null,
    bookmark: (bookmark) => {
      const metadata = bookmarkMetadata(bookmark)
      return encodePartialObjectMetadata(
        encodedMetadataItem(encodeObjectMeta(metadata, metadata.resourceVersion)),
        metaVersion,
      )
    },
    status: encodeStatus,
    list: (metadata, objects) =>
      protobufList(metaVersion, 'PartialObjectMetadataList', metadata, objects, (object) =>
        itemOf(object, object.modRevision),
      ),
    single: (object) => encode(object, object.modRevision),
  }
}
