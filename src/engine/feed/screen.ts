/** Compares a watch's batches with what has been delivered before, and lets only new batches through to the sink. */
import type { Batch } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { FeedPlace } from './feed-state.js'

export interface Screened {
  /** The new batches in ascending order, all above `place.position`. */
  readonly fresh: readonly Batch[]
  /** The number of repeated events: those whose revision was at or below `settled` when they arrived. */
  readonly repeatedEvents: number
  /**
   * The revision of the first batch between `settled` and `position`, where etcd had reported that there was none. No
   * batch after it is accepted.
   */
  readonly contradiction: Revision | null
}

/** Allocates nothing per batch in the usual case, in which every batch is new. */
export function screen(batches: readonly Batch[], place: FeedPlace): Screened {
  let last = place.position
  for (const batch of batches) {
    if (batch.revision <= last) return sift(batches, place)
    last = batch.revision
  }
  return { fresh: batches, repeatedEvents: 0, contradiction: null }
}

function sift(batches: readonly Batch[], place: FeedPlace): Screened {
  const fresh: Batch[] = []
  let repeatedEvents = 0
  let { settled, position } = place
  for (const batch of batches) {
    if (batch.revision <= settled) {
      repeatedEvents += batch.events.length
    } else if (batch.revision <= position) {
      return { fresh, repeatedEvents, contradiction: batch.revision }
    } else {
      fresh.push(batch)
      settled = position = batch.revision
    }
  }
  return { fresh, repeatedEvents, contradiction: null }
}
