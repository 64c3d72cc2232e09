/** A served resource as requests see it: either cached, or opened for each request. */
import type { Dispatcher } from '../broadcast/dispatcher.js'
import type { WatchCache } from '../cache/watch-cache.js'
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { Served } from '../model/served.js'
import type { ResourceMetrics } from '../model/stage-metrics.js'

/**
 * A resource with its cache and its watchers. This is all that a dialect reads and watches:
 *
 * - a list: `cache.reads.consistentSnapshot`, `snapshotNotOlderThan` or `snapshotAt`, each proven to be that fresh, or
 *   `cache.snapshot` without a proof. The snapshot names its revision and its history.
 * - a get: `cache.reads.consistentObject`.
 * - history: `cache.history.assertResumable` says whether a watch can begin after a revision, and `batchAfter` returns
 *   the first batch after it.
 * - a watch: `dispatcher.open` with a start, an encoder, a wire and an output. Watchers with equal `GroupContents` share
 *   their bytes. The output reports to the cursor when it drains or closes, and several cursors may share one
 *   connection behind outputs of their own.
 *
 * Before each of these, and again after whatever the request waits for, call `cache.readiness.assertReadable`; a list
 * or a get also calls `cache.reads.assertListOpen` or `assertOpen` for the part that it has read.
 */
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
  /** @throws EngineError when the upstream does not answer. */
  open(request: UncachedRequest, signal: AbortSignal): Promise<OpenedResource<S>>
}

/** The part of an uncached resource that a request will read. */
export interface UncachedRequest {
  readonly prefix: Key
  /** The key of the only object that is read; null for all objects. */
  readonly key: Key | null
  readonly isWatch: boolean
  /** The revision after which a watch without an initial state starts; null for every other request. */
  readonly afterRevision: Revision | null
}

export interface OpenedResource<S extends Served> {
  readonly live: LiveResource<S>
  /** Closes the request's own cache and its upstream watch. */
  close(): void
}
