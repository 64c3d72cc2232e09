/** An item of the ring: the events of one revision as the cache saw them, each with the object it replaced. */
import type { Revision } from '../model/revision.js'
import type { StoredObject } from '../model/stored-object.js'
import type { RingItem } from './ring-buffer.js'

/** Rough size of the JavaScript objects around an event's bytes. It counts towards the ring's limit. */
const EVENT_OVERHEAD_BYTES = 256

export class CacheEvent {
  constructor(
    readonly revision: Revision,
    /** null if the object was deleted or can no longer be served. */
    readonly object: StoredObject | null,
    /** null if the object was created or could not be served before. At most one of `object` and `previous` is null. */
    readonly previous: StoredObject | null,
  ) {}
}

export class CacheBatch implements RingItem {
  readonly bytes: number
  /** The digest of the state before this batch; null until `positions.ts` has computed it. */
  digestBefore: string | null = null

  constructor(
    readonly revision: Revision,
    readonly events: readonly CacheEvent[],
    readonly receivedAtMs: number,
  ) {
    let bytes = EVENT_OVERHEAD_BYTES
    // Only the replaced version counts, because the new one is shared with the store, which holds it anyway.
    for (const { previous } of events)
      bytes += EVENT_OVERHEAD_BYTES + (previous?.size ?? 0) + (previous?.raw?.length ?? 0)
    this.bytes = bytes
  }
}
