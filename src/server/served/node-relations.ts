/**
 * Finds in the caches what belongs to a node, for the Node mode. That includes the pods that run on the node, the
 * objects that these pods name, the volumes of their claims with the volumes' Secrets, and the objects that name the
 * node itself.
 *
 * Two indexes are kept: pods by node, and volumes by claim. The objects that a pod names are looked up when its node
 * makes a request, since most changes to a pod concern its status and affect no request. A mirror pod gives its node
 * access only to the mirror pod, because nodes create mirror pods themselves.
 *
 * Source: the graph of the node authorizer of kubernetes/kubernetes.
 */
import type { NodeRelations, NodeRelative } from '../auth/authz/node.js'
import type { CacheBatch } from '../../engine/cache/cache-batch.js'
import type { WatchCache } from '../../engine/cache/watch-cache.js'
import type { Key } from '../../engine/model/event.js'
import { ServiceUnavailableError } from '../../kubernetes/model/status.js'
import { keyOfName } from '../../kubernetes/model/api-resource.js'
import type { ObjectNotes, StoredObject } from '../../engine/model/stored-object.js'
import type { LiveResource } from '../../kubernetes/dialect/served-live-resource.js'
import { getOrMake } from '../../support/memo.js'
import { SingleFlight } from '../../support/single-flight.js'
import { turns } from '../../support/turns.js'
import { field, listAt, textAt } from '../../support/fields.js'

/** Returns the resource with its cache; undefined while the resource is not served or not cached. */
export type FindLive = (group: string, version: string, plural: string) => LiveResource | undefined
export type JsonOf = (live: LiveResource, object: StoredObject) => Buffer | null

export interface NodeRelationsOptions {
  readonly find: FindLive
  /**
   * Returns the object in the served version; null when it cannot be read. An unreadable object is related to nothing.
   */
  readonly jsonOf: JsonOf
}

/** A cache that etcd has not confirmed for longer than this proves nothing. */
const MAX_STALENESS_MS = 10_000
const MIRROR = 'kubernetes.io/config.mirror'

/** The kinds that name their node, each in the same field. */
const NAMING: Partial<Readonly<Record<NodeRelative, readonly [group: string, plural: string]>>> = {
  volumeattachments: ['storage.k8s.io', 'volumeattachments'],
  resourceslices: ['resource.k8s.io', 'resourceslices'],
  podcertificaterequests: ['certificates.k8s.io', 'podcertificaterequests'],
  pods: ['', 'pods'],
}

export function nodeRelations(options: NodeRelationsOptions): NodeRelations {
  const { jsonOf } = options
  const find = (group: string, plural: string): LiveResource | null => {
    const live = options.find(group, 'v1', plural)
    if (live === undefined) return null
    // A resource that this server may not read is as unknown as one that it has not read yet.
    const isFresh = live.cache.readiness.kind === 'ready' && live.cache.source.ageMs <= MAX_STALENESS_MS
    // Throw instead of refusing: a refusal would end the watches of every kubelet, but watches continue while no
    // decision is possible.
    if (!isFresh)
      throw new ServiceUnavailableError(
        `the objects that belong to the node are not known: ${live.cache.name} is not fresh`,
      )
    return live
  }
  const parse = (live: LiveResource, object: StoredObject): unknown => {
    const json = jsonOf(live, object)
    return json === null ? null : JSON.parse(json.toString('utf8'))
  }
  const indexes = new WeakMap<WatchCache, CacheIndex>()
  const indexOf = (live: LiveResource, valueOf: (object: unknown) => string): CacheIndex =>
    getOrMake(indexes, live.cache, (cache) => new CacheIndex(cache, (object) => valueOf(parse(live, object))))
  const named = new WeakMap<ObjectNotes, ReadonlySet<string>>()

  /** Yields the names in the pods of a node, each as `kind/namespace/name`. */
  async function* namesOf(node: string): AsyncGenerator<ReadonlySet<string>> {
    const pods = find('', 'pods')
    if (pods === null) return
    for (const pod of await indexOf(pods, nodeOf).of(node)) {
      let names = named.get(pod.notes)
      if (names === undefined) {
        if (turns.isOver) await turns.take()
        named.set(pod.notes, (names = namesOfPod(parse(pods, pod))))
      }
      yield names
    }
  }

  async function isNamed(node: string, kind: string, namespace: string, name: string): Promise<boolean> {
    const wanted = nameOf(kind, namespace, name)
    for await (const names of namesOf(node)) if (names.has(wanted)) return true
    return false
  }

  /** The volumes bound to the claims of a node's pods. */
  async function* volumesOf(node: string): AsyncGenerator {
    const volumes = find('', 'persistentvolumes')
    if (volumes === null) return
    const index = indexOf(volumes, claimOf)
    for await (const names of namesOf(node)) {
      for (const name of names) {
        if (!name.startsWith('persistentvolumeclaims/')) continue
        for (const volume of await index.of(name)) yield parse(volumes, volume)
      }
    }
  }

  return {
    async isRelated(node, kind, namespace, name) {
      const naming = NAMING[kind]
      if (naming !== undefined) {
        const live = find(...naming)
        if (live === null || live.served.resource.namespaced !== (namespace !== '')) return false
        const object = live.cache.snapshot().get(keyOfName(live.served.resource, { namespace, name }))
        return object !== undefined && nodeOf(parse(live, object)) === node
      }
      if ((kind === 'persistentvolumes') !== (namespace === '')) return false
      if (kind !== 'persistentvolumes' && (await isNamed(node, kind, namespace, name))) return true
      if (kind !== 'persistentvolumes' && kind !== 'secrets') return false
      for await (const volume of volumesOf(node)) {
        if (kind === 'persistentvolumes' && textAt(volume, 'metadata', 'name') === name) return true
        if (kind === 'secrets' && secretsOfVolume(volume).has(nameOf(kind, namespace, name))) return true
      }
      return false
    },
  }
}

