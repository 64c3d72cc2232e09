/** A position from which a watcher may resume: it has received everything up to there. */
import type { Revision } from './revision.js'

export interface Bookmark {
  readonly revision: Revision
  /** Whether it marks the end of the initial state. */
  readonly endsInitialEvents: boolean
}
