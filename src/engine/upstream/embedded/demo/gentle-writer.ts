/**
 * Keeps the demo cluster moving: a few revisions a second, of the kinds a real cluster writes.
 *
 * Each tick does one thing, the most urgent first: a node's heartbeat that is due, then (mostly) the next step of
 * something under way (a pod that starts or ends, an owner with too few or too many pods), then something new: a crash,
 * a rollout, a scaling, a canary, a flag. It works from what the store has, as a controller does, so a pod that
 * somebody deletes is created again. Nothing grows: events, old ReplicaSets and pods are all bounded.
 */
import { keyFromText } from '../../../model/event.js'
import type { Clock, Timer } from '../../../../support/clock.js'
import { randomInteger, type Random } from '../../../../support/random.js'
import { demoFlagPrefix, demoWorkloads } from './catalogue.js'
import { ClusterView, type DemoStore } from './cluster-view.js'
import { type KubeObject, microTimestamp, type Mint, nameSuffix, timestamp } from './kube-object.js'
import { newEvent } from './cluster-objects.js'
import { newReplicaSet, revisionOf, type Workload } from './workloads.js'
import { crashPod, isCounted, isReady, newPod, placePod, type Pod, runPod } from './pods.js'

export interface GentleWriterOptions {
  readonly clock: Clock
  readonly random: Random
}

/** A visitor sees something happen well within the first third of a second. */
const firstTickMs = 100
const shortestTickMs = 200
const longestTickMs = 500
/** How often the kubelet renews its lease. */
const heartbeatMs = 10_000
/** How many of the newest events are kept; a real cluster forgets them after an hour. */
const maxEvents = 120
/** How many old ReplicaSets are kept for a rollback, as in the Deployments' own `revisionHistoryLimit`. */
const maxOldReplicaSets = 2

export class GentleWriter {
  readonly #options: GentleWriterOptions
  readonly #view: ClusterView
  readonly #mint: Mint
  #timer: Timer | null

  constructor(store: DemoStore, options: GentleWriterOptions) {
    this.#options = options
    this.#view = new ClusterView(store, () => options.clock.now())
    this.#mint = { random: options.random, now: () => options.clock.now() }
    this.#timer = options.clock.setTimer(firstTickMs, () => this.#tick())
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = null
  }

