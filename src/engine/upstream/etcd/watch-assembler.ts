/**
 * Turns watch messages into whole revisions. It is pure: it has no stream and no clock.
 *
 * etcd never splits a revision over two answers: a live answer is one transaction, and an answer that catches up stops
 * at a revision boundary (server/storage/mvcc/watcher_group.go, `eventBatch.add`; the same since 3.4). Only a
 * *fragmented* answer may be cut anywhere, and fragments are not requested, so nothing ever has to be held back.
 *
 * An answer's header carries the store's revision, which is far ahead of the events while the watcher catches up. The
 * position is therefore the last event's revision, and the header counts only in a pure progress answer.
 */
import type { Batch } from '../../model/event.js'
import type { Revision } from '../../model/revision.js'
import type { WatchMessage } from './data-messages.js'

export interface WatchAssembler {
  /**
   * Returns the revisions completed by this message in ascending order; the caller may keep the array. Events at or
   * before the position are dropped, because etcd has repeated some after a restore from a snapshot (#15271) and sent
   * older ones than a future start revision (#20221).
   */
  add(message: WatchMessage): readonly Batch[]
  /** Marks everything up to `revision` as delivered; returns false when it lies before the position. */
  advance(revision: Revision): boolean
  readonly droppedEvents: number
}

const NOTHING: readonly Batch[] = []

export function createWatchAssembler(startRevision: Revision): WatchAssembler {
  let position = startRevision - 1
  let droppedEvents = 0

  return {
    add({ events, revisions }) {
      if (events.length === 0) return NOTHING
      const batches: Batch[] = []
      for (let first = 0, end = 0; first < events.length; first = end) {
        const revision = revisions[first]!
        for (end = first + 1; end < events.length && revisions[end] === revision; end++);
        if (revision <= position) {
          droppedEvents += end - first
          continue
        }
        batches.push({ revision, events: events.slice(first, end) })
        position = revision
      }
      return batches
    },
    advance(revision) {
      if (revision < position) return false
      position = revision
      return true
    },
    get droppedEvents() {
      return droppedEvents
    },
  }
}
