/**
 * The served resources, alive: follows the registry, so that a resource that appears is listed and watched at once and one
 * that vanishes ends its watchers cleanly. Resources under one etcd prefix (versions of a kind, the two kinds of events)
 * share one source.
 */
import type { RegistryChange, ResourceRegistry, ServedResource } from './dialect/resource-registry.js'
import { type Key } from './model/event.js'
import { apiVersion } from './model/resource.js'
import { ResourceSource, type ResourceSourceOptions } from './resource-source.js'
import type { LiveResource } from './transports/resource-context.js'

interface Source {
  readonly source: ResourceSource
  users: number
}

export class Resources {
  readonly #options: ResourceSourceOptions
  readonly #sources = new Map<Key, Source>()
  readonly #live = new Map<string, LiveResource>()
  readonly #stopping = new Set<Promise<void>>()
  #isStarted = false

  constructor(registry: ResourceRegistry, options: ResourceSourceOptions) {
    this.#options = options
    this.#follow({ added: registry.list(), removed: [] })
    registry.onChange((change) => this.#follow(change))
  }

  find(group: string, version: string, plural: string): LiveResource | undefined {
    return this.#live.get(`${group}/${version}/${plural}`)
  }

  *sources(): Generator<ResourceSource> {
    for (const { source } of this.#sources.values()) yield source
  }

  start(): void {
    this.#isStarted = true
    for (const { source } of this.#sources.values()) source.start()
  }

  async stop(): Promise<void> {
    await Promise.all([...[...this.#sources.values()].map(({ source }) => source.stop()), ...this.#stopping])
  }

  /** Additions first: an entry that only changed keeps its source. */
  #follow({ added, removed }: RegistryChange): void {
    const addedPaths = new Set(added.map(pathOf))
    for (const served of added) {
      const { source } = this.#use(served)
      const { cache, broadcaster, metrics } = source
      this.#live.set(pathOf(served), { served, cache, broadcaster, metrics })
    }
    for (const served of removed) {
      const isReplaced = addedPaths.has(pathOf(served))
      if (!isReplaced) this.#live.delete(pathOf(served))
      this.#release(served, isReplaced)
    }
  }

  #use({ resource }: ServedResource): Source {
    let entry = this.#sources.get(resource.etcdPrefix)
    if (entry === undefined) {
      entry = { source: new ResourceSource(resource, this.#options), users: 0 }
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

function pathOf({ resource }: ServedResource): string {
  return `${resource.group}/${resource.version}/${resource.plural}`
}
