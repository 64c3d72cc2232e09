/** Builds pods, and plays the scheduler and the kubelet that change them. */
import { type KubeObject, type Mint, newMetadata, newUid, ownerReference, timestamp } from './kube-object.js'
import type { Workload } from './workloads.js'

export interface Condition {
  type: string
  status: 'True' | 'False'
  reason?: string
  message?: string
  lastTransitionTime: string
  [member: string]: unknown
}

export interface ContainerStatus {
  name: string
  image: string
  imageID: string
  containerID?: string
  ready: boolean
  started: boolean
  restartCount: number
  state: object
  lastState: object
}

export interface Pod extends KubeObject {
  spec: { nodeName?: string; containers: { name: string; image: string }[]; [member: string]: unknown }
  status: {
    phase: string
    conditions: Condition[]
    containerStatuses?: ContainerStatus[]
    podIP?: string
    [member: string]: unknown
  }
}

/** Builds a pod as the API server first stores it, not yet on a node. */
export function newPod(mint: Mint, owner: Workload, name: string, ageMs = 0): Pod {
  const { metadata, spec } = owner.spec.template
  return {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: {
      ...newMetadata(mint, name, owner.metadata.namespace, ageMs),
      labels: {
        ...metadata.labels,
        ...(owner.kind === 'StatefulSet' ? { 'statefulset.kubernetes.io/pod-name': name } : {}),
      },
      ownerReferences: [ownerReference(owner)],
    },
    spec: { ...spec, schedulerName: 'default-scheduler', enableServiceLinks: true },
    status: { phase: 'Pending', conditions: [], qosClass: 'Burstable' },
  }
}

/** Plays the scheduler: assigns a node, and containers that are about to be created. */
export function placePod(mint: Mint, pod: Pod, node: KubeObject, ageMs = 0): void {
  const at = timestamp(mint.now() - ageMs)
  const addresses = (node['status'] as { addresses: { address: string }[] }).addresses
  pod.spec.nodeName = node.metadata.name
  pod.status = {
    ...pod.status,
    phase: 'Pending',
    conditions: [
      { type: 'Initialized', status: 'True', lastTransitionTime: at },
      { type: 'Ready', status: 'False', lastTransitionTime: at, reason: 'ContainersNotReady' },
      { type: 'ContainersReady', status: 'False', lastTransitionTime: at, reason: 'ContainersNotReady' },
      { type: 'PodScheduled', status: 'True', lastTransitionTime: at },
    ],
    hostIP: addresses[0]?.address ?? '',
    startTime: at,
    containerStatuses: pod.spec.containers.map(({ name, image }) => ({
      name,
      image,
      imageID: '',
      ready: false,
      started: false,
      restartCount: 0,
      state: { waiting: { reason: 'ContainerCreating' } },
      lastState: {},
    })),
  }
}

/** Plays the kubelet: every container runs and is ready. */
export function runPod(mint: Mint, pod: Pod, podIP: string, ageMs = 0): void {
  const at = timestamp(mint.now() - ageMs)
  pod.status.phase = 'Running'
  pod.status.podIP = podIP
  pod.status['podIPs'] = [{ ip: podIP }]
  for (const container of pod.status.containerStatuses ?? []) {
    container.ready = true
    container.started = true
    container.imageID = `sha256:${newUid(mint.random).replaceAll('-', '')}`
    container.containerID = `containerd://${newUid(mint.random).replaceAll('-', '')}`
    container.state = { running: { startedAt: at } }
  }
  setReady(pod, true, at)
}

/** The container ends and waits to be restarted. */
export function crashPod(mint: Mint, pod: Pod, exitCode: number): void {
  const at = timestamp(mint.now())
  for (const container of pod.status.containerStatuses ?? []) {
    const { startedAt = at } = (container.state as { running?: { startedAt?: string } }).running ?? {}
    container.ready = false
    container.started = false
    container.restartCount++
    const reason = exitCode === 137 ? 'OOMKilled' : 'Error'
    container.lastState = { terminated: { exitCode, reason, startedAt, finishedAt: at } }
    container.state = {
      waiting: { reason: 'CrashLoopBackOff', message: `back-off 10s restarting failed container=${container.name}` },
    }
  }
  setReady(pod, false, at)
}

export function isReady(pod: Pod): boolean {
  return pod.status.conditions.some(({ type, status }) => type === 'Ready' && status === 'True')
}

/** Whether its owner counts it, which means that it is not being deleted. */
export function isCounted(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp === undefined
}

function setReady(pod: Pod, isReady: boolean, at: string): void {
  for (const condition of pod.status.conditions) {
    if (condition.type !== 'Ready' && condition.type !== 'ContainersReady') continue
    condition.status = isReady ? 'True' : 'False'
    condition.lastTransitionTime = at
    if (isReady) delete condition.reason
    else condition.reason = 'ContainersNotReady'
  }
}
