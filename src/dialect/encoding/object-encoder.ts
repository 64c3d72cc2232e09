/**
 * Objects as one negotiated form writes them: in a watch, in a list, alone. The broadcast groups watchers by `key`, the
 * list cache keys its bodies with it, so two encoders with equal keys write equal bytes.
 */
import type { BodyEncoder } from '../../model/body-encoder.js'
import type { Revision } from '../../model/revision.js'
import type { StoredObject } from '../../model/stored-object.js'
import type { ListMetadata } from '../partial-object.js'

export interface ObjectEncoder extends BodyEncoder {
  /** A list as bytes in pieces: `listHead`, items with `separator` between them, `listTail`. */
  listHead(metadata: ListMetadata): Buffer
  /** null: it cannot be read and is left out, which has been counted and logged. */
  listItem(object: StoredObject): Buffer | null
  readonly separator: Buffer
  readonly listTail: Buffer
  /** For encodings whose lists begin with their length: all of it instead of the pieces above. */
  readonly list?: (metadata: ListMetadata, objects: readonly StoredObject[]) => Iterable<Buffer>
  /** One object as the whole answer; null as for `listItem`. */
  single(object: StoredObject): Buffer | null
}

/** The annotation of the bookmark that ends an initial state. */
export const INITIAL_EVENTS_END = 'k8s.io/initial-events-end'

/** `metadata` of a bookmark: nothing but a position. */
export function bookmarkMetadata(revision: Revision, initialEventsEnd: boolean): string {
  const annotations = initialEventsEnd ? `,"annotations":{"${INITIAL_EVENTS_END}":"true"}` : ''
  return `{"resourceVersion":"${revision}"${annotations}}`
}
