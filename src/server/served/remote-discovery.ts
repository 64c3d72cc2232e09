/**
 * Serves the resources of the server behind `--upstream`: polls its discovery, and creates a resource for everything
 * that can be listed and watched there. Custom resources come from their definitions instead (`definitions.ts`), with
 * their columns, if the definitions can be read.
 *
 * A resource is served in every version; Secrets are served only if `--resource` names them. One watch reads the
 * objects in the version that the other server prefers among the versions known here. Objects are converted to the
 * other known versions, and core events also to events of `events.k8s.io`. A version to which this server cannot
 * convert is read from the other server whenever a client asks for it.
 */
import type { Ambient } from '../../support/ambient.js'
import { canConvert } from '../../kubernetes/codec/versions/convert.js'
import { wellKnown } from '../../kubernetes/dialect/declared-resource.js'
import {
  type ServedResource,
  type ResourceRegistry,
  servedResource,
} from '../../kubernetes/dialect/resource-registry.js'
import { parseStripRules } from '../../kubernetes/dialect/stripped-fields.js'
import {
  normalizeEtcdPrefix,
  qualifiedName,
  type WellKnownResource,
  wellKnownResources,
} from '../../kubernetes/dialect/well-known-resources.js'
import { type Key, keyFromText } from '../../engine/model/event.js'
import { apiVersion } from '../../kubernetes/model/api-resource.js'
import { backoffMs } from '../../support/backoff.js'
import { sleep } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { discover, type Discovered, type DiscoveredResource, groupVersion } from '../../kubernetes/upstream/discover.js'
import type { Product, RemoteApiServer } from '../../kubernetes/upstream/remote-api-server.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'
import { errorMessage } from '../../support/error-message.js'

export interface RemoteDiscoveryOptions extends Ambient {
  readonly server: RemoteApiServer
  readonly registry: ResourceRegistry
  readonly etcdPrefix: string
  /** Resources named with `--resource`. */
  readonly named: readonly ServedResource[]
}

/**
 * The polling interval. Only aggregated APIs and upgrades of the other server change its discovery, and such changes
 * are not urgent.
 */
const INTERVAL_MS = 30_000
const TIMEOUT_MS = 20_000
const BACKOFF = { firstMs: 200, capMs: 5_000 }
/** A restart of the other server takes no more polls than that. */
const OUTDATED_FAILURES = 5
/** The owner of what discovery serves in the registry. */
export const DISCOVERY_OWNER = 'upstream'

export class RemoteDiscovery {
  readonly #table: readonly WellKnownResource[]
  /** The qualified names in the table. */
  readonly #names: ReadonlySet<string>
  readonly #named: ReadonlySet<string>
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #problem: string | null = 'discovery of the upstream has not finished yet'
  #outdated: string | null = null
  #served: readonly ServedResource[] = []
  #discovered: Discovered | null = null

  constructor(private readonly options: RemoteDiscoveryOptions) {
    this.#table = wellKnownResources(options.etcdPrefix)
    this.#names = new Set(this.#table.map(({ resource }) => qualifiedName(resource)))
    this.#named = new Set(options.named.map(({ resource }) => qualifiedName(resource)))
  }

  /** Why the upstream's resources are unknown; always null after the first successful answer. */
  get problem(): string | null {
    return this.#problem
  }

  /** The reads that the upstream refuses to this server; null if none is known. */
  get refusedReads(): string | null {
    return this.options.server.refusedReads
  }

  /** Why the last polls failed; null after a successful one, and before the first. */
  get outdatedDiscovery(): string | null {
    return this.#outdated
  }

