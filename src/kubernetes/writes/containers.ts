/**
 * Deletes objects that contain others: a Namespace contains objects, and a CustomResourceDefinition its custom
 * resources. In Kubernetes, a controller empties a container that is being deleted. Here the delete request itself
 * marks the container, empties it and then removes it. An object with finalizers stays until its last finalizer is
 * gone, and so does its container.
 */
import { exactCopy } from '../codec/exact-json.js'
import { type JsonRecord, record, recordAt, recordsAt } from '../codec/json-tree.js'
import { readDefinition } from '../dialect/crd.js'
import type { ServedResource } from '../dialect/resource-registry.js'
import type { Key } from '../../engine/model/event.js'
import { namespacePrefix, resourceId } from '../model/api-resource.js'
import { ForbiddenError, InternalError, NotFoundError, StatusError } from '../model/status.js'
import { statusOf } from '../model/status-of.js'
import { hasFinalizers, isDeleting } from './object-change.js'
import type { Compare } from '../../engine/upstream/upstream.js'
import type { Held, ObjectLocation, ObjectStore } from './object-store.js'

const NAMESPACES = 'namespaces'
const DEFINITIONS = 'customresourcedefinitions.apiextensions.k8s.io'

export interface ContainersOptions {
  readonly store: ObjectStore
  readonly find: (group: string, version: string, plural: string) => ServedResource | undefined
  readonly resources: () => readonly ServedResource[]
  readonly etcdPrefix: string
  /** Deletes one object as a request to delete it would. */
  readonly remove: (place: ObjectLocation) => Promise<'gone' | 'held'>
}

interface Contents {
  readonly served: ServedResource
  readonly prefix: Key
}

/** Whether the resource's objects contain others. */
export function isContainer(served: Pick<ServedResource, 'resource'>): boolean {
  return resourceId(served.resource) === NAMESPACES || isDefinition(served)
}

export function isDefinition({ resource }: Pick<ServedResource, 'resource'>): boolean {
  return resourceId(resource) === DEFINITIONS
}

export class Containers {
  constructor(private readonly options: ContainersOptions) {}

  /**
   * @returns the keys that must not change until the custom resource is written.
   * @throws ForbiddenError when the definition is being deleted, because it would never become empty.
   */
  async assertDefined({ served, name }: ObjectLocation): Promise<readonly Compare[]> {
    const holder = this.#definitionOf(served)
    const standing = holder === null ? null : await this.options.store.readStanding(holder)
    if (standing === null) return []
    if (!standing.isDeleting) return [standing.guard]
    const { resource } = served
    const why = 'create not allowed while custom resource definition is terminating'
    throw new ForbiddenError(`${resourceId(resource)} ${JSON.stringify(name)} is forbidden: ${why}`, {
      details: { name, group: resource.group, kind: resource.plural },
    })
  }

  #definitionOf({ origin, resource }: ServedResource): ObjectLocation | null {
    const served = this.options.find('apiextensions.k8s.io', 'v1', 'customresourcedefinitions')
    if (origin !== 'custom' || served === undefined) return null
    return { served, namespace: '', name: resourceId(resource) }
  }

  /** If the container is being deleted, empties it and removes it if nothing is left in it. */
  async finish(place: ObjectLocation): Promise<void> {
    const held = await this.options.store.read(place)
    if (held === null || !isDeleting(held.object)) return
    for (const contents of this.#contentsOf(place, held)) await this.#empty(contents)
    await this.#removeIfEmpty(place, held)
  }

  /** Called after a container was changed, because its last finalizer may have been the only thing that kept it. */
  async afterChange(place: ObjectLocation): Promise<void> {
    await afterwards(() => this.finish(place))
  }

  /** Called after an object was removed, which may have been the last one in a container that is being deleted. */
  async afterGone({ served, namespace }: ObjectLocation): Promise<void> {
    const { find, store } = this.options
    const { resource } = served
    const holders: ObjectLocation[] = []
    const namespaces = find('', 'v1', NAMESPACES)
    if (resource.namespaced && namespaces !== undefined)
      holders.push({ served: namespaces, namespace: '', name: namespace })
    const definition = this.#definitionOf(served)
    if (definition !== null) holders.push(definition)
    for (const holder of holders) {
      await afterwards(async () => {
        const held = await store.read(holder)
        if (held !== null && isDeleting(held.object)) await this.#removeIfEmpty(holder, held)
      })
    }
  }

  async #removeIfEmpty(place: ObjectLocation, held: Held): Promise<void> {
    for (const contents of this.#contentsOf(place, held)) {
      for await (const _left of this.options.store.listStored(contents.served, contents.prefix)) return
    }
    await this.options.store.change(place, (now) =>
      now !== null && isDeleting(now.object) && !hasFinalizers(now.object) ? { kind: 'delete' } : { kind: 'none' },
    )
  }

  #contentsOf({ served, name }: ObjectLocation, { object }: Held): readonly Contents[] {
    const { resources, etcdPrefix } = this.options
    if (resourceId(served.resource) === NAMESPACES) {
      const byPrefix = new Map<Key, Contents>()
      for (const each of resources()) {
        if (!each.resource.namespaced || each.origin === 'declared') continue
        const prefix = namespacePrefix(each.resource, name)
        if (!byPrefix.has(prefix)) byPrefix.set(prefix, { served: each, prefix })
      }
      return [...byPrefix.values()]
    }
    const reading = readDefinition(exactCopy(withStoredVersion(object)), etcdPrefix)
    const first = reading.kind === 'defined' ? reading.resources[0] : undefined
    return first === undefined ? [] : [{ served: first, prefix: first.resource.etcdPrefix }]
  }

  /**
   * Removes the contents. An object that cannot be removed is left, so its container stays and the delete can be
   * repeated.
   */
  async #empty({ served, prefix }: Contents): Promise<void> {
    for await (const { scope: namespace, name } of this.options.store.listStored(served, prefix)) {
      try {
        await this.options.remove({ served, namespace, name })
      } catch (error) {
        if (!(error instanceof NotFoundError) && statusOf(error).code >= 503) throw error
      }
    }
  }
}

/**
 * Does what follows a write that was made. If etcd does not answer, or a value cannot be read, the container stays until
 * its delete is repeated; the client must not hear that nothing was written.
 */
async function afterwards(work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof StatusError) || error instanceof InternalError) throw error
  }
}

/** All versions have the same objects, and a definition with very many versions is not served. */
function withStoredVersion(definition: JsonRecord): JsonRecord {
  const spec = recordAt(definition, 'spec') ?? record()
  const stored = recordsAt(spec, 'versions').find((version) => version['storage'] === true)
  const versions = stored === undefined ? [] : [record({ ...stored, served: true })]
  return record({ ...definition, spec: record({ ...spec, versions }) })
}
