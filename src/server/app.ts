/** The composition root: the only file that knows every stage. `main.ts` runs it; tests run the same. */
import { type Access, isOpenToAll, openAccess } from './access.js'
import { FairGate } from '../auth/fair-gate.js'
import { Pump } from '../broadcast/pump.js'
import { chooseFeeds } from './choose-feeds.js'
import { ObjectViews } from '../codec/object-views.js'
import { type Schema, kubernetesSchema } from '../codec/protobuf/schema.js'
import type { Config } from '../config/load.js'
import { Discovery } from '../dialect/discovery.js'
import { chooseEncoder } from '../dialect/encoding/encoders.js'
import { unknownResourceError } from '../dialect/status-body.js'
import { ResourceRegistry, type ServedResource } from '../dialect/resource-registry.js'
import { ApiServiceObjects } from '../served/api-services.js'
import { Definitions } from '../served/definitions.js'
import { ConsistencyOnRequest, type ConsistencyReport } from '../feed/consistency-report.js'
import type { OpenFeed } from '../feed/resource-feed.js'
import { OpenApi } from '../dialect/openapi.js'
import { openApiServices, openPassthrough } from './open-passthrough.js'
import { type PortNumbers, Ports } from './ports.js'
import { OutageLog } from './outage-log.js'
import { rbacSource } from '../served/rbac-objects.js'
import type { ResourcePipeline } from '../pipeline/resource-pipeline.js'
import { Resources } from '../pipeline/resources.js'
import { KnownResources } from '../served/known-resources.js'
import { openRemoteApiServer } from './remote-api-server.js'
import { ServedViews } from '../served/served-views.js'
import { RemoteDiscovery } from '../served/remote-discovery.js'
import { StoredVersions } from '../served/stored-versions.js'
import { wellKnownResources } from '../dialect/well-known-resources.js'
import { staleness } from './staleness.js'
import { Metrics } from '../metrics/metrics.js'
import { hasSameMessage } from '../codec/versions/convert.js'
import { type Resource, apiVersion, resourceId } from '../model/resource.js'
import { keyToText } from '../model/event.js'
import { NotAcceptableError, type StatusError } from '../model/status.js'
import { type Clock, sleep, systemClock } from '../support/clock.js'
import type { Logger } from '../support/log.js'
import { type Random, systemRandom } from '../support/random.js'
import { apiHandler } from '../transports/api/api-handler.js'
import { BodyCache } from '../transports/bodies/body-cache.js'
import type { HealthCheck } from '../transports/server/health.js'
import type { LiveResource, ResourceContext } from '../transports/api/resource-context.js'
import type { ApiServices } from '../transports/passthrough/api-services.js'
import type { Passthrough } from '../transports/passthrough/passthrough.js'
import { MemoryGate } from '../transports/limits/memory-gate.js'
import { WatcherLimits } from '../transports/limits/watcher-limits.js'
import { feedLine, type ProcessStatus, processStatus, serverStatus } from '../ui/status.js'
import { registerUi } from '../ui/ui-routes.js'
import { HttpResource } from '../upstream/http/http-resource.js'
import type { RemoteApiServer } from '../upstream/http/remote-api-server.js'
import { Writer } from '../writes/writer.js'
import type { Upstream } from '../upstream/upstream.js'

export interface AppOptions {
  readonly config: Config
  readonly upstream: Upstream
  /** Where the resources come from. Default: as the configuration says. */
  readonly openFeed?: OpenFeed
  /** false: another process tells of the upstream's being away. */
  readonly tellsOutages?: boolean
  /** Of several processes, which. */
  readonly name?: string
  /** What all processes of the server do now. Default: this one alone. */
  readonly statuses?: () => Promise<readonly ProcessStatus[]>
  /** Behind `--upstream`. Default: as the configuration says. */
  readonly server?: RemoteApiServer
  /** What a scrape is answered with. Default: the metrics of this process. */
  readonly exposeMetrics?: () => Promise<{ readonly contentType: string; readonly text: string }>
  /** Compares with etcd what this server holds. Default: what this process watches. */
  readonly audit?: () => Promise<ConsistencyReport>
  readonly logger: Logger
  readonly version: string
  /** Of what is stored as protobuf. Default: Kubernetes' own kinds. */
  readonly schema?: Schema
  readonly clock?: Clock
  readonly random?: Random
}

