/** PartialObjectMetadata in JSON: each object reduced to its metadata. */
import { type Resource, apiVersion } from '../../../engine/model/resource.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { MetaVersion } from '../accept.js'
import { LIST_TAIL, partialObject, partialObjectListHead } from '../partial-object.js'
import { COMMA, type JsonView, encodeStatus } from './json-encoder.js'
import { type ObjectEncoder, bookmarkMetadata } from './object-encoder.js'

export function partialEncoder(resource: Resource, view: JsonView, metaVersion: MetaVersion): ObjectEncoder {
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
    bookmark: (revision, initialEventsEnd) =>
      Buffer.from(
        `{"kind":"PartialObjectMetadata","apiVersion":"${metaVersion}","metadata":${bookmarkMetadata(revision, initialEventsEnd)}}`,
      ),
    status: encodeStatus,
    listHead: (metadata) => partialObjectListHead(metadata, metaVersion),
    listItem: (object) => reduce(object, object.modRevision),
    separator: COMMA,
    listTail: LIST_TAIL,
    single: (object) => reduce(object, object.modRevision),
  }
}
