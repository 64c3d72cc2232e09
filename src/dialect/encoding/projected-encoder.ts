/** Objects reduced to the fields a client named; a change of none of them is no event to it. */
import { spliceResourceVersion } from '../../codec/json-scan.js'
import type { StoredObject } from '../../model/stored-object.js'
import { type Projection, project } from '../projection.js'
import type { JsonView } from './json-encoder.js'
import type { ObjectEncoder } from './object-encoder.js'

/** @param whole how the same resource is written without a projection. */
export function projectedEncoder(whole: ObjectEncoder, view: JsonView, projection: Projection): ObjectEncoder {
  const reduce = (object: StoredObject) => project(view(object).bytes, projection)
  return {
    ...whole,
    key: `${whole.key}/fields=${projection.canonical}`,
    encode: (object, revision) => spliceResourceVersion(reduce(object), revision),
    isSame: (older, newer) => reduce(older).bytes.equals(reduce(newer).bytes),
    listItem: (object) => spliceResourceVersion(reduce(object), object.modRevision),
    single: (object) => spliceResourceVersion(reduce(object), object.modRevision),
  }
}
