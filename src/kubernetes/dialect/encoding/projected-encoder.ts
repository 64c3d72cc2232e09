/**
 * Writes objects reduced to the fields that a client named. A change that touches none of these fields is not an
 * event for that client.
 */
import { type Spliceable, spliceResourceVersion } from '../../codec/json-scan.js'
import type { Revision } from '../../../engine/model/revision.js'
import type { StoredObject } from '../../../engine/model/stored-object.js'
import type { Scratch } from '../../../support/scratch.js'
import { copyParts } from '../../codec/json-parts.js'
import type { Projection } from '../projection.js'
import type { JsonView } from './json-encoder.js'
import type { JsonObjectEncoder } from './object-encoder.js'

/** @param whole the encoder of the same resource without a projection. */
export function projectedEncoder(whole: JsonObjectEncoder, view: JsonView, projection: Projection): JsonObjectEncoder {
  const reduce = (object: StoredObject): Spliceable | null => {
    const json = view(object)
    return json === null ? null : copyParts(json.bytes, projection.root, false)
  }
  const encode = (object: StoredObject, revision: Revision, scratch?: Scratch): Buffer | null => {
    const reduced = reduce(object)
    return reduced === null ? null : spliceResourceVersion(reduced, revision, scratch)
  }
  return {
    ...whole,
    key: `${whole.key}/fields=${projection.canonical}`,
    encode,
    isSame: (older, newer) => {
      const [before, after] = [reduce(older), reduce(newer)]
      return before !== null && after !== null && before.bytes.equals(after.bytes)
    },
    list: { ...whole.list, item: (object, scratch) => encode(object, object.modRevision, scratch) },
    single: (object) => encode(object, object.modRevision),
  }
}