  #tick(): void {
    const { clock, random } = this.#options
    this.#timer = clock.setTimer(randomInteger(random, shortestTickMs, longestTickMs), () => this.#tick())
    if (this.#renewLease(heartbeatMs)) return
    if (random.next() < 0.75 && this.#goOn()) return
    if (this.#begin()) return
    this.#renewLease(0)
  }

  /** Lets one node report that has not been heard of for `ageMs`. */
  #renewLease(ageMs: number): boolean {
    const now = this.#mint.now()
    const leases = this.#view.list<KubeObject & { spec: { renewTime: string } }>('Lease', 'kube-node-lease')
    const oldest = leases.sort((a, b) => (a.spec.renewTime < b.spec.renewTime ? -1 : 1))[0]
    if (oldest === undefined || now - Date.parse(oldest.spec.renewTime) < ageMs) return false
    oldest.spec.renewTime = microTimestamp(now)
    this.#view.put(oldest)
    return this.#view.commit()
  }

  /** Does the next step of something under way; returns false when the cluster is as it should be. */
  #goOn(): boolean {
    const pods = this.#view.list<Pod>('Pod')
    const unsettled = pods.filter((pod) => !isCounted(pod) || !isReady(pod))
    const workloads = this.#workloads()
    const steps: (() => boolean)[] = [
      ...unsettled.map((pod) => () => this.#advancePod(pod, pods)),
      ...workloads.map((workload) => () => this.#reconcile(workload)),
    ]
    for (let start = randomInteger(this.#mint.random, 0, steps.length), i = 0; i < steps.length; i++) {
      if (steps[(start + i) % steps.length]?.()) return true
    }
    return false
  }

  #begin(): boolean {
    const actions = [
      () => this.#moveCanary(),
      () => this.#moveCanary(),
      () => this.#changeFlag(),
      () => this.#changeFlag(),
      () => this.#changeConfigMap(),
      () => this.#crash(),
      () => this.#warn(),
      () => this.#rollOut(),
      () => this.#scale(),
    ]
    return this.#pick(actions)?.() ?? false
  }

  /** Pending → placed → running; crashed → running; being deleted → gone. */
  #advancePod(pod: Pod, pods: readonly Pod[]): boolean {
    const { metadata, spec } = pod
    if (!isCounted(pod)) {
      this.#view.remove(pod)
    } else if (spec.nodeName === undefined) {
      const node = this.#nodeFor(pod, pods)
      if (node === undefined) return false
      placePod(this.#mint, pod, node)
      this.#note(pod, 'Normal', 'Scheduled', `assigned ${metadata.namespace}/${metadata.name} to ${node.metadata.name}`)
      this.#view.put(pod)
    } else {
      runPod(this.#mint, pod, pod.status.podIP ?? freeAddress(pods, this.#view.list<KubeObject>('Node'), spec.nodeName))
      this.#note(pod, 'Normal', 'Started', `started container ${spec.containers[0]?.name}`)
      this.#view.put(pod)
    }
    return this.#settleAndCommit(pod)
  }

  /** Takes one step towards the wanted number of pods; a Deployment first gets one new pod, then loses an old one. */
  #reconcile(workload: Workload): boolean {
    switch (workload.kind) {
      case 'Deployment':
        return this.#reconcileDeployment(workload)
      case 'StatefulSet': {
        const wanted = workload.spec.replicas ?? 1
        const names = Array.from({ length: wanted }, (_, ordinal) => `${workload.metadata.name}-${ordinal}`)
        const pods = this.#view.podsOf(workload)
        const missing = names.find((name) => !pods.some(({ metadata }) => metadata.name === name))
        const surplus = pods.findLast((pod) => isCounted(pod) && !names.includes(pod.metadata.name))
        if (missing !== undefined) return this.#createPod(workload, missing)
        return surplus === undefined ? false : this.#deletePod(workload, surplus)
      }
      default: {
        const pods = this.#view.podsOf(workload)
        const nodes = this.#view.list<KubeObject>('Node')
        if (pods.filter(isCounted).length >= nodes.length) return false
        return this.#createPod(workload, `${workload.metadata.name}-${nameSuffix(this.#mint.random, 5)}`)
      }
    }
  }

  #reconcileDeployment(deployment: Workload): boolean {
    const sets = this.#view.replicaSetsOf(deployment)
    const newest = sets.find((set) => revisionOf(set) === revisionOf(deployment))
    if (newest === undefined) {
      this.#view.put(newReplicaSet(this.#mint, deployment, 0))
      return this.#settleAndCommit(deployment)
    }
    const wanted = deployment.spec.replicas ?? 1
    const countedOf = (set: Workload): Pod[] => this.#view.podsOf(set).filter(isCounted)
    const old = sets.filter((set) => set !== newest)
    const oldPods = old.flatMap(countedOf)
    const newPods = countedOf(newest)
    const total = oldPods.length + newPods.length
    if (newPods.length < wanted && total <= wanted) {
      return this.#createPod(newest, `${newest.metadata.name}-${nameSuffix(this.#mint.random, 5)}`, newPods.length + 1)
    }
    const surplus = newPods.length > wanted ? newPods : oldPods
    const victim = surplus.find((pod) => !isReady(pod)) ?? surplus[0]
    const ready = [...oldPods, ...newPods].filter(isReady).length
    if (victim !== undefined && total > wanted && (ready > wanted || !isReady(victim))) {
      const owner = sets.find((set) => this.#view.podsOf(set).includes(victim)) ?? newest
      return this.#deletePod(owner, victim, countedOf(owner).length - 1)
    }
    const empty = old.filter((set) => this.#view.podsOf(set).length === 0)
    const oldest = empty.sort((a, b) => Number(revisionOf(a)) - Number(revisionOf(b)))[0]
    if (oldest === undefined || empty.length <= maxOldReplicaSets) return false
    this.#view.remove(oldest)
    return this.#view.commit()
  }

  #createPod(owner: Workload, name: string, replicas?: number): boolean {
    this.#view.put(newPod(this.#mint, owner, name))
    this.#setReplicas(owner, replicas)
    this.#note(owner, 'Normal', 'SuccessfulCreate', `created pod: ${name}`)
    return this.#settleAndCommit(owner)
  }

  #deletePod(owner: Workload, pod: Pod, replicas?: number): boolean {
    pod.metadata.deletionTimestamp = timestamp(this.#mint.now() + 30_000)
    pod.metadata.deletionGracePeriodSeconds = 30
    this.#view.put(pod)
    this.#setReplicas(owner, replicas)
    this.#note(owner, 'Normal', 'SuccessfulDelete', `deleted pod: ${pod.metadata.name}`)
    return this.#settleAndCommit(owner)
  }

  #setReplicas(owner: Workload, replicas: number | undefined): void {
    if (replicas === undefined || owner.spec.replicas === replicas) return
    owner.spec.replicas = replicas
    owner.metadata.generation = (owner.metadata.generation ?? 1) + 1
    this.#view.put(owner)
  }

  #crash(): boolean {
    const pod = this.#pick(this.#view.list<Pod>('Pod').filter((pod) => isCounted(pod) && isReady(pod)))
    if (pod === undefined) return false
    crashPod(this.#mint, pod, this.#mint.random.next() < 0.5 ? 137 : 1)
    this.#note(pod, 'Warning', 'BackOff', `back-off restarting failed container in pod ${pod.metadata.name}`)
    this.#view.put(pod)
    return this.#settleAndCommit(pod)
  }

  #warn(): boolean {
    const pod = this.#pick(this.#view.list<Pod>('Pod').filter(isCounted))
    if (pod === undefined) return false
    this.#note(pod, 'Warning', 'Unhealthy', 'readiness probe failed: context deadline exceeded')
    return this.#view.commit()
  }

