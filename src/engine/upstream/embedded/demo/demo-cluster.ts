/**
 * A small, believable Kubernetes cluster for a first run without etcd: five nodes, six namespaces, about fifty pods
 * with their owners, services, events and a custom resource under `/registry`, and a few keys that are not objects. It
 * is deterministic for a seeded `Random` and a given clock. A gentle writer keeps changing it until it is stopped.
 */
import { keyFromText } from '../../../model/event.js'
import { type Clock, systemClock } from '../../../../support/clock.js'
import { type Random, seededRandom } from '../../../../support/random.js'
import {
  demoCanaries,
  demoConfigMaps,
  demoFlagPrefix,
  demoFlags,
  demoNamespaces,
  demoNodes,
  demoWorkloads,
  type DemoWorkload,
} from './catalogue.js'
import { ClusterView, type DemoStore } from './cluster-view.js'
import { freeAddress, GentleWriter } from './gentle-writer.js'
import { type KubeObject, type Mint, nameSuffix } from './kube-object.js'
import { newConfigMap, newNamespace, newNode, newNodeLease, newSecret, newServiceAccount } from './cluster-objects.js'
import { newEndpoints, newReplicaSet, newService, newWorkload, type Workload } from './workloads.js'
import { newPod, placePod, type Pod, runPod } from './pods.js'
import { newCanary, newCanaryDefinition } from './canaries.js'

export interface DemoClusterOptions {
  readonly clock?: Clock
  /** Default: always the same cluster. */
  readonly random?: Random
  /** false fills the store and then leaves it alone. Default: true. */
  readonly writes?: boolean
}

export interface DemoCluster {
  /** Stops writing; what is there stays. */
  stop(): void
}

const dayMs = 24 * 60 * 60 * 1000

/** Fills the store at once, one object a revision, and starts writing. */
export function startDemoCluster(store: DemoStore, options: DemoClusterOptions = {}): DemoCluster {
  const { clock = systemClock, random = seededRandom(1), writes = true } = options
  fill(store, { random, now: () => clock.now() })
  if (!writes) return { stop() {} }
  const writer = new GentleWriter(store, { clock, random })
  return { stop: () => writer.stop() }
}

function fill(store: DemoStore, mint: Mint): void {
  const view = new ClusterView(store, () => mint.now())
  const add = (object: KubeObject): void => {
    view.put(object)
    view.commit()
  }
  for (const name of demoNamespaces) {
    add(newNamespace(mint, name, 90 * dayMs))
    add(newServiceAccount(mint, name, 90 * dayMs))
  }
  const nodes = demoNodes.map((node, index) => newNode(mint, node, index, (80 - index) * dayMs))
  for (const node of nodes) {
    add(node)
    add(newNodeLease(mint, node, 60 * dayMs))
  }
  for (const { namespace, name, data } of demoConfigMaps) add(newConfigMap(mint, namespace, name, data, 40 * dayMs))
  add(newSecret(mint, 'payments', 'ledger-credentials', 40 * dayMs))
  const pods: Pod[] = []
  demoWorkloads.forEach((planned, index) => {
    const ageMs = (30 - index) * dayMs + mint.random.next() * dayMs
    if (planned.port !== undefined) {
      const service = newService(mint, planned, index, ageMs)
      add(service)
      add(newEndpoints(mint, service, ageMs))
    }
    addWorkload(planned, ageMs)
  })
  add(newCanaryDefinition(mint, 20 * dayMs))
  for (const { namespace, name, stepWeight } of demoCanaries)
    add(newCanary(mint, namespace, name, stepWeight, 12 * dayMs))
  for (const namespace of demoNamespaces) {
    view.settle(namespace)
    view.commit()
  }
  for (const { name, value } of demoFlags) {
    view.putValue(keyFromText(demoFlagPrefix + name), value)
    view.commit()
  }

  function addWorkload(planned: DemoWorkload, ageMs: number): void {
    const workload = newWorkload(mint, planned, ageMs)
    add(workload)
    const replicas = planned.kind === 'DaemonSet' ? nodes.length : planned.replicas
    const owner = planned.kind === 'Deployment' ? newReplicaSet(mint, workload, replicas, ageMs) : workload
    if (owner !== workload) add(owner)
    for (let i = 0; i < replicas; i++) {
      const pod = newPod(mint, owner, podName(owner, i), ageMs * (0.1 + 0.9 * mint.random.next()))
      const podAgeMs = mint.now() - Date.parse(pod.metadata.creationTimestamp)
      const node = planned.kind === 'DaemonSet' ? nodes[i] : leastLoadedWorker()
      if (node === undefined) throw new Error('the catalogue has no worker nodes')
      placePod(mint, pod, node, podAgeMs)
      runPod(mint, pod, freeAddress(pods, nodes, node.metadata.name), podAgeMs)
      pods.push(pod)
      add(pod)
    }
  }

  function podName(owner: Workload, ordinal: number): string {
    const suffix = owner.kind === 'StatefulSet' ? String(ordinal) : nameSuffix(mint.random, 5)
    return `${owner.metadata.name}-${suffix}`
  }

  function leastLoadedWorker(): KubeObject | undefined {
    const load = (node: KubeObject): number => pods.filter(({ spec }) => spec.nodeName === node.metadata.name).length
    const workers = nodes.filter((_, index) => demoNodes[index]?.role === 'worker')
    return workers.sort((a, b) => load(a) - load(b))[0]
  }
}
