/**
 * The served resources, alive: follows the registry, so that a resource that appears is listed and watched at once and one
 * that vanishes ends its watchers cleanly. Resources under one etcd prefix (versions of a kind, the two kinds of events)
 * share one source.
 */
import type { RegistryChange, ResourceRegistry, ServedResource } from '../dialect/resource-registry.js'
import type { Dispatcher } from '../broadcast/dispatcher.js'
import { UncachedFeed } from './uncached-feed.js'
import type { OpenFeed } from '../feed/resource-feed.js'
import { type Key } from '../model/event.js'
import { type Resource, apiVersion, namespacePrefix } from '../model/resource.js'
import type { StatusError } from '../model/status.js'
import { ResourcePipeline, type ResourcePipelineOptions } from './resource-pipeline.js'
import type { UncachedRequest, UncachedResource, LiveResource } from '../transports/api/resource-context.js'
import { UpstreamError, type UpstreamReader, type UpstreamWatcher } from '../upstream/upstream.js'

interface Source {
  readonly source: ResourcePipeline
  users: number
}

export interface ResourcesOptions extends ResourcePipelineOptions {
  /** Batches of history that are kept of a resource; 0: it is not cached. Default: as `ring` says. */
  readonly historySize?: (resource: Resource) => number | null
  /** Where a resource that is not cached is read and watched. */
  readonly directUpstream?: (resource: Resource) => UpstreamReader & UpstreamWatcher
}

/** Of a watch on what is not cached: there is one reader, and it is at the head. */
const DIRECT_RING = { maxItems: 1_024, maxBytes: 4 * 2 ** 20, maxAgeMs: 5 * 60_000 }

export class Resources {
  readonly #options: ResourcesOptions
  readonly #sources = new Map<Key, Source>()
  readonly #live = new Map<string, LiveResource>()
  readonly #stopping = new Set<Promise<void>>()
  /** Of requests that run, by what they know the resource as. */
  readonly #direct = new Map<ServedResource, ResourcePipeline>()
  #directs = 0
  #isStarted = false