  /** Gives one Deployment a new image, unless a rollout is under way. */
  #rollOut(): boolean {
    const deployments = this.#view.list<Workload>('Deployment')
    const isRolling = deployments.some(
      ({ spec, status }) => status['updatedReplicas'] !== spec.replicas || status['replicas'] !== spec.replicas,
    )
    const deployment = this.#pick(deployments)
    if (isRolling || deployment === undefined) return false
    const { metadata, spec } = deployment
    for (const container of spec.template.spec.containers) container.image = nextPatch(container.image)
    metadata.generation = (metadata.generation ?? 1) + 1
    metadata.annotations = {
      ...metadata.annotations,
      'deployment.kubernetes.io/revision': String(Number(revisionOf(deployment)) + 1),
    }
    const set = newReplicaSet(this.#mint, deployment, 0)
    this.#view.put(deployment)
    this.#view.put(set)
    this.#note(deployment, 'Normal', 'ScalingReplicaSet', `created replica set ${set.metadata.name}`)
    return this.#settleAndCommit(deployment)
  }

  /** Adds or removes one replica, staying near the catalogue's number. */
  #scale(): boolean {
    const planned = this.#pick(demoWorkloads.filter(({ kind, replicas }) => kind === 'Deployment' && replicas > 1))
    if (planned === undefined) return false
    const deployment = this.#view
      .list<Workload>('Deployment', planned.namespace)
      .find(({ metadata }) => metadata.name === planned.name)
    if (deployment === undefined) return false
    const replicas = planned.replicas + randomInteger(this.#mint.random, -1, 1)
    if (deployment.spec.replicas === replicas) return false
    this.#note(deployment, 'Normal', 'ScalingReplicaSet', `scaled to ${replicas}`)
    this.#setReplicas(deployment, replicas)
    return this.#settleAndCommit(deployment)
  }

  #moveCanary(): boolean {
    interface Canary extends KubeObject {
      spec: { stepWeight: number }
      status: { phase: string; canaryWeight: number; lastTransitionTime: string }
    }
    const canary = this.#pick(this.#view.list<Canary>('Canary'))
    if (canary === undefined) return false
    const { phase, canaryWeight } = canary.status
    const weight = phase === 'Progressing' ? Math.min(100, canaryWeight + canary.spec.stepWeight) : 0
    canary.status = {
      phase: phase !== 'Progressing' ? 'Progressing' : weight === 100 ? 'Succeeded' : 'Progressing',
      canaryWeight: weight,
      lastTransitionTime: timestamp(this.#mint.now()),
    }
    this.#view.put(canary)
    return this.#view.commit()
  }

