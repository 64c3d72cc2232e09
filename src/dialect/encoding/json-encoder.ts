/** Whole objects in JSON: the stored bytes with the resourceVersion put in. */
import { type Spliceable, spliceResourceVersion } from '../../codec/json-scan.js'
import { type Resource, apiVersion } from '../../model/resource.js'
import type { Revision } from '../../model/revision.js'
import type { Status } from '../../model/status.js'
import type { StoredObject } from '../../model/stored-object.js'
import { LIST_TAIL, listMetadataJson } from '../partial-object.js'
import { type ObjectEncoder, bookmarkMetadata } from './object-encoder.js'

/** The JSON of an object, whatever it is stored as; null when it has none. */
export type JsonView = (object: StoredObject) => Spliceable | null

export const COMMA = Buffer.from(',')

export function encodeStatus(status: Status): Buffer {
  return Buffer.from(JSON.stringify(status))
}

export function jsonEncoder(resource: Resource, view: JsonView): ObjectEncoder {
  const kind = JSON.stringify(resource.kind)
  const version = JSON.stringify(apiVersion(resource))
  const listKind = JSON.stringify(resource.listKind)
  const splice = (object: StoredObject, revision: Revision): Buffer | null => {
    const json = view(object)
    return json === null ? null : spliceResourceVersion(json, revision)
  }
  return {
    key: `json/${apiVersion(resource)}`,
    apiVersion: apiVersion(resource),
    encode: splice,
    encodeFirst: null,
    isSame: null,
    bookmark: (revision, initialEventsEnd) =>
      Buffer.from(
        `{"kind":${kind},"apiVersion":${version},"metadata":${bookmarkMetadata(revision, initialEventsEnd)}}`,
      ),
    status: encodeStatus,
    listHead: (metadata) =>
      Buffer.from(`{"kind":${listKind},"apiVersion":${version},"metadata":${listMetadataJson(metadata)},"items":[`),
    listItem: (object) => splice(object, object.modRevision),
    separator: COMMA,
    listTail: LIST_TAIL,
    single: (object) => splice(object, object.modRevision),
  }
}
