/** Writes Tables for `kubectl get`: one row per object. In a watch, only the first event contains the columns. */
import { wholeObjects } from './failure-of.js'
import { apiVersion } from '../../model/api-resource.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { ServedResource } from '../resource-registry.js'
import {
  encodeTableBookmark,
  encodeTableEvent,
  encodeTableRow,
  type TableForm,
  tableHead,
} from '../table/encode-table.js'
import type { ListMetadata } from '../../codec/protobuf/encode.js'
import { tableOrder } from '../table/table-rows.js'
import { type JsonView, encodeStatus } from './json-encoder.js'
import { bookmarkMetadata } from './bookmark-metadata.js'
import { LIST_TAIL } from '../partial-object.js'
import type { JsonObjectEncoder } from './object-encoder.js'

/** @param now the wall clock in milliseconds; ages are computed at encoding time. */
export function tableEncoder(
  served: ServedResource,
  view: JsonView,
  form: TableForm,
  now: () => number,
): JsonObjectEncoder {
  const version = apiVersion(served.resource)
  const event = (object: StoredObject, revision: Revision, withColumns: boolean): Buffer | null => {
    const json = view(object)
    return json === null ? null : encodeTableEvent(served, json, revision, now(), form, withColumns)
  }
  const row = (object: StoredObject): Buffer | null => {
    const json = view(object)
    return json === null ? null : encodeTableRow(served, json, object.modRevision, now(), form)
  }
  const order = tableOrder(served)
  const head = (metadata: ListMetadata): Buffer => tableHead(served, metadata, form)
  return {
    ...wholeObjects(encodeStatus),
    // The columns of a custom resource change with its definition.
    key: `table/${form.metaVersion}/${version}/${form.include}/${columnsKey(served)}`,
    schemaVersion: version,
    encode: (object, revision) => event(object, revision, false),
    encodeFirst: (object, revision) => event(object, revision, true),
    bookmark: (bookmark) => encodeTableBookmark(served, bookmarkMetadata(bookmark), form),
    list: { head, item: row },
    ...(order === undefined ? {} : { place: (object) => order(JSON.parse(view(object)?.bytes.toString() ?? 'null')) }),
    single: (object) => {
      const only = row(object)
      if (only === null) return null
      return Buffer.concat([head({ resourceVersion: String(object.modRevision) }), only, LIST_TAIL])
    },
  }
}

function columnsKey({ printerColumns }: ServedResource): string {
  return printerColumns === undefined ? '' : JSON.stringify(printerColumns)
}
