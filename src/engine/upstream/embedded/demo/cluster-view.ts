/**
 * The demo's objects as they are in the store, and one transaction of changes to them.
 *
 * The store is the only state: the writer reads what is there, so that it continues sensibly from whatever somebody
 * else wrote or deleted. The consequences of a change (an owner's counts, a service's endpoints) are computed by
 * `settle` and go into the same revision, so an observer sees a consistent cluster at every revision.
 */
import { type Batch, type Key, type KeyValue, prefixEnd } from '../../../model/event.js'
import type { WriteOperation } from '../../upstream.js'
import { keyOf, kindPrefix, type KubeObject, timestamp } from './kube-object.js'
import { revisionOf, type Workload } from './workloads.js'
import { type Condition, isCounted, isReady, type Pod } from './pods.js'

/** The part of the embedded upstream that the demo uses. */
export interface DemoStore {
  /** Returns what is stored under the prefix now, sorted by key. */
  peek(prefix: Key): readonly KeyValue[]
  commit(operations: readonly WriteOperation[]): Batch | null
}

export class ClusterView {
  readonly #store: DemoStore
  readonly #now: () => number
  /** Objects changed in this transaction; null means deleted. */
  readonly #changes = new Map<Key, KubeObject | null>()
  readonly #values = new Map<Key, Buffer>()
  /** Objects read in this transaction, so that each value is parsed once. */
  readonly #read = new Map<Key, KubeObject | null>()

  /** @param now milliseconds since the epoch. */
  constructor(store: DemoStore, now: () => number) {
    this.#store = store
    this.#now = now
  }

  /**
   * Returns every object of a kind, or those of one namespace, sorted by key, with this transaction's changes. The
   * caller may change them.
   */
  list<T extends KubeObject>(kind: T['kind'], namespace?: string): T[] {
    const prefix = kindPrefix(kind, namespace)
    const end = prefixEnd(prefix)
    const objects = new Map<Key, KubeObject>()
    for (const { key, value } of this.#store.peek(prefix)) {
      const object = this.#changes.has(key) ? this.#changes.get(key) : this.#parsed(key, value)
      if (object) objects.set(key, object)
    }
    let hasNew = false
    for (const [key, object] of this.#changes) {
      if (object === null || key < prefix || key >= end || objects.has(key)) continue
      objects.set(key, object)
      hasNew = true
    }
    if (!hasNew) return [...objects.values()] as T[]
    return [...objects].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, object]) => object as T)
  }

  put(object: KubeObject): void {
    this.#changes.set(keyOf(object), object)
  }

  remove(object: KubeObject): void {
    this.#changes.set(keyOf(object), null)
  }

  /** Writes a key that is not a Kubernetes object. */
  putValue(key: Key, value: Buffer): void {
    this.#values.set(key, value)
  }

  podsOf(owner: KubeObject): Pod[] {
    return this.list<Pod>('Pod', owner.metadata.namespace).filter((pod) => isOwnedBy(pod, owner))
  }

  replicaSetsOf(deployment: Workload): Workload[] {
    return this.list<Workload>('ReplicaSet', deployment.metadata.namespace).filter((set) => isOwnedBy(set, deployment))
  }

  /** Updates the counts of all owners and all endpoints of a namespace to match its pods. */
  settle(namespace: string): void {
    for (const set of this.list<Workload>('ReplicaSet', namespace)) this.#settleReplicaSet(set)
    for (const deployment of this.list<Workload>('Deployment', namespace)) this.#settleDeployment(deployment)
    for (const set of this.list<Workload>('StatefulSet', namespace)) this.#settleStatefulSet(set)
    for (const set of this.list<Workload>('DaemonSet', namespace)) this.#settleDaemonSet(set)
    for (const endpoints of this.list<KubeObject>('Endpoints', namespace)) this.#settleEndpoints(endpoints)
  }

  /** Writes all changes as one revision; returns false when nothing is different. */
  commit(): boolean {
    const operations: WriteOperation[] = []
    for (const [key, object] of this.#changes) {
      const stored = this.#stored(key)
      if (object === null) {
        if (stored !== undefined) operations.push({ type: 'delete', key })
        continue
      }
      const value = Buffer.from(JSON.stringify(object))
      if (stored === undefined || !stored.equals(value)) operations.push({ type: 'put', key, value })
    }
    for (const [key, value] of this.#values) operations.push({ type: 'put', key, value })
    this.#changes.clear()
    this.#values.clear()
    this.#read.clear()
    return this.#store.commit(operations) !== null
  }

  #parsed(key: Key, value: Buffer): KubeObject | null {
    const known = this.#read.get(key)
    if (known !== undefined) return known
    const object = parse(key, value)
    this.#read.set(key, object)
    return object
  }

  #stored(key: Key): Buffer | undefined {
    const [first] = this.#store.peek(key)
    return first?.key === key ? first.value : undefined
  }

  #settleReplicaSet(set: Workload): void {
    const { counted, ready } = count(this.podsOf(set))
    set.status = {
      replicas: counted,
      fullyLabeledReplicas: counted,
      readyReplicas: ready,
      availableReplicas: ready,
      observedGeneration: set.metadata.generation ?? 1,
    }
    this.put(set)
  }

  #settleDeployment(deployment: Workload): void {
    const sets = this.replicaSetsOf(deployment)
    const newest = sets.find((set) => revisionOf(set) === revisionOf(deployment))
    const { counted, ready } = count(sets.flatMap((set) => this.podsOf(set)))
    const updated = newest === undefined ? 0 : count(this.podsOf(newest)).counted
    const wanted = deployment.spec.replicas ?? 1
    const isComplete = updated === wanted && counted === wanted && ready === wanted
    const before = (deployment.status['conditions'] as Condition[] | undefined) ?? []
    const condition = (type: string, status: 'True' | 'False', reason: string): Condition => {
      const old = before.find((condition) => condition.type === type)
      const lastTransitionTime = old?.status === status ? old.lastTransitionTime : timestamp(this.#now())
      return { type, status, reason, lastTransitionTime }
    }
    deployment.status = {
      observedGeneration: deployment.metadata.generation ?? 1,
      replicas: counted,
      updatedReplicas: updated,
      readyReplicas: ready,
      availableReplicas: ready,
      ...(ready < wanted ? { unavailableReplicas: wanted - ready } : {}),
      conditions: [
        ready >= wanted
          ? condition('Available', 'True', 'MinimumReplicasAvailable')
          : condition('Available', 'False', 'MinimumReplicasUnavailable'),
        condition('Progressing', 'True', isComplete ? 'NewReplicaSetAvailable' : 'ReplicaSetUpdated'),
      ],
    }
    this.put(deployment)
  }

  #settleStatefulSet(set: Workload): void {
    const { counted, ready } = count(this.podsOf(set))
    set.status = {
      observedGeneration: set.metadata.generation ?? 1,
      replicas: counted,
      readyReplicas: ready,
      currentReplicas: counted,
      updatedReplicas: counted,
      availableReplicas: ready,
      collisionCount: 0,
    }
    this.put(set)
  }

  #settleDaemonSet(set: Workload): void {
    const { counted, ready } = count(this.podsOf(set))
    const nodes = this.list<KubeObject>('Node').length
    set.status = {
      observedGeneration: set.metadata.generation ?? 1,
      currentNumberScheduled: counted,
      desiredNumberScheduled: nodes,
      numberMisscheduled: 0,
      numberReady: ready,
      numberAvailable: ready,
      updatedNumberScheduled: counted,
      ...(ready < nodes ? { numberUnavailable: nodes - ready } : {}),
    }
    this.put(set)
  }

  #settleEndpoints(endpoints: KubeObject): void {
    const { namespace, name } = endpoints.metadata
    const service = this.list<KubeObject>('Service', namespace).find(({ metadata }) => metadata.name === name)
    if (service === undefined) return
    const { selector, ports } = service['spec'] as {
      selector: Record<string, string>
      ports: { name: string; port: number; protocol: string }[]
    }
    const backing = this.list<Pod>('Pod', namespace).filter(
      (pod) => isCounted(pod) && pod.status.podIP !== undefined && matches(pod, selector),
    )
    const address = (pod: Pod): object => ({
      ip: pod.status.podIP,
      nodeName: pod.spec.nodeName,
      targetRef: { kind: 'Pod', namespace, name: pod.metadata.name, uid: pod.metadata.uid },
    })
    const ready = backing.filter(isReady).map(address)
    const notReady = backing.filter((pod) => !isReady(pod)).map(address)
    endpoints['subsets'] =
      backing.length === 0
        ? []
        : [
            {
              ...(ready.length === 0 ? {} : { addresses: ready }),
              ...(notReady.length === 0 ? {} : { notReadyAddresses: notReady }),
              ports,
            },
          ]
    this.put(endpoints)
  }
}

