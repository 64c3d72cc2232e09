/**
 * The server in one process: its ports, limits, gate and metrics, in front of the cluster that it serves. `serve.ts`,
 * `run-worker.ts` and tests run it.
 */
import { Pump } from '../../engine/broadcast/pump.js'
import { hasAuthenticator } from '../config/relations.js'
import type { ResourceRegistry } from '../../kubernetes/dialect/resource-registry.js'
import type { ConsistencyReport } from '../../engine/feed/consistency-report.js'
import type { Metrics } from '../metrics/metrics.js'
import type { ApiResource } from '../../kubernetes/model/api-resource.js'
import type { ResourcePipeline } from '../../engine/pipeline/resource-pipeline.js'
import { sleep } from '../../support/clock.js'
import { Disposers } from './disposers.js'
import type { ServerOptions } from '../transports/server/server.js'
import type { ServerStatus } from '../ui/page/figures.js'
import { feedFigures, type ProcessStatus, processStatus, serverStatus } from '../ui/status-figures.js'
import { registerUi } from '../ui/ui-routes.js'
import type { ServerDeps } from './server-deps.js'
import { BootstrapRoles } from './store-bootstrap-roles.js'
import { Cluster } from './cluster.js'
import { describeSource } from './describe-config.js'
import { followCertificateExpiry } from './certificate-expiry.js'
import { drainWatches } from './drain-watches.js'
import { openApi } from './open-api.js'
import { type GateStage, openGate } from './open-gate.js'
import { type IdentitySemaphore, type SharedLimits, UNSHARED } from '../../engine/model/shared-limits.js'
import { openClientLimits } from './open-client-limits.js'
import { type Limits, openLimits } from './open-limits.js'
import { type EtcdApiHandler, openEtcdApi } from './open-etcd-api.js'
import { openDocuments } from './open-documents.js'
import { openPassthrough } from './open-passthrough.js'
import type { Sources } from './open-resources.js'
import { openWrites } from './open-writes.js'
import { type PortNumbers, Ports } from './ports.js'
import { checkPublicResources } from './public-resources.js'
import { Rebalancing } from './rebalancing.js'
import { problemOf, Readiness } from './readiness-checks.js'
import { checkStreamHandles } from '../transports/exchange/check-stream-handles.js'

export interface ProcessOptions extends Sources, Omit<ServerDeps, 'closing' | 'onInternalError'> {
  readonly version: string
  /** false if another process logs outages of the upstream. */
  readonly logsOutages?: boolean
  /** The name of this process on the status page, if there are several. */
  readonly name?: string
  /** Returns the status of all processes of the server. Default: the status of this process. */
  readonly statuses?: () => Promise<readonly ProcessStatus[]>
  /** Answers a scrape. Default: the metrics of this process. */
  readonly exposeMetrics?: () => Promise<{ readonly contentType: string; readonly text: string }>
  /** How client limits are counted. Default: this process is the whole server. */
  readonly limits?: SharedLimits
  /** Compares the server's caches with etcd. Default: compares the caches of this process. */
  readonly checkConsistency?: () => Promise<ConsistencyReport>
}

const READY_POLL_MS = 50
/** How long a stop waits for the requests in progress: longer than a consistent list waits for its revision. */
const FINISH_MS = 5_000
/** The part of the grace period that is left for everything after them. */
const LAST_MS = 500
/**
 * How long the start waits to find out whether Kubernetes stores anything in etcd, because the banner says what is
 * served.
 */
const KNOWN_WITHIN_MS = 2_000

export class Process {
  readonly metrics: Metrics
  readonly #deps: ServerDeps
  readonly #cluster: Cluster
  readonly #limits: Limits
  readonly #gate: GateStage
  readonly #etcdApi: EtcdApiHandler | null
  readonly #readiness: Readiness
  readonly #ports: Ports
  /** null unless this server runs without an API server and decides by RBAC. */
  readonly #bootstrapRoles: BootstrapRoles | null
  /** null without `--rebalance`. */
  readonly #rebalancing: Rebalancing | null
  #starting: Promise<PortNumbers> | null = null
  #isShuttingDown = false
  #isDraining = false
  #isStopped = false
  /** When the requests in progress must have ended, on the monotonic clock; null before the drain. */
  #finishByMs: number | null = null
  readonly #stopping = new AbortController()

