/** Writes whole objects in JSON: the stored bytes with the resourceVersion inserted. */
import { wholeObjects } from './failure-of.js'
import { type Spliceable, scanObject, spliceResourceVersion } from '../../codec/json-scan.js'
import { type ApiResource, apiVersion } from '../../model/api-resource.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { Status } from '../../model/status.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { startsWith } from '../../../support/buffer-of.js'
import type { Scratch } from '../../../support/scratch.js'
import { encodeJsonTree, isRecord, readJsonTree } from '../../codec/json-tree.js'
import { listMetadataJson } from '../partial-object.js'
import { bookmarkMetadata } from './bookmark-metadata.js'
import type { JsonObjectEncoder } from './object-encoder.js'

/** Returns the JSON of an object, however it is stored; null if it has none. */
export type JsonView = (object: StoredObject) => Spliceable | null

export function encodeStatus(status: Status): Buffer {
  return Buffer.from(JSON.stringify(status))
}

const OPEN_BRACE = 0x7b

/** @param isTyped whether the kind is built in: the API server omits kind and apiVersion from its list items. */
export function jsonEncoder(resource: ApiResource, view: JsonView, isTyped = false): JsonObjectEncoder {
  const kind = JSON.stringify(resource.kind)
  const version = JSON.stringify(apiVersion(resource))
  const listKind = JSON.stringify(resource.listKind)
  const splice = (object: StoredObject, revision: Revision, scratch?: Scratch): Buffer | null => {
    const json = view(object)
    return json === null ? null : spliceResourceVersion(json, revision, scratch)
  }
  const starts = [`{"kind":${kind},"apiVersion":${version},`, `{"apiVersion":${version},"kind":${kind},`].map((text) =>
    Buffer.from(text),
  )
  const item = (object: StoredObject, scratch?: Scratch): Buffer | null => {
    const json = view(object)
    if (json === null) return null
    const { bytes, revisionOffset } = json
    const start = starts.find((text) => startsWith(bytes, text))
    if (start === undefined) return spliceResourceVersion(withoutType(json, resource), object.modRevision)
    const skipped = start.length - 1
    const rest = { bytes: bytes.subarray(skipped), revisionOffset: revisionOffset - skipped }
    const spliced = spliceResourceVersion(rest, object.modRevision, scratch)
    spliced[0] = OPEN_BRACE
    return spliced
  }
  return {
    ...wholeObjects(encodeStatus),
    key: `json/${apiVersion(resource)}`,
    schemaVersion: apiVersion(resource),
    encode: splice,
    bookmark: (bookmark) =>
      Buffer.from(`{"kind":${kind},"apiVersion":${version},"metadata":${JSON.stringify(bookmarkMetadata(bookmark))}}`),
    list: {
      head: (metadata) =>
        Buffer.from(`{"kind":${listKind},"apiVersion":${version},"metadata":${listMetadataJson(metadata)},"items":[`),
      item: isTyped ? item : (object, scratch) => splice(object, object.modRevision, scratch),
    },
    single: (object) => splice(object, object.modRevision),
  }
}

/** Handles the rare object whose type does not come first. An object of another type keeps that type. */
function withoutType(json: Spliceable, resource: ApiResource): Spliceable {
  const object = readJsonTree(json.bytes)
  if (!isRecord(object) || object['kind'] !== resource.kind || object['apiVersion'] !== apiVersion(resource))
    return json
  delete object['kind']
  delete object['apiVersion']
  return scanObject(encodeJsonTree(object)) ?? json
}
