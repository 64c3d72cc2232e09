/** A position in the stream that a watcher may resume from: nothing at or before it is still to come. */
import type { Revision } from './revision.js'

export interface Bookmark {
  readonly revision: Revision
  /** It marks the end of the initial state. */
  readonly endsInitialEvents: boolean
}
