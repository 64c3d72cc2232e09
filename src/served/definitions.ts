/**
 * CustomResourceDefinitions, followed: each served version of one becomes a resource as soon as its definition is in the
 * cache, and goes with it.
 */
import type { CacheBatch } from '../cache/cache-batch.js'
import type { CacheListener, WatchCache } from '../cache/watch-cache.js'
import { ownerOfDefinition, readDefinition } from '../dialect/crd.js'
import { qualifiedName } from '../dialect/well-known-resources.js'
import type { ResourceRegistry } from '../dialect/resource-registry.js'
import type { StoredObject } from '../model/stored-object.js'
import type { Logger } from '../support/log.js'

export interface DefinitionsOptions {
  readonly cache: WatchCache
  readonly registry: ResourceRegistry
  readonly etcdPrefix: string
  /** The definition as apiextensions.k8s.io/v1 JSON; null when it cannot be read. */
  readonly jsonOf: (object: StoredObject) => Buffer | null
  readonly logger: Logger
}

export class Definitions implements CacheListener {
  readonly #options: DefinitionsOptions
  /** Names of definitions that have served something. */
  readonly #known = new Set<string>()

  constructor(options: DefinitionsOptions) {
    this.#options = options
    options.cache.listen(this)
  }

  onBatch(batch: CacheBatch): void {
    for (const { object, previous } of batch.events) {
      if (object !== null) this.#define(object)
      else if (previous !== null) this.#forget(previous.name)
    }
  }

  onAdvance(): void {}

  onReset(): void {
    const present = new Set<string>()
    for (const object of this.#options.cache.snapshot().objects(this.#options.cache.prefix)) {
      present.add(object.name)
      this.#define(object)
    }
    for (const name of this.#known) if (!present.has(name)) this.#forget(name)
  }

  #define(object: StoredObject): void {
    const { registry, etcdPrefix, jsonOf, logger } = this.#options
    const json = jsonOf(object)
    const reading = json === null ? null : readDefinition(JSON.parse(json.toString('utf8')), etcdPrefix)
    if (reading === null || reading.kind === 'not-served') {
      const reason = reading === null ? 'it cannot be read' : reading.reason
      logger.warn({ definition: object.name, reason }, 'custom resource is not served')
      return this.#forget(object.name)
    }
    this.#known.add(object.name)
    const refused = registry.set(ownerOfDefinition(object.name), reading.resources)
    for (const { resource } of refused) {
      logger.warn(
        { definition: object.name, resource: qualifiedName(resource) },
        'custom resource is served by another already',
      )
    }
  }

  #forget(name: string): void {
    if (!this.#known.delete(name)) return
    this.#options.registry.remove(ownerOfDefinition(name))
  }
}