  start(): void {
    this.#running ??= this.#run(this.#stopping.signal)
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new UpstreamError('unavailable', 'stopped'))
    await this.#running
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, logger } = this.options
    const late = (): Error => new UpstreamError('unavailable', `no answer within ${TIMEOUT_MS} ms`)
    for (let attempt = 1; !signal.aborted;) {
      try {
        await withDeadline(clock, TIMEOUT_MS, signal, late, async (inTime) => {
          const { server } = this.options
          const discovered = await discover(server, inTime, this.#discovered)
          if (discovered !== this.#discovered) this.#take(discovered, await server.product(inTime))
          this.#discovered = discovered
        })
        attempt = 1
        this.#outdated = null
        await sleep(clock, INTERVAL_MS * (0.75 + random.next() / 2), signal)
      } catch (error) {
        if (signal.aborted) return
        const reason = errorMessage(error)
        if (this.#problem !== null) this.#problem = `discovery of the upstream failed: ${reason}`
        else if (attempt >= OUTDATED_FAILURES) this.#outdated = reason
        if (attempt === 1) logger.warn({ reason }, 'discovery of the upstream failed')
        await sleep(clock, backoffMs(BACKOFF, attempt++, random), signal)
      }
    }
  }

  #take(discovered: Discovered, product: Product): void {
    const { registry, logger } = this.options
    // Group versions that did not answer this time stay unchanged.
    const silent = this.#served.filter(({ resource }) =>
      discovered.incomplete.has(groupVersion(resource.group, resource.version)),
    )
    const served = this.#choose(discovered, product, silent)
    // A feed keeps the version that it began with, so it must end before another version is read.
    const stay = this.#served.filter(({ resource: { etcdPrefix } }) =>
      isSamePath(sourceOf(this.#served, etcdPrefix), sourceOf(served, etcdPrefix)),
    )
    registry.upstreamStrips = parseStripRules(discovered.strips)
    registry.set(DISCOVERY_OWNER, stay)
    registry.set(DISCOVERY_OWNER, served)
    this.#served = served
    if (this.#problem !== null) logger.info({ resources: served.length }, 'discovered the resources of the upstream')
    this.#problem = null
  }

  /** @param silent the resources of group versions that did not answer this time; they stay as they are. */
  #choose(
    { resources, customNames }: Discovered,
    product: Product,
    silent: readonly ServedResource[],
  ): ServedResource[] {
    const chosen = [...silent]
    const isKnown = (one: DiscoveredResource): boolean => this.#names.has(qualifiedName(one))
    for (const one of [...resources.filter(isKnown), ...resources.filter((other) => !isKnown(other))]) {
      const { group, plural } = one
      if (customNames?.has(`${plural}.${group}`) === true) continue
      const rows = this.#table.filter(({ resource }) => resource.group === group && resource.plural === plural)
      if (!this.#named.has(qualifiedName(one))) {
        if (rows.some(({ served }) => served === 'by-name')) continue
        const isOfAnotherGroup = (other: DiscoveredResource): boolean =>
          other.group === 'networking.k8s.io' && other.plural === plural
        if (group === 'extensions' && resources.some(isOfAnotherGroup)) continue
      }
      const served = this.#servedAs(one, rows, product)
      if (silent.some((other) => isSamePath(other, served))) continue
      const source = sourceOf(chosen, served.resource.etcdPrefix)?.resource
      const isShown =
        source === undefined || canConvert(apiVersion(source), apiVersion(served.resource), served.resource.kind)
      chosen.push(isShown ? served : { ...served, isUncached: true })
    }
    return chosen
  }

  #servedAs(one: DiscoveredResource, rows: readonly WellKnownResource[], { isDistributary }: Product): ServedResource {
    const { etcdPrefix } = this.options
    const { group, plural, version } = one
    const row = rows.find(({ resource }) => resource.version === version) ?? rows[0]
    // The prefix is only a name here: it identifies the pipeline, and continue tokens begin with it.
    const prefix = `${normalizeEtcdPrefix(etcdPrefix)}/${group === '' ? '' : `${group}/`}${plural}/`
    const resource = {
      ...one,
      etcdPrefix: row?.resource.etcdPrefix ?? keyFromText(prefix),
      form: apiVersion(one),
      // Another distributary sends the objects under a declared prefix in the order of their keys, which their names
      // spell.
      holds: row === undefined && isDistributary ? ('objects' as const) : ('kubernetes' as const),
    }
    return row === undefined ? servedResource(resource, 'custom') : wellKnown(resource)
  }
}

/** The resource under which the objects of a prefix are read. */
function sourceOf(served: readonly ServedResource[], prefix: Key): ServedResource | undefined {
  return served.find(({ resource, isUncached = false }) => resource.etcdPrefix === prefix && !isUncached)
}

function isSamePath(one: ServedResource | undefined, other: ServedResource | undefined): boolean {
  return one !== undefined && other !== undefined && qualifiedName(one.resource) === qualifiedName(other.resource)
}
