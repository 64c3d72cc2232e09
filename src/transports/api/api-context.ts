/**
 * The values that all handlers of the API share: the resources, the limits and the settings of the process. `server/`
 * puts them together.
 */
import type { FairGate } from '../../auth/fair-gate.js'
import type { StatusError } from '../../model/status.js'
import type { LiveResource, UncachedResource } from '../../pipeline/live-resource.js'
import type { Clock } from '../../support/clock.js'
import type { Random } from '../../support/random.js'
import type { BodyCache } from '../bodies/body-cache.js'
import type { MemoryGate } from '../limits/memory-gate.js'
import type { WatcherLimits } from '../limits/watcher-limits.js'
import type { ResourceForms } from './resource-forms.js'

export interface ApiContext {
  find(group: string, version: string, plural: string): LiveResource | UncachedResource | undefined
  /** Why it is not known yet whether a group is served (null: which groups are); null: it is known. */
  whyUnknown(group: string | null): StatusError | null
  /** Whether any resource of that version is served here. */
  hasGroup(group: string, version: string): boolean
  readonly forms: ResourceForms
  readonly bodies: BodyCache
  /** Slots for making states of the past, which lists at an exact revision and later pages are read from. */
  readonly pastStates: FairGate
  /** Slots for initial states, each of which holds a state's bytes while it is sent. */
  readonly initialStates: FairGate
  readonly watchers: WatcherLimits
  /** Called before a list, a watch or a write begins. */
  readonly memory: Pick<MemoryGate, 'admit'>
  readonly clock: Clock
  readonly random: Random
  /** A watch without `timeoutSeconds` ends at a random time in [this, twice this), milliseconds. */
  readonly minRequestTimeoutMs: number
  /** A list that is not sent by then is cut off, milliseconds. */
  readonly requestTimeoutMs: number
  /** Whether watches are compressed for every client that accepts gzip, not only for those that ask. */
  readonly compressesWatches: boolean
  /** Whether the server is stopping, so that new watches are refused. */
  isDraining(): boolean
}
