/**
 * Encodes Tables (`kind: Table`, meta.k8s.io/v1). A list is a head, rows joined by commas, and a tail, so that it can
 * be streamed; a watch event is a Table of one row. Cells are computed from a parsed copy of the object, while the
 * object inside a row is cut from the stored bytes.
 *
 * The query parameter `includeObject` decides which part of the object a row carries. Ages are computed at the time
 * of encoding, so Tables are not cached.
 */
import { type Spliceable, spliceResourceVersion } from '../../codec/json-scan.js'
import type { LeftOutFields } from '../../codec/left-out-fields.js'
import { hasUsualNumbers, jsonText, parseJsonTree } from '../../codec/json-tree.js'
import { formatResourceVersion } from '../../model/resource-version.js'
import type { BookmarkMetadata, ListMetadata } from '../../codec/protobuf/encode.js'
import type { Revision } from '../../../engine/model/revision.js'
import { BadRequestError } from '../../model/status.js'
import type { MetaVersion } from '../accept.js'
import { LIST_TAIL, listMetadataJson, partialObject } from '../partial-object.js'
import type { ServedResource } from '../resource-registry.js'
import { tableColumns, tableRow } from './table-rows.js'
import { oncePer } from '../../../support/memo.js'

const NO_COLUMNS = Buffer.from('null')
const ROWS = Buffer.from(',"rows":[')
const ROW_END = Buffer.from('}')

/** The part of its object that each row carries. */
export type IncludeObject = 'None' | 'Metadata' | 'Object'

/** @param text the query parameter. @throws BadRequestError in the API server's words */
export function includedInRows(text: string): IncludeObject {
  if (text === '') return 'Metadata'
  if (text === 'None' || text === 'Metadata' || text === 'Object') return text
  const shown = JSON.stringify(text.slice(0, 64))
  throw new BadRequestError(
    `Unable to convert to Table as requested: includeObject: Invalid value: ${shown}: must be 'Metadata', 'Object', 'None', or empty`,
  )
}

export interface TableForm {
  readonly include: IncludeObject
  readonly metaVersion: MetaVersion
  /** The fields that the included object does not show. */
  readonly leftOut?: LeftOutFields | null
}

/** Opens a Table. Rows follow, joined by commas, and then `LIST_TAIL`. */
export function tableHead(served: ServedResource, metadata: ListMetadata, { metaVersion }: TableForm): Buffer {
  return Buffer.concat([tableStart(listMetadataJson(metadata), metaVersion), columnsJson(served), ROWS])
}

/**
 * Encodes one row: cells, conditions if there are any, and the object.
 * @throws RangeError when the object has no metadata object.
 */
export function encodeTableRow(
  served: ServedResource,
  object: Spliceable,
  revision: Revision,
  nowMs: number,
  { include, metaVersion, leftOut }: TableForm,
): Buffer {
  const { cells, conditions } = tableRow(served, parseForCells(served, object.bytes), nowMs)
  const conditionsJson = conditions === undefined ? '' : `,"conditions":${JSON.stringify(conditions)}`
  // The API server always writes `object`, with null for a row without its object.
  const start = Buffer.from(
    `{"cells":[${cells.map(jsonText).join(',')}]${conditionsJson},"object":${include === 'None' ? 'null' : ''}`,
  )
  if (include === 'None') return Buffer.concat([start, ROW_END])
  const shown = leftOut?.fromJson(object) ?? object
  const included =
    include === 'Metadata' ? partialObject(shown, revision, metaVersion) : spliceResourceVersion(shown, revision)
  return Buffer.concat([start, included, ROW_END])
}

/**
 * Parses an object for its cells. The columns of built-in kinds show no unusual numbers, so plain JSON is enough
 * there.
 */
function parseForCells({ origin }: ServedResource, bytes: Buffer): unknown {
  const text = bytes.toString()
  return origin === 'well-known' || hasUsualNumbers(text) ? JSON.parse(text) : parseJsonTree(bytes).value
}

/**
 * Encodes the `object` of a watch event.
 *
 * @param withColumns true only for the first event of a watch, because clients keep the columns. The bytes of all
 * later events are then the same for every watcher.
 */
export function encodeTableEvent(
  served: ServedResource,
  object: Spliceable,
  revision: Revision,
  nowMs: number,
  form: TableForm,
  withColumns: boolean,
): Buffer {
  return Buffer.concat([
    tableStart(`{"resourceVersion":"${formatResourceVersion(revision)}"}`, form.metaVersion),
    withColumns ? columnsJson(served) : NO_COLUMNS,
    ROWS,
    encodeTableRow(served, object, revision, nowMs, form),
    LIST_TAIL,
  ])
}

/**
 * Returns the `object` of a BOOKMARK. As in the API server, it is a Table with one row, for an object that has only
 * metadata.
 *
 * @param metadataJson the metadata of that object.
 */
export function encodeTableBookmark(
  served: ServedResource,
  metadata: BookmarkMetadata,
  { metaVersion }: TableForm,
): Buffer {
  const { cells } = tableRow(served, {}, 0)
  return Buffer.concat([
    tableStart(JSON.stringify({ resourceVersion: metadata.resourceVersion }), metaVersion),
    NO_COLUMNS,
    ROWS,
    Buffer.from(
      `{"cells":[${cells.map(jsonText).join(',')}],"object":{"kind":"PartialObjectMetadata","apiVersion":"${metaVersion}","metadata":${JSON.stringify(metadata)}}}`,
    ),
    LIST_TAIL,
  ])
}

function tableStart(metadataJson: string, metaVersion: MetaVersion): Buffer {
  return Buffer.from(`{"kind":"Table","apiVersion":"${metaVersion}","metadata":${metadataJson},"columnDefinitions":`)
}

const columnsJson = oncePer((served: ServedResource) => Buffer.from(JSON.stringify(tableColumns(served))))