  #changeFlag(): boolean {
    const { random } = this.#mint
    const flags: readonly [name: string, values: readonly string[]][] = [
      ['checkout/express', ['on', 'off']],
      ['checkout/gift-cards', ['on', 'off']],
      ['search/ranking', ['a', 'b'].map((v) => `{"variant":"${v}","percent":${randomInteger(random, 0, 20) * 5}}`)],
      ['payments/daily-limit', [`{"currency":"EUR","amount":${randomInteger(random, 10, 20) * 1000}}`]],
    ]
    const [name, values] = this.#pick(flags) ?? ['maintenance', ['off']]
    this.#view.putValue(keyFromText(demoFlagPrefix + name), Buffer.from(this.#pick(values) ?? ''))
    return this.#view.commit()
  }

  #changeConfigMap(): boolean {
    const map = this.#view
      .list<KubeObject & { data: Record<string, string> }>('ConfigMap', 'shop')
      .find(({ metadata }) => metadata.name === 'frontend-settings')
    if (map === undefined) return false
    map.data = {
      ...map.data,
      theme: this.#pick(['light', 'dark', 'contrast']) ?? 'light',
      banner: this.#pick(['', 'sale', 'free shipping']) ?? '',
    }
    this.#view.put(map)
    return this.#view.commit()
  }

  /** Writes an event about an object; the oldest events make room. */
  #note(about: KubeObject, type: 'Normal' | 'Warning', reason: string, message: string): void {
    const component =
      reason === 'Scheduled' ? 'default-scheduler' : about.kind === 'Pod' ? 'kubelet' : 'controller-manager'
    const event = newEvent(this.#mint, about, type, reason, message, component)
    const events = this.#view.list<KubeObject & { lastTimestamp: string }>('Event')
    const oldestFirst = events.sort((a, b) => (a.lastTimestamp < b.lastTimestamp ? -1 : 1))
    for (const old of oldestFirst.slice(0, Math.max(0, events.length + 1 - maxEvents))) this.#view.remove(old)
    this.#view.put(event)
  }

  #settleAndCommit({ metadata }: KubeObject): boolean {
    if (metadata.namespace !== undefined) this.#view.settle(metadata.namespace)
    return this.#view.commit()
  }

  #workloads(): Workload[] {
    return ['Deployment', 'StatefulSet', 'DaemonSet'].flatMap((kind) => this.#view.list<Workload>(kind))
  }

  /** Returns the worker with the fewest pods; for a DaemonSet, a node without one. */
  #nodeFor(pod: Pod, pods: readonly Pod[]): KubeObject | undefined {
    const owner = pod.metadata.ownerReferences?.[0]
    const on = (node: KubeObject, uid?: string): number =>
      pods.filter(
        ({ spec, metadata }) =>
          spec.nodeName === node.metadata.name && (uid === undefined || metadata.ownerReferences?.[0]?.uid === uid),
      ).length
    const nodes = this.#view.list<KubeObject>('Node')
    if (owner?.kind === 'DaemonSet') return nodes.find((node) => on(node, owner.uid) === 0)
    const workers = nodes.filter((node) => (node['spec'] as { taints?: object[] }).taints === undefined)
    return workers.sort((a, b) => on(a) - on(b))[0]
  }

  #pick<T>(from: readonly T[]): T | undefined {
    return from[randomInteger(this.#mint.random, 0, from.length - 1)]
  }
}

/** Returns an address of the node's pod network that no pod has. */
export function freeAddress(pods: readonly Pod[], nodes: readonly KubeObject[], nodeName: string): string {
  const node = nodes.find(({ metadata }) => metadata.name === nodeName)
  const { podCIDR = '10.244.255.0/24' } = (node?.['spec'] ?? {}) as { podCIDR?: string }
  const network = podCIDR.slice(0, podCIDR.lastIndexOf('.') + 1)
  const taken = new Set(pods.map(({ status }) => status.podIP))
  let host = 2
  while (host < 254 && taken.has(network + host)) host++
  return network + host
}

/** `registry.example.com/cart:7.2.0` → `…:7.2.1`. */
function nextPatch(image: string): string {
  return image.replace(/\d+$/, (patch) => String(Number(patch) + 1))
}