/**
 * Indexes the objects of a cache by one of their values. The index is built at the first request, yielding to the event
 * loop, and then follows the cache.
 */
class CacheIndex {
  readonly #keys = new Map<string, Set<Key>>()
  readonly #values = new Map<Key, string>()
  readonly #making = new SingleFlight(() => this.#make())
  /** The number of the cache's resets, and the number that the index includes. */
  #resets = 0
  #made = -1
  #isMaking = false

  constructor(
    private readonly cache: WatchCache,
    private readonly valueOf: (object: StoredObject) => string,
  ) {
    cache.listen({
      onBatch: (batch) => this.#follow(batch),
      onReset: () => {
        this.#resets++
        this.#clear()
      },
    })
  }

  async of(value: string): Promise<readonly StoredObject[]> {
    while (this.#made !== this.#resets) await this.#making.join()
    const state = this.cache.snapshot()
    return [...(this.#keys.get(value) ?? [])].flatMap((key) => state.get(key) ?? [])
  }

  async #make(): Promise<void> {
    const resets = this.#resets
    this.#clear()
    this.#isMaking = true
    try {
      for (const object of this.cache.snapshot().objects(this.cache.prefix)) {
        if (turns.isOver) await turns.take()
        if (this.#resets !== resets) return
        // An event may have delivered a newer object in the meantime.
        if (!this.#values.has(object.key)) this.#put(object)
      }
      for (const [key, value] of this.#values) if (value === '') this.#values.delete(key)
      this.#made = resets
    } finally {
      this.#isMaking = false
    }
  }

  #clear(): void {
    this.#keys.clear()
    this.#values.clear()
  }

  #follow({ events }: CacheBatch): void {
    // After a reset, nothing is kept until a node makes a request.
    if (this.#made !== this.#resets && !this.#isMaking) return
    for (const { object, previous } of events) {
      if (object !== null) this.#put(object)
      else if (previous !== null) this.#set(previous.key, '')
    }
  }

  #put(object: StoredObject): void {
    this.#set(object.key, this.valueOf(object))
  }

  /** A deleted object is remembered while the index is being built, so that it does not reappear. */
  #set(key: Key, value: string): void {
    const before = this.#values.get(key) ?? ''
    if (value === '' && this.#made === this.#resets) this.#values.delete(key)
    else this.#values.set(key, value)
    if (before === value) return
    const keys = this.#keys.get(before)
    keys?.delete(key)
    if (keys?.size === 0) this.#keys.delete(before)
    if (value === '') return
    const present = this.#keys.get(value)
    if (present === undefined) this.#keys.set(value, new Set([key]))
    else present.add(key)
  }
}

function nodeOf(object: unknown): string {
  return textAt(object, 'spec', 'nodeName')
}

function nameOf(kind: string, namespace: string, name: string): string {
  return `${kind}/${namespace}/${name}`
}

/** The claim that a volume is bound to, in the form in which pods name it; '' for none. */
function claimOf(volume: unknown): string {
  const claim = field(volume, 'spec', 'claimRef')
  const name = textAt(claim, 'name')
  return name === '' ? '' : nameOf('persistentvolumeclaims', textAt(claim, 'namespace'), name)
}

function namesOfPod(pod: unknown): ReadonlySet<string> {
  const names = new Set<string>()
  const namespace = textAt(pod, 'metadata', 'namespace')
  const add = (kind: NodeRelative, name: unknown): void => {
    if (typeof name === 'string' && name !== '') names.add(nameOf(kind, namespace, name))
  }
  if (field(pod, 'metadata', 'annotations', MIRROR) !== undefined) return names
  add('serviceaccounts', field(pod, 'spec', 'serviceAccountName'))
  for (const secret of listAt(pod, 'spec', 'imagePullSecrets')) add('secrets', field(secret, 'name'))
  for (const containers of ['containers', 'initContainers', 'ephemeralContainers']) {
    for (const container of listAt(pod, 'spec', containers)) {
      for (const source of listAt(container, 'envFrom')) {
        add('secrets', field(source, 'secretRef', 'name'))
        add('configmaps', field(source, 'configMapRef', 'name'))
      }
      for (const variable of listAt(container, 'env')) {
        add('secrets', field(variable, 'valueFrom', 'secretKeyRef', 'name'))
        add('configmaps', field(variable, 'valueFrom', 'configMapKeyRef', 'name'))
      }
    }
  }
  for (const volume of listAt(pod, 'spec', 'volumes')) {
    add('secrets', field(volume, 'secret', 'secretName'))
    add('secrets', field(volume, 'azureFile', 'secretName'))
    add('secrets', field(volume, 'csi', 'nodePublishSecretRef', 'name'))
    for (const source of SOURCES) add('secrets', field(volume, source, 'secretRef', 'name'))
    add('configmaps', field(volume, 'configMap', 'name'))
    for (const source of listAt(volume, 'projected', 'sources')) {
      add('secrets', field(source, 'secret', 'name'))
      add('configmaps', field(source, 'configMap', 'name'))
    }
    const claim = field(volume, 'persistentVolumeClaim')
    const isEphemeral = claim === undefined && field(volume, 'ephemeral') !== undefined
    const made = `${textAt(pod, 'metadata', 'name')}-${textAt(volume, 'name')}`
    add('persistentvolumeclaims', isEphemeral ? made : field(claim, 'claimName'))
  }
  const statuses = listAt(pod, 'status', 'resourceClaimStatuses').toReversed()
  const made = new Map(statuses.map((status) => [field(status, 'name'), field(status, 'resourceClaimName')]))
  for (const claim of listAt(pod, 'spec', 'resourceClaims')) {
    const existing = field(claim, 'resourceClaimName')
    if (existing !== undefined) add('resourceclaims', existing)
    else if (field(claim, 'resourceClaimTemplateName') !== undefined)
      add('resourceclaims', made.get(field(claim, 'name')))
  }
  add('resourceclaims', field(pod, 'status', 'extendedResourceClaimStatus', 'resourceClaimName'))
  return names
}

/** The kinds of volumes that have a Secret at `secretRef`. */
const SOURCES = ['cephfs', 'cinder', 'flexVolume', 'rbd', 'scaleIO', 'iscsi', 'storageos'] as const
/** The kinds whose volumes also name the namespace. */
const NAMESPACED: ReadonlySet<string> = new Set(['cinder', 'storageos'])
/** The members of a CSI volume that name the Secrets a kubelet uses. The controllers use two others. */
const CSI_SECRETS = ['nodePublishSecretRef', 'nodeStageSecretRef', 'nodeExpandSecretRef'] as const

function secretsOfVolume(volume: unknown): ReadonlySet<string> {
  const names = new Set<string>()
  const spec = field(volume, 'spec')
  const own = textAt(spec, 'claimRef', 'namespace')
  const add = (namespace: string, name: unknown): void => {
    if (typeof name === 'string' && name !== '') names.add(nameOf('secrets', namespace, name))
  }
  const azure = field(spec, 'azureFile')
  add(textAt(azure, 'secretNamespace') || own, field(azure, 'secretName'))
  for (const source of SOURCES) {
    const reference = field(spec, source, 'secretRef')
    // Volumes created before this field existed have the Secret in the claim's namespace.
    const otherwise = NAMESPACED.has(source) ? '' : own
    add(textAt(reference, 'namespace') || otherwise, field(reference, 'name'))
  }
  for (const one of CSI_SECRETS) {
    const reference = field(spec, 'csi', one)
    add(textAt(reference, 'namespace'), field(reference, 'name'))
  }
  return names
}