const READY_POLL_MS = 50
/** etcd refuses larger requests by default; what somebody raised it to is still bounded here. */
const MAX_VALUE_BYTES = 8 * 1024 * 1024
/** As many as an API server takes at once by default (`--max-mutating-requests-inflight`). */
const MAX_WRITES = 200
/** Ends of watches in one turn of a drain. */
const DRAIN_STEP_MS = 50
/** For a turn to send a list or an initial state: as long as the API server lets a read wait for its state. */
const GATE_WAIT_MS = 3_000
/** Waiting for one turn: what waits holds a connection and no object. */
const WAITING_PER_SLOT = 16

export class App {
  readonly metrics: Metrics
  readonly registry = new ResourceRegistry()
  readonly #options: AppOptions
  readonly #clock: Clock
  readonly #random: Random
  readonly #pump: Pump
  readonly #resources: Resources
  readonly #ports: Ports
  readonly #context: ResourceContext
  readonly #memory: MemoryGate
  readonly #access: Access
  readonly #outages: OutageLog
  readonly #audit: () => Promise<ConsistencyReport>
  readonly #follower: RemoteDiscovery | null
  readonly #passthrough: Passthrough | null
  readonly #apiServices: ApiServices | null
  #wasReady = false
  #isDraining = false
  #isStopped = false

