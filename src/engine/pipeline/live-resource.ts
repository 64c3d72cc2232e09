/** A served resource as requests see it: either cached, or opened for each request. */
import type { Dispatcher } from '../broadcast/dispatcher.js'
import type { WatchCache } from '../cache/watch-cache.js'
import type { Revision } from '../model/revision.js'
import type { Served } from '../model/served.js'
import type { ResourceMetrics } from '../model/stage-metrics.js'

/** A resource with its cache and its watchers. */
export interface LiveResource<S extends Served> {
  readonly kind: 'live'
  readonly served: S
  readonly cache: WatchCache
  readonly dispatcher: Dispatcher
  readonly metrics: ResourceMetrics
}

/** A resource that is not cached: each request opens its own cache, which lives as long as the request. */
export interface UncachedResource<S extends Served> {
  readonly kind: 'uncached'
  readonly served: S
  /** @throws StatusError when the upstream does not answer. */
  open(request: UncachedRequest, signal: AbortSignal): Promise<OpenedResource<S>>
}

/** The part of an uncached resource that a request will read. */
export interface UncachedRequest {
  /** '' for all namespaces. */
  readonly namespace: string
  /** The name of the only object that is read; '' for all objects. */
  readonly name: string
  readonly isWatch: boolean
  /** The revision after which a watch without an initial state starts; null for every other request. */
  readonly afterRevision: Revision | null
}

export interface OpenedResource<S extends Served> {
  readonly live: LiveResource<S>
  /** Closes the request's own cache and its upstream watch. */
  close(): void
}
