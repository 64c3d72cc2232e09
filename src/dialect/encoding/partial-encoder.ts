/** PartialObjectMetadata in JSON: each object reduced to its metadata. */
import { type Resource, apiVersion } from '../../model/resource.js'
import { LIST_TAIL, partialObject, partialObjectListHead } from '../partial-object.js'
import { COMMA, type JsonView, encodeStatus } from './json-encoder.js'
import { type ObjectEncoder, bookmarkMetadata } from './object-encoder.js'

export function partialEncoder(resource: Resource, view: JsonView): ObjectEncoder {
  return {
    key: `partial/${apiVersion(resource)}`,
    apiVersion: apiVersion(resource),
    encode: (object, revision) => partialObject(view(object), revision),
    encodeFirst: null,
    isSame: null,
    bookmark: (revision, initialEventsEnd) =>
      Buffer.from(
        `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":${bookmarkMetadata(revision, initialEventsEnd)}}`,
      ),
    status: encodeStatus,
    listHead: partialObjectListHead,
    listItem: (object) => partialObject(view(object), object.modRevision),
    separator: COMMA,
    listTail: LIST_TAIL,
    single: (object) => partialObject(view(object), object.modRevision),
  }
}