export function isOwnedBy(object: KubeObject, owner: KubeObject): boolean {
  return object.metadata.ownerReferences?.some(({ uid }) => uid === owner.metadata.uid) ?? false
}

function matches(object: KubeObject, selector: Record<string, string>): boolean {
  const labels = object.metadata.labels ?? {}
  return Object.entries(selector).every(([name, value]) => labels[name] === value)
}

function count(pods: readonly Pod[]): { counted: number; ready: number } {
  const counted = pods.filter(isCounted)
  return { counted: counted.length, ready: counted.filter(isReady).length }
}

/** Returns null for a value that does not match its key: somebody else wrote it, and it is left alone. */
function parse(key: Key, value: Buffer): KubeObject | null {
  try {
    const object = JSON.parse(value.toString('utf8')) as KubeObject | null
    return object !== null && keyOf(object) === key && hasShape(object) ? object : null
  } catch {
    return null
  }
}

/**
 * Whether the object has the members that this demo reads. An object that somebody writes through the API has no status
 * yet and gets an empty one, so that the demo runs a new Deployment as a cluster would.
 */
function hasShape(object: KubeObject): boolean {
  const { kind, metadata } = object
  if (typeof metadata.uid !== 'string' || typeof metadata.name !== 'string') return false
  switch (kind) {
    case 'Pod': {
      const pod = object as Pod
      pod.status ??= { phase: 'Pending', conditions: [] }
      pod.status.phase ??= 'Pending'
      pod.status.conditions ??= []
      return Array.isArray(pod.spec.containers) && Array.isArray(pod.status.conditions)
    }
    case 'Deployment':
    case 'ReplicaSet':
    case 'StatefulSet':
    case 'DaemonSet': {
      const workload = object as Workload
      workload.status ??= {}
      const { selector, template } = workload.spec
      return (
        Array.isArray(template.spec.containers) && isObject(template.metadata.labels) && isObject(selector.matchLabels)
      )
    }
    case 'Service': {
      const { selector, ports } = object['spec'] as { selector?: unknown; ports?: unknown }
      return isObject(selector) && Array.isArray(ports)
    }
    case 'Node': {
      const { addresses } = object['status'] as { addresses?: unknown }
      return Array.isArray(addresses) && isObject(object['spec'])
    }
    case 'Lease':
      return typeof (object['spec'] as { renewTime?: unknown }).renewTime === 'string'
    case 'Canary':
      return isObject(object['spec']) && isObject(object['status'])
    case 'Event':
      return typeof object['lastTimestamp'] === 'string'
    default:
      return true
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}
