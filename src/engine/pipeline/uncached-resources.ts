/**
 * Resources that are not cached (`--watch-cache-sizes=…#0`). Every request reads the upstream itself, into a small
 * pipeline that lives as long as the request.
 */
import type { WatchCache } from '../cache/watch-cache.js'
import type { Resource } from '../model/resource.js'
import type { Served } from '../model/served.js'
import { type EngineError, RevisionExpiredError } from '../model/errors.js'
import type { UpstreamReader, UpstreamWatcher } from '../upstream/upstream.js'
import type { OpenedResource, UncachedRequest, UncachedResource } from './live-resource.js'
import { ResourcePipeline, type ResourcePipelineOptions } from './resource-pipeline.js'
import { UncachedFeed } from './uncached-feed.js'

export interface UncachedResourcesOptions<R extends Resource> extends Omit<
  ResourcePipelineOptions<R>,
  'openFeed' | 'ring' | 'transformOf'
> {
  /** Returns the upstream of a resource. Its values are already decrypted. */
  readonly upstreamOf: (resource: R) => UpstreamReader & UpstreamWatcher
}

/** The history for one watch. It may be short because its only reader is at the head. */
const RING = { maxItems: 1_024, maxBytes: 4 * 2 ** 20, maxAgeMs: 5 * 60_000 }

interface Opening<R extends Resource> {
  readonly resource: R
  readonly pipeline: ResourcePipeline<R>
  readonly isWatch: boolean
}

export class UncachedResources<S extends Served> {
  readonly #options: UncachedResourcesOptions<S['resource']>
  /** The running requests. */
  readonly #open = new Set<Opening<S['resource']>>()

  constructor(options: UncachedResourcesOptions<S['resource']>) {
    this.#options = options
  }

  *pipelines(): Generator<ResourcePipeline<S['resource']>> {
    for (const { pipeline } of this.#open) yield pipeline
  }

  resource(served: S): UncachedResource<S> {
    return { kind: 'uncached', served, open: (request, signal) => this.#openFor(served, request, signal) }
  }

  /** The caches of the running watches of a resource. */
  *cachesOf(resource: Resource): Generator<WatchCache> {
    for (const { isWatch, pipeline, ...opening } of this.#open) {
      if (isWatch && opening.resource === resource) yield pipeline.cache
    }
  }

  /** Ends the requests for a resource that is no longer served. */
  end(resource: Resource): void {
    for (const opening of this.#open) {
      if (opening.resource === resource) void opening.pipeline.retire().finally(() => this.#open.delete(opening))
    }
  }

  /** Ends the watches of a resource whose name other objects have from now on: their clients must list again. */
  expire(resource: Resource): void {
    for (const opening of this.#open) {
      if (opening.resource === resource) opening.pipeline.dispatcher.lose(new RevisionExpiredError(null, null))
    }
    this.end(resource)
  }

  stop(): void {
    for (const opening of this.#open) this.#close(opening)
  }

  async #openFor(served: S, request: UncachedRequest, signal: AbortSignal): Promise<OpenedResource<S>> {
    const { resource } = served
    const { pipeline, feed } = this.#connect(resource, request)
    const opening = { resource, pipeline, isWatch: request.isWatch }
    this.#open.add(opening)
    try {
      if (request.key !== null) await feed.loadOne(request.key, signal)
      else if (request.afterRevision === null) await feed.loadNow(signal)
      else await feed.loadAt(request.afterRevision, signal)
      if (request.isWatch) feed.watch()
    } catch (error) {
      this.#close(opening)
      throw error
    }
    return { live: pipeline.live(served), close: () => this.#close(opening) }
  }

  #connect(
    resource: S['resource'],
    { prefix, isWatch }: UncachedRequest,
  ): { pipeline: ResourcePipeline<S['resource']>; feed: UncachedFeed } {
    const { clock, upstreamOf } = this.#options
    const onLost = (error: EngineError): void => pipeline.dispatcher.lose(error)
    let feed: UncachedFeed | undefined
    const pipeline: ResourcePipeline<S['resource']> = new ResourcePipeline(resource, {
      ...this.#options,
      ring: RING,
      openFeed: (request) =>
        (feed = new UncachedFeed(request, { upstream: upstreamOf(resource), prefix, isWatch, clock, onLost })),
    })
    return { pipeline, feed: feed! }
  }

  #close(opening: Opening<S['resource']>): void {
    if (this.#open.delete(opening)) void opening.pipeline.stop()
  }
}
