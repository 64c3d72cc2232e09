/**
 * The served resources with their pipelines, kept in step with the registry. A resource that appears is listed and
 * watched at once; when one disappears, its watchers end cleanly. Resources under one etcd prefix (versions of a kind,
 * the two kinds of events) share one pipeline.
 */
import type { WatchCache } from '../cache/watch-cache.js'
import { type Resource, schemaVersion } from '../model/resource.js'
import type { Served, ServedChange, ServedList } from '../model/served.js'
import type { UpstreamReader, UpstreamWatcher } from '../upstream/upstream.js'
import type { LiveResource, UncachedResource } from './live-resource.js'
import { ResourcePipeline, type ResourcePipelineOptions } from './resource-pipeline.js'
import type { RingBounds } from '../cache/ring-buffer.js'
import { UncachedResources } from './uncached-resources.js'

export interface ResourcesOptions<R extends Resource> extends ResourcePipelineOptions<R> {
  /** Returns the same text for resources that share a pipeline. */
  readonly sourceOf: (resource: R) => string
  /**
   * Returns how many batches of history to keep for a resource. 0 means that it is not cached; null means as many as
   * `ring` says.
   */
  readonly historySize: (resource: R) => number | null
  /**
   * Returns the upstream from which a resource that is not cached is read and watched. Its values are already
   * decrypted.
   */
  readonly directUpstream: (resource: R) => UpstreamReader & UpstreamWatcher
}

interface Shared<R extends Resource> {
  readonly pipeline: ResourcePipeline<R>
  /** The number of served resources that share the pipeline. */
  users: number
}

export class Resources<S extends Served> {
  readonly #options: ResourcesOptions<S['resource']>
  #ring: RingBounds
  /** Keyed by `sourceOf`. */
  readonly #pipelines = new Map<string, Shared<S['resource']>>()
  readonly #byPath = new Map<string, LiveResource<S> | UncachedResource<S>>()
  readonly #uncached: UncachedResources<S>
  readonly #retiring = new Map<ResourcePipeline<S['resource']>, Promise<void>>()
  #isStarted = false

