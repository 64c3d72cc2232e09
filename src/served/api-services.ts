/**
 * APIService objects in etcd, followed: which group versions another server should have. Those without `spec.service` are the
 * API server's own, and say nothing here.
 */
import type { CacheBatch } from '../cache/cache-batch.js'
import type { CacheListener, WatchCache } from '../cache/watch-cache.js'
import { field, textAt } from '../dialect/table/fields.js'
import type { StoredObject } from '../model/stored-object.js'
import type { ApiServices, NamedService } from '../transports/passthrough/api-services.js'

export interface ApiServiceObjectsOptions {
  readonly cache: WatchCache
  readonly services: ApiServices
  /** The object as apiregistration.k8s.io/v1 JSON; null when it cannot be read. */
  readonly jsonOf: (object: StoredObject) => Buffer | null
}

export class ApiServiceObjects implements CacheListener {
  readonly #options: ApiServiceObjectsOptions
  /** Names of objects that were there. */
  readonly #known = new Set<string>()

  constructor(options: ApiServiceObjectsOptions) {
    this.#options = options
    options.cache.listen(this)
  }

  onBatch(batch: CacheBatch): void {
    for (const { object, previous } of batch.events) {
      if (object !== null) this.#name(object)
      else if (previous !== null) this.#forget(previous.name)
    }
  }

  onAdvance(): void {}

  onReset(): void {
    const present = new Set<string>()
    for (const object of this.#options.cache.snapshot().objects(this.#options.cache.prefix)) {
      present.add(object.name)
      this.#name(object)
    }
    for (const name of this.#known) if (!present.has(name)) this.#forget(name)
  }

  #name(object: StoredObject): void {
    const json = this.#options.jsonOf(object)
    this.#known.add(object.name)
    this.#options.services.name(object.name, json === null ? null : namedService(JSON.parse(json.toString('utf8'))))
  }

  #forget(name: string): void {
    if (this.#known.delete(name)) this.#options.services.name(name, null)
  }
}

/** null: it names no service. */
function namedService(object: unknown): NamedService | null {
  const [group, version] = [textAt(object, 'spec', 'group'), textAt(object, 'spec', 'version')]
  const service = field(object, 'spec', 'service')
  if (group === '' || version === '' || typeof service !== 'object' || service === null) return null
  return { group, version, service: `${textAt(service, 'namespace')}/${textAt(service, 'name')}` }
}
