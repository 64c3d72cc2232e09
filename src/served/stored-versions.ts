/**
 * Versions that are found in etcd: where a kind is stored in an older version than the one served (API servers store
 * some in their beta for years), that version is served as well from the first such object on, as the API server in
 * front of that etcd does. It stays until the next start.
 */
import type { WatchCache } from '../cache/watch-cache.js'
import { wellKnown } from '../dialect/declared-resource.js'
import { type ResourceRegistry, type ServedResource } from '../dialect/resource-registry.js'
import { type WellKnownResource, qualifiedName } from '../dialect/well-known-resources.js'
import { apiVersion } from '../model/resource.js'
import type { Logger } from '../support/log.js'
import { followObjects } from './followed-objects.js'

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

  /** To be called before the first state arrives. A resource with one version in the table needs no following. */
  follow(cache: WatchCache): void {
    const rows = this.#options.table.filter(({ resource }) => resource.etcdPrefix === cache.prefix)
    if (!rows.some(({ served }) => served === 'other-version')) return
    const seen = new Set<string>()
    followObjects(cache, {
      onPresent: ({ apiVersion: stored }) => {
        if (seen.has(stored)) return
        seen.add(stored)
        const row = rows.find(({ resource }) => apiVersion(resource) === stored)
        if (row?.served === 'other-version') this.#serve(row)
      },
    })
  }

  #serve({ resource }: WellKnownResource): void {
    const { registry, logger } = this.#options
    if (registry.find(resource.group, resource.version, resource.plural) !== undefined) return
    this.#served = [...this.#served, wellKnown(resource)]
    registry.set(OWNER, this.#served)
    logger.info({ resource: qualifiedName(resource) }, 'a version that is stored is served as well')
  }
}
