/** PartialObjectMetadata in JSON: each object reduced to its metadata. */
import { wholeObjects } from './failure-of.js'
import { type ApiResource, apiVersion } from '../../model/api-resource.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { MetaVersion } from '../accept.js'
import { partialObject, partialObjectListHead } from '../partial-object.js'
import { type JsonView, encodeStatus } from './json-encoder.js'
import { bookmarkMetadata } from './bookmark-metadata.js'
import type { JsonObjectEncoder } from './object-encoder.js'

export function partialEncoder(resource: ApiResource, view: JsonView, metaVersion: MetaVersion): JsonObjectEncoder {
  const reduce = (object: StoredObject, revision: Revision): Buffer | null => {
    const json = view(object)
    return json === null ? null : partialObject(json, revision, metaVersion)
  }
  return {
    ...wholeObjects(encodeStatus),
    key: `partial/${metaVersion}/${apiVersion(resource)}`,
    schemaVersion: apiVersion(resource),
    encode: reduce,
    bookmark: (bookmark) =>
      Buffer.from(
        `{"kind":"PartialObjectMetadata","apiVersion":"${metaVersion}","metadata":${JSON.stringify(bookmarkMetadata(bookmark))}}`,
      ),
    list: {
      head: (metadata) => partialObjectListHead(metadata, metaVersion),
      item: (object) => reduce(object, object.modRevision),
    },
    single: (object) => reduce(object, object.modRevision),
  }
}