  constructor(private readonly options: ProcessOptions) {
    const { config, live, clock, random, logger, metrics, version } = options
    const closing = new Disposers()
    const onInternalError: ServerDeps['onInternalError'] = (error) =>
      logger.error({ err: error.cause ?? error }, 'internal error')
    const deps: ServerDeps = { config, live, clock, random, logger, metrics, closing, onInternalError }
    this.#deps = deps
    this.metrics = metrics
    const clients = openClientLimits(deps, options.limits ?? UNSHARED)
    const { 'status-pages': pages } = clients.semaphores

    // The parts between the source and the watchers.
    const pump = new Pump({ metrics: metrics.pump })
    closing.add(() => pump.stop())
    const documents = openDocuments(deps)
    const logsOutages = options.logsOutages !== false
    const cluster = new Cluster(deps, { ...options, pump, documents, forwarding: clients.semaphores, logsOutages })
    this.#cluster = cluster
    const { stage, apiServices, known } = cluster

    // The parts between a client's socket and the resources.
    this.#limits = openLimits(deps, stage.resources, clients)
    this.#gate = openGate(deps, stage, clients)
    const passthrough = openPassthrough(deps, clients.semaphores)
    const writer = config.enableWrites ? openWrites(deps, stage, this.#limits) : null
    this.#bootstrapRoles =
      writer !== null && config.authorizationMode.includes('RBAC')
        ? new BootstrapRoles(deps, { writer, registry: stage.registry, signal: this.#stopping.signal })
        : null
    const api = openApi(deps, {
      version,
      writer,
      stage,
      known,
      documents,
      isDraining: () => this.#isDraining,
      limits: this.#limits,
      gate: this.#gate.gate,
      passthrough,
      apiServices,
    })

    this.#etcdApi = openEtcdApi(deps, {
      raw: options.upstream.raw,
      stage,
      limits: this.#limits,
      clients,
      gate: this.#gate.gate,
    })

    this.#rebalancing = config.rebalance === null ? null : new Rebalancing(deps, stage, config.rebalance)

    // The parts for operators: readiness, status, consistency checks.
    this.#readiness = new Readiness({
      ...deps,
      cluster,
      maxStalenessMs: config.maxStaleness,
      access: () => [
        ...this.#gate.checks(),
        ...[this.#bootstrapRoles, this.#rebalancing].flatMap((part) => part?.check ?? []),
      ],
      isShuttingDown: () => this.#isShuttingDown,
    })
    closing.add(() => this.#readiness.stop())
    const retainSeries = (): void => {
      const served = [...stage.registry.list(), ...cluster.pipelines()]
      metrics.retain(served.map(({ resource }) => resource))
    }
    stage.registry.onChange(({ removed }) => removed.length > 0 && retainSeries())
    metrics.beforeScrape(() => {
      // The end of a watch or of a request may have been recorded after its resource was removed.
      retainSeries()
      metrics.setGauges([...cluster.pipelines()].map((pipeline) => pipeline.gauges()))
    })
    closing.add(followCertificateExpiry(config, deps.clock, metrics))
    const { idleConnections } = this.#limits
    this.#ports = new Ports({
      ...deps,
      server: this.#serverOptions(api, pages),
      resets: clients.resets,
      idleConnections,
    })
    closing.add(() => this.#ports.stop())
  }

  get registry(): ResourceRegistry {
    return this.#cluster.stage.registry
  }

  /** The pipelines of this process, one per cached etcd prefix. */
  get sources(): Iterable<ResourcePipeline<ApiResource>> {
    return this.#cluster.pipelines()
  }

  /** Whether Kubernetes' resources are served; also false while that is unknown. */
  get servesKubernetes(): boolean {
    return this.#cluster.stage.kubernetes?.isFound ?? true
  }

  get isReady(): boolean {
    return this.#readiness.isReady
  }

  /** Called on SIGHUP, after the platform has moved the access log. */
  reopenLogs(): void {
    this.#gate.reopenAuditLog()
  }