  constructor(options: AppOptions) {
    const { config, logger } = options
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#random = options.random ?? systemRandom
    const metrics = new Metrics(options.version)
    this.metrics = metrics
    this.#pump = new Pump({ metrics: { passSlice: (seconds) => metrics.passSlice(seconds) } })
    const onInternalError = (error: StatusError): void => logger.error({ err: error.cause ?? error }, 'internal error')
    const schema = options.schema ?? kubernetesSchema()
    const objects = new ObjectViews({
      schema,
      maxBytes: config.listCacheBytes,
      onUnreadable: (object, reason) => {
        metrics.unreadable()
        logger.warn(
          { key: keyToText(object.key), revision: object.modRevision, reason },
          'object cannot be shown as JSON',
        )
      },
      onUnknownFields: (count) => metrics.unknownFields(count),
    })
    const views = new ServedViews(objects, this.registry)
    // Over --upstream the server there knows what there is.
    this.registry.set('configured', config.upstream === null ? config.resources : [])
    const server = config.upstream === null ? null : (options.server ?? openRemoteApiServer(config, this.#clock))
    const { registry } = this
    const parts = { ...options, clock: this.#clock, random: this.#random }
    this.#follower = server === null ? null : new RemoteDiscovery({ ...parts, server, registry })
    this.#resources = new Resources(this.registry, {
      openFeed:
        options.openFeed ??
        chooseFeeds({ ...parts, server, fleetMetrics: (resource) => metrics.forResource(resource).fleet }),
      jsonOf: (...what) => views.forSelectors(...what),
      onInternalError,
      pump: this.#pump,
      clock: this.#clock,
      random: this.#random,
      logger,
      metrics,
      ring: {
        maxItems: config.defaultWatchCacheSize,
        maxBytes: config.watchCacheBytes,
        maxAgeMs: config.watchCacheAge,
      },
      bookmarkIntervalMs: config.bookmarkInterval,
      maxValueBytes: MAX_VALUE_BYTES,
      historySize: historySizes(config),
      directUpstream: (resource) =>
        server === null ? options.upstream : new HttpResource({ server, resource, random: this.#random }),
    })
    const storedVersions = new StoredVersions({ table: wellKnownResources(config.etcdPrefix), registry, logger })
    // Over --upstream every version is as that server tells it.
    if (server === null) for (const { cache } of this.#resources.sources()) storedVersions.follow(cache)
    let followed: LiveResource['cache'] | null = null
    const followDefinitions = (): void => {
      const definitions = this.#resources.find('apiextensions.k8s.io', 'v1', 'customresourcedefinitions')
      if (definitions === undefined || definitions.cache === followed) return
      const { cache, served } = definitions
      const { etcdPrefix } = config
      void new Definitions({
        cache,
        registry,
        etcdPrefix,
        jsonOf: (object) => views.json(served, object),
        logger,
      })
      followed = cache
    }
    followDefinitions()
    registry.onChange(followDefinitions)
    const onPassRejected = (): void => metrics.rejected('passthrough')
    const services = openApiServices({
      config,
      clock: this.#clock,
      random: this.#random,
      logger,
      onRejected: onPassRejected,
    })
    this.#apiServices = services
    let named: LiveResource['cache'] | null = null
    const followApiServices = (): void => {
      const objects = this.#resources.find('apiregistration.k8s.io', 'v1', 'apiservices')
      if (services === null || objects === undefined || objects.cache === named) return
      const { cache, served } = objects
      named = cache
      void new ApiServiceObjects({ cache, services, jsonOf: (object) => views.json(served, object) })
    }
    followApiServices()
    registry.onChange(followApiServices)
    metrics.observe(() => [...this.#resources.sources()].map((source) => source.gauges()))

    const slotsFor = (limit: string): FairGate =>
      new FairGate({
        ...gateBounds(config.maxInitialStates, isOpenToAll(config)),
        maxWaitMs: GATE_WAIT_MS,
        clock: this.#clock,
        onRejected: () => metrics.rejected(limit),
      })
    const [initialStates, lists] = [slotsFor('initial-states'), slotsFor('lists')]
    metrics.observeInitialStates(() => initialStates.running + lists.running)
    const bodies = new BodyCache({ maxBytes: config.listCacheBytes, gate: lists })
    this.#memory = new MemoryGate({
      targetBytes: config.memoryTarget,
      residentBytes: () => process.memoryUsage.rss(),
      clock: this.#clock,
      relieve: () => {
        bodies.clear()
        for (const source of this.#resources.sources()) source.relieveMemory()
      },
      onRejected: () => metrics.rejected('memory'),
    })
    const known = new KnownResources({
      registry,
      cacheOf: (group, version, plural) => this.#resources.find(group, version, plural)?.cache,
      upstreamProblem: () => this.#follower?.problem ?? null,
      followsApiServices: services !== null,
      logger,
    })
    this.#context = {
      memory: this.#memory,
      whyUnknown: (group) => (group === null ? known.problem : known.problemOf(group)),
      find: (group, version, plural) => this.#resources.find(group, version, plural),
      hasGroup: (group, version) => registry.hasGroup(group, version),
      servable: (served) => {
        const { cache } = this.#live(served)
        const { isAllProtobuf } = cache
        const version = apiVersion(served.resource)
        // An object left in an older version that differs in more than its name would end lists and watches of the newer.
        const isSame = [...cache.protobufKinds].every((stored) => {
          const [from = '', kind = ''] = stored.split(' ')
          return hasSameMessage(from, version, kind)
        })
        return { protobufObjects: isAllProtobuf && isSame, protobufPartial: isAllProtobuf }
      },
      encoder: (served, form, include, projection) => {
        if (form.encoding !== 'protobuf') this.#assertReadable(served, views)
        const parts = { view: views.viewOf(served), now: () => this.#clock.now() }
        return chooseEncoder(parts, served, form, include, projection)
      },
      bodies,
      initialStates,
      watchers: new WatcherLimits({
        total: config.maxWatchers,
        perClient: config.maxWatchersPerClient,
        onRejected: (limit) => metrics.rejected(limit),
      }),
      clock: this.#clock,
      random: this.#random,
      logger,
      minRequestTimeoutMs: config.minRequestTimeout,
      requestTimeoutMs: config.requestTimeout,
      compressesWatches: config.compress,
      isDraining: () => this.#isDraining,
    }
    this.#access = openAccess({
      config,
      clock: this.#clock,
      logger,
      rbacSource: () =>
        rbacSource(
          (group, version, plural) => this.#resources.find(group, version, plural),
          ({ served }, object) => views.json(served, object),
        ),
      onRejected: (limit) => metrics.rejected(limit),
    })
    const { gate } = this.#access
    const audits = new ConsistencyOnRequest(() => this.#resources.sources())
    this.#audit = options.audit ?? (() => audits.run())
    const writeGate = new FairGate({
      ...gateBounds(MAX_WRITES, isOpenToAll(config)),
      maxWaitMs: GATE_WAIT_MS,
      clock: this.#clock,
      onRejected: () => metrics.rejected('writes'),
    })
    const writer = new Writer({
      upstream: options.upstream,
      clock: this.#clock,
      random: this.#random,
      jsonOf: (served, object) => views.json(served, object),
      maxValueBytes: MAX_VALUE_BYTES,
      schema,
      etcdPrefix: config.etcdPrefix,
      find: (group, version, plural) => this.registry.find(group, version, plural),
      resources: () => this.registry.list(),
    })
    this.#outages = new OutageLog({
      reasons: () => [...this.#resources.sources()].flatMap(({ cache }) => cache.disconnectedReason ?? []),
      clock: this.#clock,
      logger,
    })
    this.#passthrough = openPassthrough(config, this.#clock, onPassRejected)
    this.#ports = new Ports({
      config,
      clock: this.#clock,
      logger,
      server: {
        api: apiHandler({
          context: this.#context,
          gate,
          passthrough: this.#passthrough,
          apiServices: services,
          discovery: new Discovery(this.registry, {
            productVersion: options.version,
            writable: config.enableWrites,
            ...(services === null ? {} : { remote: services }),
          }),
          openApi: new OpenApi(this.registry, {
            productVersion: options.version,
            schemas: schema,
            writable: config.enableWrites,
          }),
          writes: config.enableWrites
            ? { perform: (verb, request) => writer.perform(verb, request), gate: writeGate }
            : null,
          onAnswered: (verb, code, seconds) => metrics.request(verb, code, seconds),
          onInternalError,
          webSocketAllowedOrigins: config.websocketAllowedOrigins,
        }),
        health: { livez: () => [{ name: 'ping', problem: () => null }], readyz: () => this.#readiness() },
        metrics: options.exposeMetrics ?? (() => metrics.expose()),
        audit: () => this.#audit(),
        onRejected: (limit) => metrics.rejected(limit),
        answersAll: config.passthrough !== null,
        onInternalError,
        corsAllowedOrigins: config.corsAllowedOrigins,
        gate,
        routes: (server) =>
          registerUi(server, {
            gate,
            clock: this.#clock,
            status: () => this.#serverStatus(),
            onRejected: () => metrics.rejected('status-pages'),
          }),
      },
    })
  }

  get sources(): Iterable<ResourcePipeline> {
    return this.#resources.sources()
  }

  /** SIGHUP: after the platform has moved the audit log. */
  reopenLogs(): void {
    this.#access.reopenAuditLog()
  }

  /** SIGUSR2: compares every cache with etcd now, where this process owns the watches; one at a time. */
  async audit(): Promise<ConsistencyReport> {
    return await this.#audit()
  }

  get isReady(): boolean {
    return this.#readiness().every((check) => check.isInformational === true || check.problem() === null)
  }

  /** Begins to feed, and listens: at once, or when it is ready, after `readyWithinMs` at the latest. @throws when a port is taken. */
  async start({ readyWithinMs = 0 } = {}): Promise<PortNumbers> {
    const startedMs = this.#clock.monotonic()
    this.#resources.start()
    this.#follower?.start()
    if (this.#options.tellsOutages !== false) this.#outages.start()
    this.#memory.start()
    this.#apiServices?.start()
    this.#logWhenReady(startedMs)
    while (!this.isReady && this.#clock.monotonic() - startedMs < readyWithinMs) await sleep(this.#clock, READY_POLL_MS)
    return await this.#ports.start()
  }

  /** No new watches; running ones end, spread over the grace period. */
  async drain(): Promise<void> {
    if (this.#isDraining) return
    this.#isDraining = true
    this.#ports.drain()
    let running = [...this.#resources.broadcasters()].flatMap((broadcaster) =>
      [...broadcaster.cursors].map((cursor) => ({ broadcaster, cursor })),
    )
    const graceMs = this.#options.config.shutdownWatchTerminationGracePeriod
    for (
      let steps = Math.max(1, Math.floor(graceMs / DRAIN_STEP_MS));
      running.length > 0 && !this.#isStopped;
      steps--
    ) {
      const now = Math.ceil(running.length / Math.max(1, steps))
      for (const { broadcaster, cursor } of running.slice(0, now)) broadcaster.drain(cursor)
      // Many leave by themselves meanwhile: they are not waited for.
      running = running.slice(now).filter(({ cursor }) => cursor.state !== 'ended')
      if (running.length > 0) await sleep(this.#clock, DRAIN_STEP_MS)
    }
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isDraining = true
    this.#isStopped = true
    this.#outages.stop()
    this.#memory.stop()
    await this.#follower?.stop()
    await this.#resources.stop()
    await this.#access.close()
    this.#passthrough?.close()
    await this.#apiServices?.stop()
    await this.#ports.stop()
    this.#pump.stop()
    await this.#options.upstream.close()
  }

  /** What this process does now. */
  async status(): Promise<ProcessStatus> {
    const { config, name = 'server' } = this.#options
    return processStatus({
      name,
      ready: this.isReady,
      sources: [...this.sources].map((source) => ({
        gauges: () => source.gauges(),
        cursors: source.broadcaster.cursors,
        ringBytes: config.watchCacheBytes,
        problem: problemOf(source.cache.readiness),
        feed: feedLine(source.feed.status),
      })),
      ...(await this.metrics.figures()),
    })
  }

  async #serverStatus(): Promise<unknown> {
    const { config, version, statuses } = this.#options
    const { natsServers, natsRole: role, natsCluster: cluster } = config
    const named = config.upstream ?? config.etcdServers.join(', ')
    const upstream = config.embedded ? 'in-process store' : named || 'none: fed by the fleet'
    const fleet = natsServers.length === 0 ? null : { servers: natsServers.join(', '), role, cluster }
    const processes = statuses === undefined ? [await this.status()] : await statuses()
    return serverStatus({ version, upstream, fleet }, processes)
  }

  #live(served: ServedResource): LiveResource {
    const live = this.#resources.liveOf(served)
    if (live === undefined) throw unknownResourceError()
    return live
  }

  /** @throws NotAcceptableError when what is stored has no JSON here. */
  #assertReadable(served: ServedResource, views: ServedViews): void {
    const { cache } = this.#live(served)
    if (!cache.isAllProtobuf) return
    for (const object of cache.snapshot().objects(cache.prefix)) {
      if (views.canShow(served, object)) return
      throw new NotAcceptableError(
        `${served.resource.plural} are stored as protobuf (${object.kind} of ${object.apiVersion}) without a schema for ` +
          `${apiVersion(served.resource)}: ask for application/vnd.kubernetes.protobuf, or start with --proto-descriptors`,
      )
    }
  }

  #logWhenReady(startedMs: number): void {
    if (this.#isStopped) return
    if (!this.isReady) {
      this.#clock.setTimer(READY_POLL_MS, () => this.#logWhenReady(startedMs))
      return
    }
    this.#wasReady = true
    const sources = [...this.#resources.sources()]
    const objects = sources.reduce((sum, { cache }) => sum + cache.size, 0)
    const seconds = (this.#clock.monotonic() - startedMs) / 1000
    this.#options.logger.info({ resources: sources.length, objects, seconds }, 'ready')
  }

  #readiness(): readonly HealthCheck[] {
    const checks: HealthCheck[] = [
      { name: 'ping', problem: () => null },
      { name: 'shutdown', problem: () => (this.#isDraining ? 'the server is shutting down' : null) },
      { name: 'staleness', problem: () => staleness(this.#resources.sources(), this.#options.config.maxStaleness) },
    ]
    const follower = this.#follower
    if (follower !== null) checks.push({ name: 'upstream-discovery', problem: () => follower.problem })
    for (const { resource, cache } of this.#resources.sources()) {
      const { readiness } = cache
      checks.push({
        name: `cache-${resourceId(resource)}`,
        problem: () => problemOf(readiness),
        // What appears later (a custom resource) answers 429 until it is listed, and makes nobody else unready.
        isInformational: readiness.kind === 'refused' || this.#wasReady,
      })
    }
    return checks
  }
}

/** Where everybody is let in, all are one: addresses are no identities, a proxy or a NAT is thousands of clients. */
function gateBounds(slots: number, isOpen: boolean) {
  const maxWaiting = WAITING_PER_SLOT * slots
  if (isOpen) return { slots, maxWaiting, maxSlotsPerIdentity: slots, maxWaitingPerIdentity: maxWaiting }
  return {
    slots,
    maxWaiting,
    maxSlotsPerIdentity: Math.max(1, Math.floor((slots * 3) / 4)),
    maxWaitingPerIdentity: maxWaiting / 2,
  }
}

function problemOf(readiness: ResourcePipeline['cache']['readiness']): string | null {
  return readiness.kind === 'ready' ? null : readiness.kind === 'refused' ? readiness.reason : 'not listed yet'
}

/** What makes resources and rights is always cached: without it nothing could be answered. */
const ALWAYS_CACHED: ReadonlySet<string> = new Set([
  'customresourcedefinitions.apiextensions.k8s.io',
  'apiservices.apiregistration.k8s.io',
  ...['roles', 'rolebindings', 'clusterroles', 'clusterrolebindings'].map((one) => `${one}.rbac.authorization.k8s.io`),
])

/** `--watch-cache` and `--watch-cache-sizes`: null where neither says anything. */
function historySizes({ watchCache, watchCacheSizes }: Config): (resource: Resource) => number | null {
  const named = new Map(watchCacheSizes.map(({ resource, batches }) => [resource, batches]))
  return (resource) => {
    const id = resourceId(resource)
    const size = named.get(id) ?? (watchCache ? null : 0)
    return size === 0 && ALWAYS_CACHED.has(id) ? null : size
  }
}
