/**
 * Writes a list in protobuf. Such a list begins with its length, so all items are prepared before the first byte is
 * written.
 */
import { encodeList, type ListItem } from '../../codec/protobuf/encode.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import { turns } from '../../../support/turns.js'
import type { ListMetadata } from '../../codec/protobuf/encode.js'

/** @param itemOf returns null for an unreadable object, which is omitted. */
export function* protobufList(
  version: string,
  listKind: string,
  metadata: ListMetadata,
  objects: readonly StoredObject[],
  itemOf: (object: StoredObject) => ListItem | null,
): Generator<Buffer | null, void, void> {
  const items: ListItem[] = []
  for (const object of objects) {
    if (turns.isOver) yield null
    const item = itemOf(object)
    if (item !== null) items.push(item)
  }
  yield* encodeList(version, listKind, metadata, items).chunks
}
