/** Whether the server can answer from its caches: the checks of `/readyz`, and one log line when it first can. */
import { resourceId } from '../../engine/model/resource.js'
import type { ResourcePipeline } from '../../engine/pipeline/resource-pipeline.js'
import type { RemoteDiscovery } from '../served/remote-discovery.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { HealthCheck } from '../transports/server/health.js'

export interface ReadinessOptions {
  readonly pipelines: () => Iterable<ResourcePipeline>
  /** null without `--upstream`. */
  readonly remote: Pick<RemoteDiscovery, 'problem'> | null
  /** `--max-staleness`, milliseconds; null: a server that can answer from its caches is ready, however old they are. */
  readonly maxStalenessMs: number | null
  /** Whether every definition that was there at the start has been read: until then its resource is missing here. */
  readonly hasReadDefinitions: () => boolean
  /** Whether callers can be judged. */
  readonly access: () => readonly HealthCheck[]
  /** From SIGTERM on, while the server may still serve for a while. */
  readonly isShuttingDown: () => boolean
  readonly clock: Clock
  readonly logger: Logger
}

const POLL_MS = 50

export class Readiness {
  readonly #options: ReadinessOptions
  #wasReady = false
  #isStopped = false

  constructor(options: ReadinessOptions) {
    this.#options = options
  }

  get isReady(): boolean {
    return this.checks().every((check) => check.isInformational === true || check.problem() === null)
  }

  checks(): readonly HealthCheck[] {
    const { pipelines, remote, maxStalenessMs, isShuttingDown, hasReadDefinitions, access } = this.#options
    const checks: HealthCheck[] = [
      { name: 'ping', problem: () => null },
      { name: 'shutdown', problem: () => (isShuttingDown() ? 'the server is shutting down' : null) },
      {
        name: 'staleness',
        problem: () => staleness(pipelines(), maxStalenessMs ?? 0),
        isInformational: maxStalenessMs === null,
        informs: 'served from the cache',
      },
    ]
    checks.push({
      name: 'definitions',
      problem: () => (hasReadDefinitions() ? null : 'not all have been read yet'),
      isInformational: this.#wasReady,
    })
    if (remote !== null) checks.push({ name: 'upstream-discovery', problem: () => remote.problem })
    checks.push(...access())
    for (const { resource, cache } of pipelines()) {
      const { readiness } = cache
      checks.push({
        name: `cache-${resourceId(resource)}`,
        problem: () => problemOf(readiness),
        // A resource that appears later (a custom resource) answers 429 until it is listed, and makes no other unready.
        isInformational: readiness.kind === 'refused' || this.#wasReady,
      })
    }
    return checks
  }

  /** How old each resource is, by its id. */
  *ages(): Generator<readonly [string, { readonly ageMs: number; readonly validMs: number }], void, void> {
    for (const { resource, cache } of this.#options.pipelines()) yield [resourceId(resource), cache.reportedAge]
  }

  /** Looks until the server is ready, and logs that once. */
  logWhenReady(startedMs: number): void {
    const { clock, logger, pipelines } = this.#options
    if (this.#isStopped) return
    if (!this.isReady) {
      clock.setTimer(POLL_MS, () => this.logWhenReady(startedMs))
      return
    }
    this.#wasReady = true
    const caches = [...pipelines()].map(({ cache }) => cache)
    const objects = caches.reduce((sum, { size }) => sum + size, 0)
    const seconds = (clock.monotonic() - startedMs) / 1000
    logger.info({ resources: caches.length, objects, seconds }, 'ready')
  }

  stop(): void {
    this.#isStopped = true
  }
}

/** Why a cache cannot be read; null when it can. */
export function problemOf(readiness: ResourcePipeline['cache']['readiness']): string | null {
  return readiness.kind === 'ready' ? null : readiness.kind === 'refused' ? readiness.reason : 'not listed yet'
}

/** The stalest source, if it is over the limit of `--max-staleness`; null when none is. */
export function staleness(sources: Iterable<Pick<ResourcePipeline, 'cache'>>, limitMs: number): string | null {
  let worst: ResourcePipeline['cache'] | null = null
  for (const { cache } of sources) if (worst === null || cache.stalenessMs > worst.stalenessMs) worst = cache
  if (worst === null || worst.stalenessMs <= limitMs) return null
  const seconds = Math.round(worst.stalenessMs / 1_000)
  return `${worst.name} was last confirmed ${seconds} s ago: ${worst.disconnectedReason ?? 'the source is away'}`
}
