/**
 * The values that all handlers of the API share: the resources, the limits and the settings of the process. `server/`
 * puts them together.
 */
import type { FairSemaphore } from '../../auth/fair-semaphore.js'
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import type { Resource } from '../../../engine/model/resource.js'
import type { StatusError } from '../../../engine/model/status.js'
import type { LiveResource, UncachedResource } from '../../../kubernetes/dialect/live-resource.js'
import type { Clock } from '../../../support/clock.js'
import type { Random } from '../../../support/random.js'
import type { BodyCache } from '../bodies/body-cache.js'
import type { MemoryPressure } from '../limits/memory-pressure.js'
import type { ResourceForms } from './resource-forms.js'

/** How long caches that many users share may answer by themselves. */
export interface PublicCaching {
  readonly maxAgeSeconds: number
  /** For so long after that they may answer once more while they ask anew. */
  readonly staleSeconds: number
}

export interface ApiContext {
  /** Returns a resource that is served here; undefined for any other. */
  find(group: string, version: string, plural: string): LiveResource | UncachedResource | undefined
  /** Why the server does not know yet whether it serves a group (for null: which groups it serves); null when it knows. */
  whyUnknown(group: string | null): StatusError | null
  /** Whether any resource or review of that version is served here. */
  hasGroup(group: string, version: string): boolean
  readonly forms: ResourceForms
  /** Equal in two processes that write the same bytes for the same object. */
  readonly release: string
  /** How caches that everybody shares may keep a resource; null: they may not. */
  publicCachingOf(resource: Resource): PublicCaching | null
  readonly bodies: BodyCache
  /** The slots for making states of the past, from which lists at an exact revision and later pages are read. */
  readonly pastStates: FairSemaphore
  /** The slots for initial states, each of which holds a state's bytes while it is sent. */
  readonly initialStates: IdentitySemaphore
  readonly watchers: IdentitySemaphore
  /** Called before a list, a watch or a write begins. */
  readonly memory: Pick<MemoryPressure, 'admit'>
  readonly clock: Clock
  readonly random: Random
  /** A watch without `timeoutSeconds` ends after a random time in [this, twice this), in milliseconds. */
  readonly minRequestTimeoutMs: number
  /** The longest time that a list may take to be answered and a body to arrive, in milliseconds. */
  readonly requestTimeoutMs: number
  /** Whether watches are compressed for every client that accepts gzip, not only for those that ask. */
  readonly compressesWatches: boolean
  /** Whether an API server answers what cannot be answered here (`--passthrough`). */
  readonly hasPassthrough: boolean
  /** Whether field selectors may name any scalar path of Kubernetes' own kinds and custom resources. */
  readonly isAnyFieldSelectable: boolean
  /** Whether the server is stopping, so that new watches are refused. */
  isDraining(): boolean
}
