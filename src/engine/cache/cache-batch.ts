/** An item of the ring: the events of one revision as the cache saw them, each with the object it replaced. */
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'
import type { RingItem } from './ring-buffer.js'

/** Rough size of the JavaScript objects around the bytes, for the ring's limit. */
const EVENT_OVERHEAD_BYTES = 256

export class CacheEvent {
  /** Encoded bodies, filled by the broadcast's groups during dispatch and released afterwards. */
  bodies: Map<string, Buffer | null> | null = null

  constructor(
    readonly revision: Revision,
    /** null if it was deleted or can no longer be served. */
    readonly object: StoredObject | null,
    /** null if it was created or could not be served before. At most one of the two is null. */
    readonly previous: StoredObject | null,
  ) {}
}

export class CacheBatch implements RingItem {
  readonly bytes: number
  /** The digest of the state before it, once `positions.ts` has been asked for one. */
  digestBefore: string | null = null

  constructor(
    readonly revision: Revision,
    readonly events: readonly CacheEvent[],
    readonly receivedAtMs: number,
  ) {
    let bytes = EVENT_OVERHEAD_BYTES
    // A version counts where it is replaced: until then the store holds it, and the batch that brought it shares it.
    for (const { previous } of events) bytes += EVENT_OVERHEAD_BYTES + (previous?.size ?? 0)
    this.bytes = bytes
  }
}
