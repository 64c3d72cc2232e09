/**
 * Tracks whether all resources are known yet. A starting server has not read all definitions of custom resources, and a
 * client that gets a 404 for an existing resource would treat its objects as deleted. So until all resources are known,
 * clients get an error that asks them to retry. The server logs unreadable definitions once and does not wait for them,
 * unless they are only waiting for a key to decrypt them.
 */
import type { WatchCache } from '../../engine/cache/watch-cache.js'
import type { ResourceRegistry } from '../../kubernetes/dialect/resource-registry.js'
import { ServiceUnavailableError } from '../../kubernetes/model/status.js'
import type { Logger } from '../../support/log.js'

/** Resources whose objects define further resources. */
const SOURCES: readonly Source[] = [
  { group: 'apiextensions.k8s.io', plural: 'customresourcedefinitions', what: 'custom resources' },
  { group: 'apiregistration.k8s.io', plural: 'apiservices', what: 'API groups of other servers' },
]

interface Source {
  readonly group: string
  readonly plural: string
  /** Names, in messages, what stays unserved if these objects cannot be read. */
  readonly what: string
}

export interface KnownResourcesOptions {
  readonly registry: ResourceRegistry
  /** Returns undefined for a resource that is not served here, which the server therefore does not wait for. */
  readonly cacheOf: (group: string, version: string, plural: string) => WatchCache | undefined
  /** Whether every definition in the cache has been read. */
  readonly hasReadDefinitions: () => boolean
  /** Why the resources of the server behind `--upstream` are unknown; null once known. */
  readonly upstreamProblem: () => string | null
  /** Whether to follow APIServices, which name groups that clients reach through this server. */
  readonly followsApiServices: boolean
  readonly logger: Logger
}

const RETRY_AFTER_SECONDS = 1

export class KnownResources {
  /** Sources that are loaded or refused, and never waited for again. */
  readonly #settled = new Set<Source>()

  constructor(private readonly options: KnownResourcesOptions) {
    if (!options.followsApiServices) this.#settled.add(SOURCES[1]!)
  }

  /** Whether every definition seen so far has been read. */
  get hasReadDefinitions(): boolean {
    return this.options.hasReadDefinitions()
  }

  /**
   * The error for clients while some resources are unknown; null once all are known. From then on, a group that is not
   * served does not exist.
   */
  get problem(): ServiceUnavailableError | null {
    // The problem itself may contain an address and is for the operator.
    if (this.options.upstreamProblem() !== null) return unavailable('its resources are not known yet')
    const pending = SOURCES.find((source) => !this.#isSettled(source))
    return pending === undefined ? null : unavailable(`the ${pending.plural} have not been read yet`)
  }

  /**
   * Returns the error for one group; null once the group is known. Built-in groups are known from the start unless
   * another server defines them.
   */
  problemOf(group: string): ServiceUnavailableError | null {
    const { problem } = this
    if (problem === null || this.options.upstreamProblem() !== null) return problem
    const isBuiltIn = (one: { origin: string; resource: { group: string } }): boolean =>
      one.origin === 'well-known' && one.resource.group === group
    return group === '' || this.options.registry.list().some(isBuiltIn) ? null : problem
  }

  #isSettled(source: Source): boolean {
    if (this.#settled.has(source)) return true
    const { cacheOf, hasReadDefinitions, logger } = this.options
    const cache = cacheOf(source.group, 'v1', source.plural)
    const readiness = cache?.readiness
    if (readiness?.kind === 'pending') return false
    // The key for an encrypted value may still arrive, and the value may then define resources.
    if (cache !== undefined && cache.contents.sealedValues.length > 0) return false
    if (source === SOURCES[0] && !hasReadDefinitions()) return false
    this.#settled.add(source)
    if (readiness?.kind === 'refused') {
      const { plural, what } = source
      logger.warn({ resource: plural, reason: readiness.refusal }, `the objects that define ${what} cannot be read`)
    }
    return true
  }
}

function unavailable(why: string): ServiceUnavailableError {
  return new ServiceUnavailableError(`the server is starting: ${why}`, {
    details: { retryAfterSeconds: RETRY_AFTER_SECONDS },
  })
}
