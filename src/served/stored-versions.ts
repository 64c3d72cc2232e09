/**
 * Versions that are there, followed: where etcd holds a kind in an older version than the one served (API servers store some
 * in their beta for years), that version is served as well from the first such object on. It is what the API server before
 * it serves too, and nothing has to be typed. It stays until the next start.
 */
import type { CacheBatch } from '../cache/cache-batch.js'
import type { CacheListener, WatchCache } from '../cache/watch-cache.js'
import { type ResourceRegistry, type ServedResource, servedResource } from '../dialect/resource-registry.js'
import { type WellKnownResource, qualifiedName } from '../dialect/well-known-resources.js'
import { apiVersion } from '../model/resource.js'
import type { StoredObject } from '../model/stored-object.js'
import type { Logger } from '../support/log.js'

export interface StoredVersionsOptions {
  readonly table: readonly WellKnownResource[]
  readonly registry: ResourceRegistry
  readonly logger: Logger
}

const OWNER = 'stored-versions'

export class StoredVersions {
  readonly #options: StoredVersionsOptions
  #served: readonly ServedResource[] = []

  constructor(options: StoredVersionsOptions) {
    this.#options = options
  }

  /** Before the first state arrives. A resource with one version in the table needs no looking at. */
  follow(cache: WatchCache): void {
    const rows = this.#options.table.filter(({ resource }) => resource.etcdPrefix === cache.prefix)
    if (rows.some(({ served }) => served === 'other-version')) cache.listen(new Listener(cache, rows, this))
  }

  serve({ resource }: WellKnownResource): void {
    const { registry, logger } = this.#options
    if (registry.find(resource.group, resource.version, resource.plural) !== undefined) return
    this.#served = [...this.#served, servedResource(resource, 'well-known')]
    registry.set(OWNER, this.#served)
    logger.info({ resource: qualifiedName(resource) }, 'a version that is stored is served as well')
  }
}

class Listener implements CacheListener {
  /** Versions that were looked up. */
  readonly #seen = new Set<string>()

  constructor(
    readonly cache: WatchCache,
    readonly rows: readonly WellKnownResource[],
    readonly versions: StoredVersions,
  ) {}

  onBatch({ events }: CacheBatch): void {
    for (const { object } of events) if (object !== null) this.#see(object)
  }

  onAdvance(): void {}

  onReset(): void {
    for (const object of this.cache.snapshot().objects(this.cache.prefix)) this.#see(object)
  }

  #see({ apiVersion: stored }: StoredObject): void {
    if (this.#seen.has(stored)) return
    this.#seen.add(stored)
    const row = this.rows.find(({ resource }) => apiVersion(resource) === stored)
    if (row?.served === 'other-version') this.versions.serve(row)
  }
}
