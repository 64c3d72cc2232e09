/**
 * The context that all handlers of the API share: resources, documents, other servers, the gate, limits and settings.
 * `server/wiring/` assembles it.
 */
import type { Ambient } from '../../../support/ambient.js'
import type { FairSemaphore } from '../../limits/fair-semaphore.js'
import type { RequestMetrics } from '../../metrics/request-metrics.js'
import type { IdentitySemaphore } from '../../../engine/model/shared-limits.js'
import type { ApiResource } from '../../../kubernetes/model/api-resource.js'
import type { StatusError } from '../../../kubernetes/model/status.js'
import type { Schema } from '../../../kubernetes/codec/protobuf/schema.js'
import type { Discovery } from '../../../kubernetes/dialect/discovery.js'
import type { LiveResource, UncachedResource } from '../../../kubernetes/dialect/served-live-resource.js'
import type { OpenApi } from '../../../kubernetes/dialect/openapi.js'
import type { OffLoopWriter } from '../../../kubernetes/writes/off-loop-writer.js'
import type { BodyCache } from '../bodies/body-cache.js'
import type { MemoryPressure } from '../limits/memory-pressure.js'
import type { RequestGate } from '../gate/request-gate.js'
import type { ApiServices } from '../passthrough/api-services.js'
import type { Passthrough } from '../passthrough/passthrough.js'
import type { ResourceForms } from './resource-forms.js'

/** How long shared caches may answer without asking this server. */
export interface PublicCaching {
  readonly maxAgeSeconds: number
  /** How much longer they may serve a stale response while they revalidate. */
  readonly staleSeconds: number
}

export interface Described {
  /** Returns null if the server sends no such document. */
  openApi(request: {
    readonly path: string
    readonly query?: Readonly<Record<string, string>>
    readonly accept?: string
  }): Promise<{ readonly body: Buffer; readonly contentType: string; readonly etag: string | null } | null>
}

export interface ApiContext extends Pick<Ambient, 'clock' | 'random'> {
  /** Returns a resource served here; undefined for any other. */
  find(group: string, version: string, plural: string): LiveResource | UncachedResource | undefined
  /**
   * Returns why the server does not know yet whether it serves a group (for null: which groups it serves); null when it
   * knows.
   */
  whyUnknown(group: string | null): StatusError | null
  /** Whether any resource or review of that version is served here. */
  hasGroup(group: string, version: string): boolean
  readonly forms: ResourceForms
  readonly discovery: Discovery
  readonly openApi: OpenApi
  /** The server whose OpenAPI documents are sent instead of our own (`--upstream`); null without one. */
  readonly described: Described | null
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
  /** Returns what is left out of objects here, as text for a distributary that uses this one as its upstream. */
  strips(): string
  /** How shared caches may keep a resource; null if they may not. */
  publicCachingOf(resource: ApiResource): PublicCaching | null
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
