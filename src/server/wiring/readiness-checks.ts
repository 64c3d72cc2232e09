/**
 * Decides whether the server can answer from its caches: the checks of `/readyz`, and one log line when they first
 * pass.
 */
import { resourceId } from '../../kubernetes/model/api-resource.js'
import type { Ambient } from '../../support/ambient.js'
import type { ResourcePipeline } from '../../engine/pipeline/resource-pipeline.js'
import { problemsOf, type SourceProblems } from '../../engine/upstream/upstream.js'
import type { HealthCheck } from '../transports/server/health.js'
import { type OtherEtcd, otherOf } from '../../kubernetes/dialect/other-etcds.js'

/** The parts that must be ready before the server is. */
export interface ReadyParts {
  pipelines(): Iterable<ResourcePipeline>
  /**
   * @param wasReady whether the server has been ready: a resource that appears later is answered with 429 until it is
   * listed, and does not make the server unready.
   */
  checks(wasReady: boolean): Iterable<HealthCheck>
}

export interface ReadinessOptions extends Pick<Ambient, 'clock' | 'logger'> {
  readonly cluster: ReadyParts
  /**
   * `--max-staleness` in milliseconds; null if a server that can answer from its caches is ready however old the caches
   * are.
   */
  readonly maxStalenessMs: number | null
  /** Whether callers can be authenticated and authorized. */
  readonly access: () => readonly HealthCheck[]
  /** True from SIGTERM on, while the server may still serve for a while. */
  readonly isShuttingDown: () => boolean
}

const POLL_MS = 50

export class Readiness {
  #wasReady = false
  #isStopped = false

  constructor(private readonly options: ReadinessOptions) {}

  /**
   * Whether the server is ready. It is called often while a server with thousands of resources starts, so it stops at
   * the first check that fails.
   */
  get isReady(): boolean {
    for (const check of this.checks()) if (check.isInformational !== true && check.problem() !== null) return false
    return true
  }

