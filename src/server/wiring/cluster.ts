/**
 * One cluster and everything that is read from it: its etcd (or several), its resources and their registry, the
 * resources that its objects define, the freshness of its data, and whether it can answer. A process serves a cluster;
 * ports, limits and the gate belong to the process.
 */
import type { Pump } from '../../engine/broadcast/pump.js'
import { ConsistencyOnRequest } from '../../engine/feed/consistency-report.js'
import type { ApiResource } from '../../kubernetes/model/api-resource.js'
import type { ResourcePipeline } from '../../engine/pipeline/resource-pipeline.js'
import type { Upstream } from '../../engine/upstream/upstream.js'
import type { KnownResources } from '../served/known-resources.js'
import type { DocumentThreads } from '../served/document-threads.js'
import type { ApiServices } from '../transports/passthrough/api-services.js'
import type { PassthroughOptions } from '../transports/passthrough/passthrough.js'
import type { HealthCheck } from '../transports/server/health.js'
import type { ServerDeps } from './server-deps.js'
import { followServed } from './follow-served.js'
import { openApiServices } from './open-passthrough.js'
import { openResources, type ResourceStage, type Sources } from './open-resources.js'
import { OutageLog, type OutageSource } from './outage-log.js'
import { cacheChecks, otherEtcdChecks, type ReadyParts, sourceChecks } from './readiness-checks.js'

export interface ClusterOptions extends Sources {
  /** false if another process logs outages of the source. */
  readonly logsOutages: boolean
  readonly pump: Pump
  readonly documents: DocumentThreads
  /** Slots for requests to the servers of aggregated APIs. */
  readonly forwarding: PassthroughOptions['semaphores']
}

export class Cluster implements ReadyParts {
  readonly stage: ResourceStage
  /** null if an API server behind this one handles the aggregated APIs. */
  readonly apiServices: ApiServices | null
  readonly known: KnownResources
  readonly #upstreams: readonly Upstream[]
  readonly #outages: OutageLog | null
  /** Compares every cache with the source; only one comparison runs at a time. */
  readonly consistency = new ConsistencyOnRequest(() => this.pipelines())

  constructor(
    private readonly deps: ServerDeps,
    options: ClusterOptions,
  ) {
    const { config, clock, logger, closing } = deps
    const { others = [] } = options
    this.#upstreams = [options, ...others].map(({ upstream }) => upstream)
    for (const upstream of this.#upstreams) closing.add(() => upstream.close())
    this.stage = openResources(deps, options.pump, options)
    this.apiServices = openApiServices(deps, options.forwarding)
    this.known = followServed(deps, this.stage, this.apiServices, options.documents)
    const sources = (): OutageSource[] =>
      [...this.pipelines()].map(({ resource, cache: { source, readiness } }) => ({
        resource,
        disconnectedReason: source.disconnectedReason,
        isLoaded: readiness.kind !== 'pending',
      }))
    this.#outages = options.logsOutages ? new OutageLog({ sources, others: config.otherEtcds, clock, logger }) : null
  }

  /** The pipelines, one for each cached etcd prefix. */
  pipelines(): Iterable<ResourcePipeline<ApiResource>> {
    return this.stage.resources.pipelines()
  }

  start(): void {
    const { remote, resources, kubernetes } = this.stage
    for (const part of [kubernetes, resources, remote, this.apiServices, this.#outages]) this.deps.closing.run(part)
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
    if (remote === null) yield* sourceChecks('etcd', this.#upstreams)
    // A worker's own upstream knows what its primary was refused.
    else yield* sourceChecks('upstream', [...this.#upstreams, remote])
    const { otherEtcds, passthrough } = this.deps.config
    yield* otherEtcdChecks(this.pipelines(), otherEtcds)
    yield* cacheChecks(this.pipelines(), wasReady, otherEtcds, passthrough !== null)
  }
}
