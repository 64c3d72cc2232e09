/** What the handlers of lists, gets and watches need of the rest of the process; `app.ts` puts it together. */
import type { Dispatcher } from '../../broadcast/dispatcher.js'
import type { WatchCache } from '../../cache/watch-cache.js'
import type { ObjectEncoder } from '../../dialect/encoding/object-encoder.js'
import type { Negotiated, Servable } from '../../dialect/accept.js'
import type { IncludeObject } from '../../dialect/list-options.js'
import type { Projection } from '../../dialect/projection.js'
import type { ServedResource } from '../../dialect/resource-registry.js'
import type { ResourceMetrics } from '../../metrics/metrics.js'
import type { Revision } from '../../model/revision.js'
import type { StatusError } from '../../model/status.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { FairGate } from '../../auth/fair-gate.js'
import type { BodyCache } from '../bodies/body-cache.js'
import type { MemoryGate } from '../limits/memory-gate.js'
import type { WatcherLimits } from '../limits/watcher-limits.js'

/** One served resource, alive. */
export interface LiveResource {
  readonly served: ServedResource
  readonly cache: WatchCache
  readonly broadcaster: Dispatcher
  readonly metrics: ResourceMetrics
  /** The resource is not cached: each request has a cache of its own, for as long as it runs. @throws StatusError */
  readonly direct?: (ask: UncachedRequest, signal: AbortSignal) => Promise<UncachedResource>
}

/** What a request needs of a resource that is not cached. */
export interface UncachedRequest {
  /** '' for all. */
  readonly namespace: string
  readonly isWatch: boolean
  /** Of a watch without initial state. */
  readonly afterRevision: Revision | null
}

export interface UncachedResource extends LiveResource {
  close(): void
}

export interface ResourceContext {
  find(group: string, version: string, plural: string): LiveResource | undefined
  /** Why it is not known yet what there is of a group (null: which groups there are); null: it is known. */
  whyUnknown(group: string | null): StatusError | null
  /** Anything of that version is served here. */
  hasGroup(group: string, version: string): boolean
  /** What can be negotiated for it. */
  servable(served: ServedResource): Servable
  /** @throws NotAcceptableError when the resource cannot be had in that form. */
  encoder(
    served: ServedResource,
    form: Negotiated,
    include: IncludeObject,
    projection: Projection | null,
  ): ObjectEncoder
  readonly bodies: BodyCache
  /** Initial states being sent, each of which holds a state's bytes. */
  readonly initialStates: FairGate
  readonly watchers: WatcherLimits
  /** Asked before a list or a watch begins. */
  readonly memory: Pick<MemoryGate, 'admit'>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** A watch without `timeoutSeconds` ends at a random time in [this, twice this), milliseconds. */
  readonly minRequestTimeoutMs: number
  /** A list that is not sent by then is cut off, milliseconds. */
  readonly requestTimeoutMs: number
  /** Watches are compressed for everyone who accepts gzip, not only for those who ask. */
  readonly compressesWatches: boolean
  /** The server is stopping: new watches are refused. */
  isDraining(): boolean
}
