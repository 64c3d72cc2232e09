/** PartialObjectMetadata in JSON: each object reduced to its metadata. */
import { type Resource, apiVersion } from '../../../engine/model/resource.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { MetaVersion } from '../accept.js'
import { partialObject, partialObjectListHead } from '../partial-object.js'
import { type JsonView, encodeStatus } from './json-encoder.js'
import { bookmarkMetadata } from './bookmark.js'
import type { JsonObjectEncoder } from './object-encoder.js'

export function partialEncoder(resource: Resource, view: JsonView, metaVersion: MetaVersion): JsonObjectEncoder {
  const reduce = (object: StoredObject, revision: Revision): Buffer | null => {
    const json = view(object)
    return json === null ? null : partialObject(json, revision, metaVersion)
  }
  return {
    key: `partial/${metaVersion}/${apiVersion(resource)}`,
    apiVersion: apiVersion(resource),
    encode: reduce,
    encodeFirst: null,
    isSame: null,
    bookmark: (bookmark) =>
      Buffer.from(
        `{"kind":"PartialObjectMetadata","apiVersion":"${metaVersion}","metadata":${JSON.stringify(bookmarkMetadata(bookmark))}}`,
      ),
    status: encodeStatus,
    list: {
      head: (metadata) => partialObjectListHead(metadata, metaVersion),
      item: (object) => reduce(object, object.modRevision),
    },
    single: (object) => reduce(object, object.modRevision),
  }
}