  constructor(registry: ServedList<S>, options: ResourcesOptions<S['resource']>) {
    this.#options = options
    this.#ring = options.ring
    const { transformOf: _opened, ...uncached } = options
    this.#uncached = new UncachedResources({ ...uncached, upstreamOf: options.directUpstream })
    this.#follow({ added: registry.list(), removed: [] })
    registry.onChange((change) => this.#follow(change))
  }

  find(group: string, version: string, plural: string): LiveResource<S> | UncachedResource<S> | undefined {
    return this.#byPath.get(`${group}/${version}/${plural}`)
  }

  /** Also returns undefined for a resource that is not cached. */
  findLive(group: string, version: string, plural: string): LiveResource<S> | undefined {
    const found = this.find(group, version, plural)
    return found?.kind === 'live' ? found : undefined
  }

  /** The cache of a resource or, if it is not cached, the caches of its running watches. */
  *cachesOf({ group, version, plural }: Resource): Generator<WatchCache> {
    const found = this.find(group, version, plural)
    if (found?.kind === 'live') yield found.cache
    else if (found !== undefined) yield* this.#uncached.cachesOf(found.served.resource)
  }

  /** The pipelines of all watchers, including those of uncached resources. */
  *allPipelines(): Generator<ResourcePipeline<S['resource']>> {
    yield* this.pipelines()
    yield* this.#retiring.keys()
    yield* this.#uncached.pipelines()
  }

  /** The pipelines, one for each cached etcd prefix. */
  *pipelines(): Generator<ResourcePipeline<S['resource']>> {
    for (const { pipeline } of this.#pipelines.values()) yield pipeline
  }

  /** Changes the history limits of every cached resource. Smaller limits evict at once. */
  setRingBounds(ring: RingBounds): void {
    this.#ring = ring
    for (const pipeline of this.pipelines()) pipeline.setRingBounds(this.#ringOf(pipeline.resource))
  }

  /** Tries again to decrypt the values that none of the encryption keys could decrypt. */
  async reopen(): Promise<void> {
    await Promise.all([...this.pipelines()].map((pipeline) => pipeline.reopen()))
  }

  start(): void {
    this.#isStarted = true
    for (const pipeline of this.pipelines()) pipeline.start()
  }

  async stop(): Promise<void> {
    this.#uncached.stop()
    const all = [...this.pipelines(), ...this.#retiring.keys()]
    await Promise.all([...all.map((pipeline) => pipeline.stop()), ...this.#retiring.values()])
  }

  /** Additions come first, so that an entry that has only changed keeps its pipeline. */
  #follow({ added, removed }: ServedChange<S>): void {
    const { sourceOf } = this.#options
    const addedByPath = new Map(added.map((served) => [pathOf(served), served]))
    for (const served of added) this.#byPath.set(pathOf(served), this.#open(served))
    const reread = new Set<ResourcePipeline<S['resource']>>()
    const released: { readonly served: S; readonly isReplaced: boolean }[] = []
    for (const served of removed) {
      const replacement = addedByPath.get(pathOf(served))
      const isReplaced = replacement !== undefined
      const source = sourceOf(served.resource)
      const isSucceeded = isReplaced && sourceOf(replacement.resource) !== source
      const pipeline = this.#pipelines.get(source)?.pipeline
      if (!isReplaced) this.#byPath.delete(pathOf(served))
      if (isSucceeded) pipeline?.dispatcher.endVersion(schemaVersion(served.resource), true)
      if (!this.#isUncached(served)) released.push({ served, isReplaced })
      else if (isSucceeded) this.#uncached.expire(served.resource)
      else if (!isReplaced || served.definition !== null) this.#uncached.end(served.resource)
      if (isReplaced && !isSucceeded && served.definition !== null && pipeline !== undefined) reread.add(pipeline)
    }
    this.#release(released)
    for (const pipeline of reread) pipeline.reread()
  }

  #open(served: S): LiveResource<S> | UncachedResource<S> {
    return this.#isUncached(served) ? this.#uncached.resource(served) : this.#share(served).live(served)
  }

  #isUncached({ resource, isUncached = false }: S): boolean {
    return isUncached || this.#options.historySize(resource) === 0
  }

  #share({ resource }: S): ResourcePipeline<S['resource']> {
    const source = this.#options.sourceOf(resource)
    let shared = this.#pipelines.get(source)
    if (shared === undefined) {
      const ring = this.#ringOf(resource)
      shared = { pipeline: new ResourcePipeline(resource, { ...this.#options, ring }), users: 0 }
      this.#pipelines.set(source, shared)
      if (this.#isStarted) shared.pipeline.start()
    }
    shared.users++
    return shared.pipeline
  }

  #ringOf(resource: S['resource']): RingBounds {
    return { ...this.#ring, maxItems: this.#options.historySize(resource) ?? this.#ring.maxItems }
  }

  /**
   * If only one version is removed, its watchers end at once. If all versions of a pipeline are removed, all watchers
   * get its last events first.
   */
  #release(released: readonly { readonly served: S; readonly isReplaced: boolean }[]): void {
    for (const { served } of released) {
      const shared = this.#pipelines.get(this.#options.sourceOf(served.resource))
      if (shared !== undefined) shared.users--
    }
    for (const { served, isReplaced } of released) {
      const source = this.#options.sourceOf(served.resource)
      const shared = this.#pipelines.get(source)
      if (shared === undefined) continue
      const { pipeline, users } = shared
      if (users > 0) {
        if (!isReplaced) pipeline.dispatcher.endVersion(schemaVersion(served.resource))
        continue
      }
      this.#pipelines.delete(source)
      this.#retiring.set(
        pipeline,
        pipeline.retire().finally(() => this.#retiring.delete(pipeline)),
      )
    }
  }
}

function pathOf({ resource }: Served): string {
  return `${resource.group}/${resource.version}/${resource.plural}`
}