  /** Compares every cache with etcd; only one comparison runs at a time. */
  async checkConsistency(): Promise<ConsistencyReport> {
    const { checkConsistency = () => this.#cluster.consistency.run() } = this.options
    return await checkConsistency()
  }

  /**
   * Starts the feeds, and listens once the server is ready, or after `readyWithinMs` at the latest.
   * @throws when a port is taken.
   */
  start({ readyWithinMs = 0 } = {}): Promise<PortNumbers> {
    this.#starting = this.#start(readyWithinMs)
    return this.#starting
  }

  async #start(readyWithinMs: number): Promise<PortNumbers> {
    const { clock, closing } = this.#deps
    const startedMs = clock.monotonic()
    // The cluster starts after the ports were added to `closing`, so watches end before the ports close.
    this.#cluster.start()
    void this.#bootstrapRoles?.keep()
    closing.run(this.#limits.memory)
    closing.run(this.#rebalancing)
    this.#readiness.logWhenReady(startedMs)
    const { kubernetes } = this.#cluster.stage
    const isUnknown = (): boolean => kubernetes !== null && kubernetes.problem !== null && !this.#isStopped
    while (isUnknown() && clock.monotonic() - startedMs < KNOWN_WITHIN_MS) await sleep(clock, READY_POLL_MS)
    const isWaiting = (): boolean => !this.isReady && !this.#isStopped
    while (isWaiting() && clock.monotonic() - startedMs < readyWithinMs) await sleep(clock, READY_POLL_MS)
    await checkPublicResources(this.#deps, { registry: this.registry, gate: this.#gate.gate }, this.#stopping.signal)
    await checkStreamHandles(this.options.config.streamHandles, this.options.logger)
    return await this.#ports.start()
  }

  /**
   * From now on the server reports that it is not ready, but it keeps serving for the shutdown delay, so that load
   * balancers notice. In the second half of the delay, connections end after their next response. Then the server
   * refuses new watches and ends the running ones, spread over the grace period.
   */
  async drain(): Promise<void> {
    if (this.#isShuttingDown) return
    this.#isShuttingDown = true
    const { clock, config } = this.#deps
    const { shutdownDelayDuration: delayMs, shutdownWatchTerminationGracePeriod: graceMs, otherEtcds } = config
    if (delayMs > 0) await this.#serveOn(delayMs)
    if (this.#isStopped) return
    this.#isDraining = true
    this.#finishByMs = clock.monotonic() + config.shutdownGracePeriod - LAST_MS
    this.#ports.drain()
    this.#etcdApi?.drain()
    const { resources } = this.#cluster.stage
    await drainWatches({ resources, otherEtcds, graceMs, clock, isStopped: () => this.#isStopped })
    await this.#etcdApi?.end()
  }

  async #serveOn(delayMs: number): Promise<void> {
    const { clock } = this.#deps
    const halfTime = clock.setTimer(delayMs / 2, () => this.#ports.announceDrain())
    await sleep(clock, delayMs, this.#stopping.signal)
    halfTime.cancel()
  }

  /** After a drain, the requests in progress get their whole responses first, if they do not take long. */
  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isShuttingDown = true
    this.#isDraining = true
    this.#isStopped = true
    this.#stopping.abort()
    // Wait for the start, because closing a port while it opens would make the start fail, and a port that opens later
    // would stay open.
    await this.#starting?.catch(() => {})
    if (this.#finishByMs !== null) {
      await this.#ports.finish(Math.max(0, Math.min(FINISH_MS, this.#finishByMs - this.#deps.clock.monotonic())))
    }
    await this.#deps.closing.dispose()
  }

  async status(): Promise<ProcessStatus> {
    const { name = 'server' } = this.options
    const { watchCacheBytes } = this.#deps.live.current
    return processStatus({
      name,
      ready: this.isReady,
      sources: [...this.sources].map((source) => ({
        gauges: () => source.gauges(),
        cursors: source.dispatcher.cursors,
        ringBytes: watchCacheBytes,
        problem: problemOf(source.cache),
        feed: feedFigures(source.feed.status),
      })),
      ...this.metrics.figures(),
    })
  }

  async #serverStatus(): Promise<ServerStatus> {
    const { config, version, statuses } = this.options
    const { natsServers, natsRole: role, natsCluster: cluster } = config
    const named = describeSource({ ...config, natsServers: [] })
    const upstream = config.embedded ? 'in-process store' : named || 'none (reads from NATS)'
    const fleet = natsServers.length === 0 ? null : { servers: natsServers.join(', '), role, cluster }
    const processes = statuses === undefined ? [await this.status()] : await statuses()
    return serverStatus({ version, upstream, fleet }, processes)
  }

  #serverOptions(api: ServerOptions['api'], places: IdentitySemaphore): ServerOptions {
    const { config, exposeMetrics } = this.options
    const { metrics, clock, live, onInternalError } = this.#deps
    const { gate } = this.#gate
    return {
      api,
      grpc: this.#etcdApi?.handle,
      gate,
      health: {
        livez: () => [{ name: 'ping', problem: () => null }],
        readyz: () => [...this.#readiness.checks()],
        ages: () => this.#readiness.ages(),
      },
      metrics: exposeMetrics ?? (() => metrics.expose()),
      checkConsistency: () => this.checkConsistency(),
      onRejected: (limit) => metrics.requests.rejected(limit),
      hasTickets: config.ticketKeyFile !== null,
      clock,
      onInternalError,
      corsAllowedOrigins: config.corsAllowedOrigins,
      // A foreign page has no credentials. If credentials are required, it does not matter which host name the page
      // uses.
      allowedHosts: () => {
        const { allowedHosts } = live.current
        return hasAuthenticator(config) && allowedHosts.length === 0 ? null : allowedHosts
      },
      routes: (server) =>
        registerUi(server, {
          gate,
          clock,
          onInternalError,
          status: () => this.#serverStatus(),
          places,
        }),
    }
  }
}