  constructor(registry: ResourceRegistry, options: ResourcesOptions) {
    this.#options = options
    this.#follow({ added: registry.list(), removed: [] })
    registry.onChange((change) => this.#follow(change))
  }

  find(group: string, version: string, plural: string): LiveResource | undefined {
    return this.#live.get(`${group}/${version}/${plural}`)
  }

  /** The same, of a request that has a cache of its own too. */
  liveOf(served: ServedResource): LiveResource | undefined {
    const source = this.#direct.get(served)
    if (source !== undefined) return liveResource(served, source)
    const { group, version, plural } = served.resource
    return this.find(group, version, plural)
  }

  /** All that have watchers. */
  *broadcasters(): Generator<Dispatcher> {
    for (const { broadcaster } of this.sources()) yield broadcaster
    for (const { broadcaster } of this.#direct.values()) yield broadcaster
  }

  *sources(): Generator<ResourcePipeline> {
    for (const { source } of this.#sources.values()) yield source
  }

  start(): void {
    this.#isStarted = true
    for (const { source } of this.#sources.values()) source.start()
  }

  async stop(): Promise<void> {
    for (const source of this.#direct.values()) void source.stop()
    await Promise.all([...[...this.#sources.values()].map(({ source }) => source.stop()), ...this.#stopping])
  }

  /** Additions first: an entry that only changed keeps its source. */
  #follow({ added, removed }: RegistryChange): void {
    const addedPaths = new Set(added.map(pathOf))
    for (const served of added) {
      if (this.#isDirect(served)) this.#live.set(pathOf(served), this.#directResource(served))
      else this.#live.set(pathOf(served), liveResource(served, this.#use(served).source))
    }
    for (const served of removed) {
      const isReplaced = addedPaths.has(pathOf(served))
      if (!isReplaced) this.#live.delete(pathOf(served))
      if (this.#isDirect(served)) this.#endDirect(served, isReplaced)
      else this.#release(served, isReplaced)
    }
  }

  #isDirect({ resource }: ServedResource): boolean {
    return this.#options.historySize?.(resource) === 0 && this.#options.directUpstream !== undefined
  }

  /** It is known by name, and holds nothing: each request brings its own. */
  #directResource(served: ServedResource): LiveResource {
    const inert = new ResourcePipeline(served.resource, { ...this.#options, ring: DIRECT_RING, openFeed: inertFeed })
    return { ...liveResource(served, inert), direct: (ask, signal) => this.#openDirect(served, ask, signal) }
  }

  async #openDirect(known: ServedResource, ask: UncachedRequest, signal: AbortSignal): Promise<UncachedResource> {
    const served = { ...known }
    const { resource } = served
    const { clock, directUpstream } = this.#options
    const prefix = ask.namespace === '' ? resource.etcdPrefix : namespacePrefix(resource, ask.namespace)
    const upstream = directUpstream!(resource)
    const feeds: UncachedFeed[] = []
    const onLost = (error: StatusError): void => {
      for (const cursor of source.broadcaster.cursors) source.broadcaster.fail(cursor, error, 'error')
    }
    const source: ResourcePipeline = new ResourcePipeline(resource, {
      ...this.#options,
      ring: DIRECT_RING,
      firstHistory: ++this.#directs,
      openFeed: (request) => {
        const feed = new UncachedFeed(request, { upstream, prefix, clock, onLost })
        feeds.push(feed)
        return feed
      },
    })
    const close = (): void => {
      if (this.#direct.delete(served)) void source.stop()
    }
    this.#direct.set(served, source)
    try {
      const [feed] = feeds
      if (ask.afterRevision === null) await feed!.loadNow(signal)
      else await feed!.loadAt(ask.afterRevision, signal)
      if (ask.isWatch && this.#direct.has(served)) feed!.watch()
    } catch (error) {
      close()
      throw error
    }
    return { ...liveResource(served, source), close }
  }

  #endDirect({ resource }: ServedResource, isReplaced: boolean): void {
    if (isReplaced) return
    for (const [served, source] of this.#direct) {
      if (served.resource !== resource) continue
      this.#direct.delete(served)
      void source.stop()
    }
  }

  #use({ resource }: ServedResource): Source {
    let entry = this.#sources.get(resource.etcdPrefix)
    if (entry === undefined) {
      const { ring } = this.#options
      const maxItems = this.#options.historySize?.(resource) ?? ring.maxItems
      entry = { source: new ResourcePipeline(resource, { ...this.#options, ring: { ...ring, maxItems } }), users: 0 }
      this.#sources.set(resource.etcdPrefix, entry)
      if (this.#isStarted) entry.source.start()
    }
    entry.users++
    return entry
  }

  #release({ resource }: ServedResource, isReplaced: boolean): void {
    const entry = this.#sources.get(resource.etcdPrefix)
    if (entry === undefined) return
    entry.users--
    if (entry.users > 0) {
      if (!isReplaced) entry.source.broadcaster.endVersion(apiVersion(resource))
      return
    }
    this.#sources.delete(resource.etcdPrefix)
    const stopped = entry.source.stop()
    this.#stopping.add(stopped)
    void stopped.finally(() => this.#stopping.delete(stopped))
  }
}

function liveResource(served: ServedResource, { cache, broadcaster, metrics }: ResourcePipeline): LiveResource {
  return { served, cache, broadcaster, metrics }
}

function pathOf({ resource }: ServedResource): string {
  return `${resource.group}/${resource.version}/${resource.plural}`
}

/** Of a resource that is not cached, which is not fed. */
const inertFeed: OpenFeed = () => {
  const refuse = (): Promise<never> => Promise.reject(new UpstreamError('unavailable', 'not cached'))
  return {
    freshness: {
      trustsProgress: false,
      currentRevision: refuse,
      requestProgress: () => {},
      readState: refuse,
      readKey: refuse,
    },
    status: { state: 'idle', revision: null, connectedSince: null, reason: null },
    start: () => {},
    stop: () => Promise.resolve(),
  }
}
