/** The guard before the sink: what came from a watch, against what was handed over already. */
import type { Batch } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { FeedPlace } from './feed-state.js'

export interface Screened {
  /** Ascending, all above `place.position`. */
  readonly fresh: readonly Batch[]
  /** Events at or below what was settled when they came: repetitions. */
  readonly repeatedEvents: number
  /** The first batch between `settled` and `position`, where etcd had said there was none; nothing after it is taken. */
  readonly contradiction: Revision | null
}

/** Allocates nothing per batch in the usual case, in which everything is fresh. */
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
