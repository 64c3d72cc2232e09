/** A revision after which a watcher may resume, because it has received everything up to that revision. */
import type { Revision } from './revision.js'

export interface Bookmark {
  readonly revision: Revision
  /** Whether it marks the end of the initial state. */
  readonly endsInitialEvents: boolean
}
