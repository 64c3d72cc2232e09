/**
 * Tells a volume claim template of a StatefulSet from a copy of an existing claim, which has a uid. The API's own test
 * data has such copies.
 */
import type { WireReader } from './wire.js'

const METADATA_TAG = 0x0a
const UID_TAG = 0x2a

/** Whether the claim between `start` and `stop` has a uid in its metadata. */
export function hasUid(reader: WireReader, start: number, stop: number): boolean {
  reader.pos = start
  while (reader.pos < stop) {
    const tag = reader.readTag(stop)
    if (tag !== METADATA_TAG) {
      reader.skip(tag & 7, stop)
      continue
    }
    const metadataEnd = reader.readLength(stop) + reader.pos
    while (reader.pos < metadataEnd) {
      const inner = reader.readTag(metadataEnd)
      if (inner === UID_TAG && reader.readLength(metadataEnd) > 0) return true
      if (inner !== UID_TAG) reader.skip(inner & 7, metadataEnd)
    }
  }
  return false
}
