/**
 * Follows the objects of one resource in its cache, for everything derived from objects: custom resources from
 * definitions, group versions from APIServices, permissions from roles and bindings, further versions from what is
 * stored.
 */
import type { CacheBatch } from '../../engine/cache/cache-batch.js'
import type { CacheListener, WatchCache } from '../../engine/cache/watch-cache.js'
import type { RegistryChange } from '../../kubernetes/dialect/resource-registry.js'
import type { Key } from '../../engine/model/event.js'
import type { StoredObject } from '../../engine/model/stored-object.js'
import type { LiveResource } from '../../kubernetes/dialect/served-live-resource.js'

export interface ObjectFollower {
  /** Called for an object that is new or has changed. */
  onPresent?(object: StoredObject): void
  /**
   * Called for an object that is gone. It requires a list of names in memory, so use it only for cluster-scoped kinds
   * with few objects.
   */
  onAbsent?(name: string): void
  /** Called once after each batch or reset. */
  onChange?(): void
}

export function followObjects(cache: WatchCache, follower: ObjectFollower): void {
  cache.listen(new Following(cache, follower))
}

export interface Registrations {
  onChange(listener: (change: RegistryChange) => void): unknown
}

/**
 * Follows a resource that may appear later, or return with another cache.
 *
 * @param find returns undefined while the resource is not served.
 */
export function followResource(
  registry: Registrations,
  find: () => LiveResource | undefined,
  followerOf: (live: LiveResource) => ObjectFollower,
): void {
  let followed: WatchCache | null = null
  const follow = (): void => {
    const live = find()
    if (live === undefined || live.cache === followed) return
    followed = live.cache
    followObjects(live.cache, followerOf(live))
  }
  follow()
  registry.onChange(follow)
}

class Following implements CacheListener {
  /** The names of the existing objects by key, kept only if `onAbsent` is set. */
  readonly #names = new Map<Key, string>()
  /**
   * Whether the cache has reached the current state. After a restart a cache begins with a past state, and the
   * definitions in it would be served until the current state replaced them.
   */
  #isPresent = false

  constructor(
    readonly cache: WatchCache,
    readonly follower: ObjectFollower,
  ) {}

  onBatch({ events }: CacheBatch): void {
    if (!this.#isPresent) return
    for (const { object, previous } of events) {
      if (object !== null) this.#present(object)
      else if (previous !== null) this.#absent(previous.key)
    }
    this.follower.onChange?.()
  }

  onReady(): void {
    this.#isPresent = true
    this.onReset()
  }

  onReset(): void {
    if (!this.#isPresent) return
    if (this.follower.onPresent !== undefined) {
      const before = new Set(this.#names.keys())
      const snapshot = this.cache.snapshot()
      for (const object of snapshot.objects(this.cache.prefix)) {
        before.delete(object.key)
        this.#present(object)
      }
      // An object that cannot be decrypted now still exists.
      for (const key of before) if (!snapshot.sealed.has(key)) this.#absent(key)
    }
    this.follower.onChange?.()
  }

  #present(object: StoredObject): void {
    if (this.follower.onAbsent !== undefined) this.#names.set(object.key, object.name)
    this.follower.onPresent?.(object)
  }

  #absent(key: Key): void {
    const name = this.#names.get(key)
    if (name === undefined) return
    this.#names.delete(key)
    this.follower.onAbsent?.(name)
  }
}
