/**
 * The context that all handlers of the API share: resources, documents, other servers, the gate, limits and settings.
 * `server/wiring/` assembles it.
 */
import type { FairSemaphore } from '../../auth/fair-semaphore.js'
import type { RequestMetrics } from '../../metrics/request-metrics.js'
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import type { Resource } from '../../../engine/model/resource.js'
import type { StatusError } from '../../../engine/model/status.js'
import type { Schema } from '../../../kubernetes/codec/protobuf/schema.js'
import type { Discovery } from '../../../kubernetes/dialect/discovery.js'
import type { LiveResource, UncachedResource } from '../../../kubernetes/dialect/live-resource.js'
import type { OpenApi } from '../../../kubernetes/dialect/openapi.js'
import type { OffLoopWriter } from '../../../kubernetes/writes/off-loop-writer.js'
import type { Clock } from '../../../support/clock.js'
import type { Random } from '../../../support/random.js'
import type { BodyCache } from '../bodies/body-cache.js'
import type { MemoryPressure } from '../limits/memory-pressure.js'
import type { RequestGate } from '../limits/request-gate.js'
import type { ApiServices } from '../passthrough/api-services.js'
import type { Passthrough } from '../passthrough/passthrough.js'
import type { ResourceForms } from './resource-forms.js'

/** How long shared caches may answer without asking this server. */
export interface PublicCaching {
  readonly maxAgeSeconds: number
  /** How much longer they may serve a stale response while they revalidate. */
  readonly staleSeconds: number
}

export interface ApiContext {
  /** Returns a resource served here; undefined for any other. */
  find(group: string, version: string, plural: string): LiveResource | UncachedResource | undefined
  /**
   * Returns why the server does not know yet whether it serves a group (for null: which groups it serves); null when it
   * knows.
   */
  whyUnknown(group: string | null): StatusError | null
  /** Why no resource is read here, as on an origin of a fleet; null if resources are read here. */
  readonly whyUnread: string | null
  /** Whether any resource or review of that version is served here. */
  hasGroup(group: string, version: string): boolean
  readonly forms: ResourceForms
  readonly discovery: Discovery
  readonly openApi: OpenApi
  /** Decodes protobuf bodies of reviews. */
  readonly schema: Schema
  readonly gate: RequestGate
  /** Answers everything that is not answered here (`--passthrough`); null without such a server. */
  readonly passthrough: Passthrough | null
  /** Group versions of other servers; null with a passthrough, whose server has its own. */
  readonly apiServices: ApiServices | null
  /** null if writes are disabled. */
  readonly writer: Pick<OffLoopWriter, 'perform' | 'hasProtobuf'> | null
  /** A text that is equal in two processes that encode the same object to the same bytes. */
  readonly release: string
  /** How shared caches may keep a resource; null if they may not. */
  publicCachingOf(resource: Resource): PublicCaching | null
  readonly bodies: BodyCache
  /** Slots for rebuilding past states, from which lists at an exact revision and later pages are read. */
  readonly pastStates: FairSemaphore
  /** Slots for waiting for a resource's first state. */
  readonly loadingReads: FairSemaphore
  /** Slots for initial states, each of which holds a state's bytes while it is sent. */
  readonly initialStates: IdentitySemaphore
  readonly watchers: IdentitySemaphore
  /** Slots for writes in progress, each of which holds its body. */
  readonly writes: IdentitySemaphore
  /** Called before a list, a watch or a write begins. */
  readonly memory: Pick<MemoryPressure, 'admit' | 'admitInTurn'>
  readonly clock: Clock
  readonly random: Random
  /** A watch without `timeoutSeconds` ends after a random time in [this, twice this), in milliseconds. */
  readonly minRequestTimeoutMs: number
  /** The time limit for answering a list and for receiving a body, in milliseconds. */
  readonly requestTimeoutMs: number
  /** Whether watches are compressed for every client that accepts gzip, not only for those that ask. */
  readonly compressesWatches: boolean
  /** Whether field selectors may name any scalar path of Kubernetes' own kinds and custom resources. */
  readonly isAnyFieldSelectable: boolean
  /** Whether the server is stopping, so new watches are refused. */
  isDraining(): boolean
  readonly metrics: RequestMetrics
  readonly onInternalError: (error: StatusError) => void
}
