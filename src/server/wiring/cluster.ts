/**
 * One cluster and everything that is read from it: its etcd (or several), its resources and their registry, the
 * resources that its objects define, the freshness of its data, and whether it can answer. A process serves a cluster;
 * ports, limits and the gate belong to the process.
 */
import type { Pump } from '../../engine/broadcast/pump.js'
import { ConsistencyOnRequest, type ConsistencyReport } from '../../engine/feed/consistency-report.js'
import type { ResourcePipeline } from '../../engine/pipeline/resource-pipeline.js'
import type { Upstream } from '../../engine/upstream/upstream.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { KnownResources } from '../served/known-resources.js'
import type { DocumentThreads } from '../served/document-threads.js'
import type { ApiServices } from '../transports/passthrough/api-services.js'
import type { HealthCheck } from '../transports/server/health.js'
import type { Basis } from './basis.js'
import { followServed } from './follow-served.js'
import { openApiServices } from './open-passthrough.js'
import { openResources, type ResourceStage, type Sources } from './open-resources.js'
import { OutageLog, type OutageSource } from './outage-log.js'
import { cacheChecks, otherEtcdChecks, permissionChecks, type ReadyParts } from './readiness.js'

export interface ClusterOptions extends Sources {
  /** false if another process logs outages of the source. */
  readonly logsOutages: boolean
  readonly pump: Pump
  readonly documents: DocumentThreads
  /** Slots for requests to the servers of aggregated APIs. */
  readonly passthroughSlots: IdentitySemaphore
}

export class Cluster implements ReadyParts {
  readonly upstream: Upstream
  readonly stage: ResourceStage
  /** null if an API server behind this one handles the aggregated APIs. */
  readonly apiServices: ApiServices | null
  readonly known: KnownResources
  readonly #basis: Basis
  readonly #upstreams: readonly Upstream[]
  readonly #outages: OutageLog | null
  readonly #consistency: ConsistencyOnRequest

  constructor(basis: Basis, options: ClusterOptions) {
    const { config, clock, logger, closing } = basis
    const { others = [] } = options
    this.#basis = basis
    this.upstream = options.upstream
    this.#upstreams = [options, ...others].map(({ upstream }) => upstream)
    for (const upstream of this.#upstreams) closing.add(() => upstream.close())
    this.stage = openResources(basis, options.pump, options)
    this.apiServices = openApiServices(basis, options.passthroughSlots)
    this.known = followServed(basis, this.stage, this.apiServices, options.documents)
    const sources = (): OutageSource[] =>
      [...this.pipelines()].map(({ resource, cache }) => ({ resource, disconnectedReason: cache.disconnectedReason }))
    this.#outages = options.logsOutages ? new OutageLog({ sources, others: config.otherEtcds, clock, logger }) : null
    this.#consistency = new ConsistencyOnRequest(() => this.pipelines())
  }

  /** The pipelines, one for each cached etcd prefix. */
  pipelines(): Iterable<ResourcePipeline> {
    return this.stage.resources.pipelines()
  }

  start(): void {
    const { remote, resources, kubernetes } = this.stage
    const { closing } = this.#basis
    closing.add(() => kubernetes?.stop())
    kubernetes?.start()
    closing.add(() => resources.stop())
    resources.start()
    closing.add(() => remote?.stop())
    remote?.start()
    closing.add(() => this.apiServices?.stop())
    this.apiServices?.start()
    closing.add(() => this.#outages?.stop())
    this.#outages?.start()
  }

  *checks(wasReady: boolean): Generator<HealthCheck, void, void> {
    const { remote, kubernetes } = this.stage
    yield {
      name: 'definitions',
      problem: () => (this.known.hasReadDefinitions ? null : 'not all have been read yet'),
      isInformational: wasReady,
    }
    if (remote !== null) yield { name: 'upstream-discovery', problem: () => remote.problem }
    if (kubernetes !== null) yield { name: 'stored-kubernetes', problem: () => kubernetes.problem }
    yield* permissionChecks(this.#upstreams)
    const { otherEtcds, natsRole } = this.#basis.config
    yield* otherEtcdChecks(this.pipelines(), otherEtcds)
    // An origin rejects every client, so for an origin "ready" means that it can publish.
    yield* cacheChecks(this.pipelines(), wasReady || natsRole === 'origin', otherEtcds)
  }

  /** Compares every cache with the source; only one comparison runs at a time. */
  async checkConsistency(): Promise<ConsistencyReport> {
    return await this.#consistency.run()
  }
}
