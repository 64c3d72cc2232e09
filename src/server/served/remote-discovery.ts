/**
 * Serves what the server behind `--upstream` serves: polls its discovery, and creates a resource for everything that
 * can be listed and watched there. If the definitions of custom resources can be read, those are followed instead
 * (`definitions.ts`), with their columns.
 *
 * A resource is served in the version that the server prefers; other versions, and Secrets, are served by name
 * (`--resource`). Each has one watch; the same objects under a second group (`events.k8s.io`) are left out.
 */
import { wellKnown } from '../../kubernetes/dialect/declared-resource.js'
import {
  type ServedResource,
  type ResourceRegistry,
  servedResource,
} from '../../kubernetes/dialect/resource-registry.js'
import {
  normalizeEtcdPrefix,
  qualifiedName,
  type WellKnownResource,
  wellKnownResources,
} from '../../kubernetes/dialect/well-known-resources.js'
import { keyFromText } from '../../engine/model/event.js'
import { backoffMs } from '../../support/backoff.js'
import { type Clock, sleep } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import { discover, type Discovered, type DiscoveredResource, groupVersion } from '../../kubernetes/upstream/discover.js'
import type { Product, RemoteApiServer } from '../../kubernetes/upstream/remote-api-server.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'
import { errorMessage } from '../../support/error-message.js'

export interface RemoteDiscoveryOptions {
  readonly server: RemoteApiServer
  readonly registry: ResourceRegistry
  readonly etcdPrefix: string
  /** Resources named with `--resource`. */
  readonly named: readonly ServedResource[]
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** Only aggregated APIs and upgrades of that server change its discovery, and those are not urgent. */
const INTERVAL_MS = 30_000
const TIMEOUT_MS = 20_000
const BACKOFF = { firstMs: 200, capMs: 5_000 }
const DISCOVERY_OWNER = 'upstream'

export class RemoteDiscovery {
  readonly #options: RemoteDiscoveryOptions
  readonly #table: readonly WellKnownResource[]
  readonly #named: ReadonlySet<string>
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #problem: string | null = 'the upstream has not been asked yet'
  #served: readonly ServedResource[] = []

  constructor(options: RemoteDiscoveryOptions) {
    this.#options = options
    this.#table = wellKnownResources(options.etcdPrefix)
    this.#named = new Set(options.named.map(({ resource }) => qualifiedName(resource)))
  }

  /** Why the upstream's resources are unknown; null for good after the first answer. */
  get problem(): string | null {
    return this.#problem
  }

  start(): void {
    this.#running ??= this.#run(this.#stopping.signal)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new UpstreamError('unavailable', 'stopped'))
    await this.#running
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, logger } = this.#options
    for (let attempt = 1; !signal.aborted;) {
      try {
        const timeout = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
        const { server } = this.#options
        this.#take(await discover(server, timeout), await server.product(timeout))
        attempt = 1
        await sleep(clock, INTERVAL_MS * (0.75 + random.next() / 2), signal)
      } catch (error) {
        if (signal.aborted) return
        const reason = errorMessage(error)
        if (this.#problem !== null) this.#problem = `the upstream does not say what it serves: ${reason}`
        if (attempt === 1) logger.warn({ reason }, 'discovery of the upstream failed')
        await sleep(clock, backoffMs(BACKOFF, attempt++, random), signal)
      }
    }
  }

  #take(discovered: Discovered, product: Product): void {
    const { registry, logger } = this.#options
    const served = this.#choose(discovered, product)
    // Groups without an answer this time stay unchanged.
    for (const before of this.#served) {
      const { group, version, plural } = before.resource
      const isKnown = served.some(({ resource }) => resource.group === group && resource.plural === plural)
      if (!isKnown && discovered.incomplete.has(groupVersion(group, version))) served.push(before)
    }
    registry.set(DISCOVERY_OWNER, served)
    this.#served = served
    if (this.#problem !== null) logger.info({ resources: served.length }, 'discovered the resources of the upstream')
    this.#problem = null
  }

  #choose({ resources, customNames }: Discovered, product: Product): ServedResource[] {
    const chosen: ServedResource[] = []
    const taken = new Set<string>()
    const has = (group: string, plural: string): boolean =>
      resources.some((one) => one.group === group && one.plural === plural)
    for (const one of resources) {
      const { group, plural } = one
      const isNamed = this.#named.has(qualifiedName(one))
      const id = `${plural}.${group}`
      if (customNames?.has(id) === true) continue
      const rows = this.#table.filter(({ resource }) => resource.group === group && resource.plural === plural)
      if (!isNamed) {
        if (taken.has(id) || rows.some(({ served }) => served === 'by-name')) continue
        if (group === 'events.k8s.io' && has('', 'events')) continue
        if (group === 'extensions' && has('networking.k8s.io', plural)) continue
      }
      taken.add(id)
      chosen.push(this.#servedAs(one, rows, product))
    }
    return chosen
  }

  #servedAs(one: DiscoveredResource, rows: readonly WellKnownResource[], { isDistributary }: Product): ServedResource {
    const { etcdPrefix } = this.#options
    const { group, plural, version } = one
    const row = rows.find(({ resource }) => resource.version === version) ?? rows[0]
    // The prefix is only a name here: it identifies the pipeline, and continue tokens begin with it.
    const prefix = `${normalizeEtcdPrefix(etcdPrefix)}/${group === '' ? '' : `${group}/`}${plural}/`
    const resource = {
      ...one,
      etcdPrefix: row?.resource.etcdPrefix ?? keyFromText(prefix),
      // Another distributary's objects under a declared prefix arrive in the order of their keys, which their names
      // spell.
      holds: row === undefined && isDistributary ? ('objects' as const) : ('kubernetes' as const),
    }
    return row === undefined ? servedResource(resource, 'custom') : wellKnown(resource)
  }
}