  *checks(): Generator<HealthCheck, void, void> {
    const { cluster, maxStalenessMs, isShuttingDown, access } = this.options
    yield { name: 'ping', problem: () => null }
    yield { name: 'shutdown', problem: () => (isShuttingDown() ? 'the server is shutting down' : null) }
    yield {
      name: 'staleness',
      problem: () => staleness(cluster.pipelines(), maxStalenessMs ?? 0),
      isInformational: maxStalenessMs === null,
      informs: 'served from the cache',
    }
    yield* access()
    yield* cluster.checks(this.#wasReady)
  }

  /** The age of each resource, by its id. */
  *ages(): Generator<readonly [string, { readonly ageMs: number; readonly validMs: number }], void, void> {
    for (const { resource, cache } of this.options.cluster.pipelines())
      yield [resourceId(resource), cache.source.reported]
  }

  /** Polls until the server is ready, and logs that once. */
  logWhenReady(startedMs: number): void {
    const { clock, logger, cluster } = this.options
    if (this.#isStopped) return
    if (!this.isReady) {
      clock.setTimer(POLL_MS, () => this.logWhenReady(startedMs))
      return
    }
    this.#wasReady = true
    const caches = [...cluster.pipelines()].map(({ cache }) => cache)
    const objects = caches.reduce((sum, { contents }) => sum + contents.size, 0)
    const seconds = (clock.monotonic() - startedMs) / 1000
    // Watches of every resource resume after this revision; `cache_floor_resource_version` says it for each of them.
    const resumableAfter = caches.reduce((most, { history }) => Math.max(most, history.floorRevision), 0)
    logger.info({ resources: caches.length, objects, resumableAfter, seconds }, 'ready')
  }

  stop(): void {
    this.#isStopped = true
  }
}

type Pipeline = Pick<ResourcePipeline, 'resource' | 'cache'>

/**
 * Yields a check for each cache. A resource that cannot be listed, or no longer be watched, does not make the server
 * unready, so that clients can use the other resources. If no resource can be listed, the server is not ready, because
 * it would reject every client, unless it forwards their requests: then every answer is right, and the API server
 * carries the whole load.
 *
 * @param wasReady as in `ReadyParts`.
 * @param forwards whether requests for a resource that cannot be listed are forwarded (`--passthrough`).
 * @param others the etcds that need not be available for the server to be ready, because the few resources in them must
 * not keep clients from all the others.
 */
export function* cacheChecks(
  pipelines: Iterable<Pipeline>,
  wasReady: boolean,
  others: readonly OtherEtcd[],
  forwards: boolean,
): Generator<HealthCheck, void, void> {
  const all = [...pipelines]
  const areAllRefused = all.every(({ cache }) => cache.readiness.kind === 'refused')
  const isForwarded = ({ cache: { readiness, source } }: Pipeline): boolean =>
    readiness.kind === 'refused' || source.isRefusing
  if (forwards && all.length > 0 && all.every(isForwarded)) {
    const problem = (): string => 'no resource can be listed and watched at its source'
    yield { name: 'caches', problem, isInformational: true, informs: 'everything is forwarded' }
  }
  for (const pipeline of all) {
    const { readiness, source } = pipeline.cache
    const isDisconnected = source.disconnectedReason !== null && otherOf(others, pipeline.resource) !== undefined
    const isRefused = readiness.kind === 'refused' && (forwards || !areAllRefused)
    yield new CacheCheck(pipeline, wasReady || isDisconnected || isRefused || isOnlyUnwatched(pipeline))
  }
}

/** Whether the cache can be read although its source refuses it. */
function isOnlyUnwatched({ cache: { readiness, source } }: Pipeline): boolean {
  return source.isRefusing && readiness.kind === 'ready'
}

/** The name is built only when it is read. */
class CacheCheck implements HealthCheck {
  constructor(
    private readonly pipeline: Pipeline,
    readonly isInformational: boolean,
  ) {}

  get name(): string {
    return `cache-${resourceId(this.pipeline.resource)}`
  }

  get informs(): string {
    return isOnlyUnwatched(this.pipeline) ? 'not watched' : 'not served'
  }

  problem(): string | null {
    const { readiness, source } = this.pipeline.cache
    const problem = problemOf(this.pipeline.cache)
    const isWaiting = readiness.kind === 'pending' && source.disconnectedReason !== null
    return isWaiting ? `${problem}: ${source.disconnectedReason}` : problem
  }
}

/**
 * Yields a check for each of the other etcds, named as in the API server. The check passes while the etcd feeds its
 * resources.
 */
export function* otherEtcdChecks(
  pipelines: Iterable<Pipeline>,
  others: readonly OtherEtcd[],
): Generator<HealthCheck, void, void> {
  const all = others.length === 0 ? [] : [...pipelines]
  for (const [i, other] of others.entries()) {
    const { servers, resources } = other
    const fed = all.filter(({ resource }) => otherOf(others, resource) === other)
    // Without a cache for its resources, the etcd's state is unknown.
    if (fed.length === 0) continue
    const reasons = fed.flatMap(({ cache }) => cache.source.disconnectedReason ?? [])
    yield {
      name: `etcd-override-${i}`,
      problem: () => (reasons.length === 0 ? null : `${servers.join(', ')} (${resources.join(', ')}): ${reasons[0]}`),
      isInformational: true,
      informs: 'is unavailable',
    }
  }
}

/**
 * Yields the checks of what is wrong with the sources although watches and cached lists continue, at every replica. A
 * role may be changed while the server runs.
 *
 * @param kind the first part of the names: `etcd` or `upstream`.
 */
export function* sourceChecks(kind: string, sources: readonly SourceProblems[]): Generator<HealthCheck, void, void> {
  for (const [what, name, informs] of SOURCE_PROBLEMS) {
    if (problemsOf(sources)[what] === undefined) continue
    yield {
      name: `${kind}-${name}`,
      problem: () => problemsOf(sources)[what] ?? null,
      isInformational: true,
      informs,
    }
  }
}

const SOURCE_PROBLEMS = [
  ['refusedReads', 'permissions', 'reads are refused'],
  ['bypassedRoles', 'roles', 'can be bypassed'],
  ['outdatedDiscovery', 'resources', 'are outdated'],
] as const

/** Returns why a cache cannot be read, or why its source refuses to continue it; null if neither is so. */
export function problemOf({
  readiness,
  source,
}: Pick<ResourcePipeline['cache'], 'readiness' | 'source'>): string | null {
  if (readiness.kind === 'pending') return 'not listed yet'
  return readiness.refusal ?? (source.isRefusing ? source.disconnectedReason : null)
}

/** Describes the stalest source if it exceeds `--max-staleness`; otherwise null. */
function staleness(sources: Iterable<Pick<ResourcePipeline, 'cache'>>, limitMs: number): string | null {
  let worst: ResourcePipeline['cache'] | null = null
  for (const { cache } of sources) {
    // A cache that was never filled was never confirmed either, and serves nothing; its own check says so.
    if (cache.readiness.kind === 'pending') continue
    if (worst === null || cache.source.ageMs > worst.source.ageMs) worst = cache
  }
  if (worst === null || worst.source.ageMs <= limitMs) return null
  const seconds = Math.round(worst.source.ageMs / 1_000)
  return `${worst.name} was last confirmed ${seconds} s ago: ${worst.source.disconnectedReason ?? 'the source is unavailable'}`
}
