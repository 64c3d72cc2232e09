/**
 * Whether it is known by now what there is to be served. While a server starts, the custom resources are those of
 * definitions that are still to be read: a client that is told 404 of what exists takes its objects as deleted, so until
 * then it is asked to come again. What may not be read at all is told once, and is waited for no longer.
 */
import type { WatchCache } from '../cache/watch-cache.js'
import type { ResourceRegistry } from '../dialect/resource-registry.js'
import { ServiceUnavailableError } from '../model/status.js'
import type { Logger } from '../support/log.js'

/** Objects that name what else there is. */
const SOURCES: readonly Source[] = [
  { group: 'apiextensions.k8s.io', plural: 'customresourcedefinitions', what: 'custom resources' },
  { group: 'apiregistration.k8s.io', plural: 'apiservices', what: 'API groups of other servers' },
]

interface Source {
  readonly group: string
  readonly plural: string
  /** What is not served when they may not be read. */
  readonly what: string
}

export interface KnownResourcesOptions {
  readonly registry: ResourceRegistry
  /** undefined: no such resource is served here, and nothing is to be waited for. */
  readonly cacheOf: (group: string, version: string, plural: string) => WatchCache | undefined
  /** Over another server: why it is not known what that serves; null once it is. */
  readonly upstreamProblem: () => string | null
  /** API services are followed, and name groups that are reached through here. */
  readonly followsApiServices: boolean
  readonly logger: Logger
}

const RETRY_AFTER_SECONDS = 1

export class KnownResources {
  readonly #options: KnownResourcesOptions
  /** Loaded, or refused: never waited for again. */
  readonly #settled = new Set<Source>()

  constructor(options: KnownResourcesOptions) {
    this.#options = options
    if (!options.followsApiServices) this.#settled.add(SOURCES[1]!)
  }

  /** null when a group that is not served does not exist, and the documents of all groups are complete. */
  get problem(): ServiceUnavailableError | null {
    const upstream = this.#options.upstreamProblem()
    if (upstream !== null) return unavailable(upstream)
    const pending = SOURCES.find((source) => !this.#isSettled(source))
    return pending === undefined ? null : unavailable(`the ${pending.plural} have not been read yet`)
  }

  /** As `problem`, of one group: those that are built in are known from the beginning, unless another server tells them. */
  problemOf(group: string): ServiceUnavailableError | null {
    const { problem } = this
    if (problem === null || this.#options.upstreamProblem() !== null) return problem
    const isBuiltIn = (one: { origin: string; resource: { group: string } }): boolean =>
      one.origin === 'well-known' && one.resource.group === group
    return group === '' || this.#options.registry.list().some(isBuiltIn) ? null : problem
  }

  #isSettled(source: Source): boolean {
    if (this.#settled.has(source)) return true
    const { cacheOf, logger } = this.#options
    const cache = cacheOf(source.group, 'v1', source.plural)
    const readiness = cache?.readiness
    if (readiness?.kind === 'pending') return false
    this.#settled.add(source)
    if (readiness?.kind === 'refused') {
      const { plural, what } = source
      logger.warn(
        { resource: plural, reason: readiness.reason },
        `${what} are not served: what names them cannot be read`,
      )
    }
    return true
  }
}

function unavailable(why: string): ServiceUnavailableError {
  return new ServiceUnavailableError(`the server is starting: ${why}`, {
    details: { retryAfterSeconds: RETRY_AFTER_SECONDS },
  })
}
