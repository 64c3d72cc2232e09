/**
 * One watcher: a place in a group's stream, never a queue.
 *
 *      starting ──▶ initial ──▶ lagging ──▶ active ──▶ ended
 *          │                       ▲  ▲        │
 *          └──────▶ waiting ───────┘  └────────┘ (the log was trimmed behind it)
 *
 * - `waiting`: asked for a future revision; outside until the cache gets there.
 * - `initial`: being sent a snapshot; what happens meanwhile is in the ring.
 * - `lagging`: fed from the ring, batch by batch.
 * - `active`: its revision is an offset of the group's log.
 * - `ending`: from any of them; it is told an error in its turn, and nothing else.
 *
 * The pump moves it and the group holds it; a transport tells it when its socket drains or closes.
 */
import type { EndReason } from '../model/end-reason.js'
import type { Revision } from '../model/revision.js'
import type { Status, StatusError } from '../model/status.js'
import type { Checksum } from '../support/crc32.js'
import type { Group } from './group.js'
import type { InitialFrames } from './initial-frames.js'

export type CursorState = 'starting' | 'waiting' | 'initial' | 'lagging' | 'active' | 'ending' | 'ended'

/**
 * A connection, as the broadcast sees it. Bytes given are shared and never changed afterwards; on a compressed wire they
 * come with the checksum of what they hold, else with null.
 */
export interface WatcherSink {
  /** Takes framed bytes. false: full; nothing more until `cursor.drained()`. */
  write(bytes: Buffer, checksum: Checksum | null): boolean
  /** Last bytes, then a clean end of the stream. @param error what the last bytes tell, where they tell an error. */
  end(bytes: Buffer | null, error: Status | null, checksum: Checksum | null): void
  /** For a peer that takes nothing any more. */
  destroy(): void
  /** Bytes taken from us that the peer has not taken yet. */
  readonly pendingBytes: number
}

export interface CursorOptions {
  /** The client asked for bookmarks. */
  readonly bookmarks: boolean
  /** Monotonic milliseconds at which the stream ends cleanly. */
  readonly deadlineMs: number
  /** Told of the bytes of initial state that were sent. @returns milliseconds to wait before more. */
  readonly pace: (bytes: number) => number
  /** The initial state has been handed over, or there was none. Called once at the most, before `onEnd`. */
  readonly onInitialComplete: () => void
  /** Called once. */
  readonly onEnd: (reason: EndReason) => void
}

export class Cursor {
  state: CursorState = 'starting'
  /** Everything at or before it has been written; while active, as of the last write. */
  revision: Revision
  /** In the group's log; meaningful while active. */
  offset = 0
  /** The socket is full. */
  isBlocked = false
  /** Monotonic milliseconds since when it has been blocked below the ring's floor; 0: it is not. */
  stuckSinceMs = 0
  /** While `ending`: what it is told. */
  lastError: { readonly error: StatusError; readonly reason: EndReason } | null = null
  /** In the pump's queue. */
  isQueued = false
  /** Index among the group's active cursors; -1 when it is not. */
  slot = -1
  /** The next event must be encoded as a first one (a Table's columns). */
  needsFirst: boolean
  initial: InitialFrames | null = null
  initialAt = 0
  /** Its initial state goes on when a timer says so. */
  isPaced = false
  /** Its end is to be marked by a bookmark. */
  initialMark = false
  /** A bookmark fell due while it was not at the head. */
  isBookmarkDue = false
  nextBookmarkMs = Number.POSITIVE_INFINITY
  hasFinalBookmark = false
  /** Its place in the schedule; -1: none. */
  dueTick = -1

  constructor(
    readonly group: Group,
    readonly sink: WatcherSink,
    readonly options: CursorOptions,
    revision: Revision,
  ) {
    this.revision = revision
    this.needsFirst = group.encoder.encodeFirst !== null
  }

  /** The transport's socket can take more. */
  drained(): void {
    if (this.state === 'ended' || !this.isBlocked) return
    this.isBlocked = false
    this.stuckSinceMs = 0
    this.group.owner.wake(this)
  }

  /** The transport's connection is gone. */
  closed(): void {
    this.group.owner.finish(this, 'closed')
  }
}
