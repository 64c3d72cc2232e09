/**
 * Watch messages in, whole revisions out. Pure: no stream, no clock.
 *
 * etcd never splits a revision over two answers: a live answer is one transaction, and a catching-up one stops at a
 * revision's boundary (server/storage/mvcc/watcher_group.go, `eventBatch.add`; the same since 3.4). Only a *fragmented*
 * answer is cut anywhere, so its last revision waits for the next fragment and nothing else is ever held back.
 *
 * An answer's header carries the store's revision, which for a catching-up watcher is far ahead of its events. So the
 * position is the last event's revision, and the header counts only in an answer that is nothing but progress.
 */
import type { Batch, KeyEvent } from '../../model/event.js'
import type { Revision } from '../../model/revision.js'
import type { WatchMessage } from './data-messages.js'

export interface WatchAssembler {
  /**
   * The revisions completed by this message, ascending; the array is the receiver's to keep.
   * Events at or before the position are dropped: etcd has repeated some after a restore from a snapshot (#15271), and
   * sent older ones than a future start revision (#20221).
   */
  add(message: WatchMessage): readonly Batch[]
  /** Whether everything up to `revision` may be told as delivered; false when it lies before the position. */
  advance(revision: Revision): boolean
  readonly droppedEvents: number
}

const NOTHING: readonly Batch[] = []

export function createWatchAssembler(startRevision: Revision): WatchAssembler {
  let position = startRevision - 1
  let heldRevision = 0
  let held: KeyEvent[] = []
  let droppedEvents = 0

  return {
    add({ events, revisions, isFragment }) {
      if (events.length === 0 && held.length === 0) return NOTHING
      const batches: Batch[] = []
      const complete = (): void => {
        if (held.length === 0) return
        batches.push({ revision: heldRevision as Revision, events: held })
        position = heldRevision
        held = []
      }
      for (let i = 0; i < events.length; i++) {
        const revision = revisions[i]!
        if (revision !== heldRevision || held.length === 0) {
          complete()
          if (revision <= position) {
            droppedEvents++
            continue
          }
          heldRevision = revision
        }
        held.push(events[i]!)
      }
      if (!isFragment) complete()
      return batches
    },
    advance(revision) {
      if (revision < position || held.length > 0) return false
      position = revision
      return true
    },
    get droppedEvents() {
      return droppedEvents
    },
  }
}
