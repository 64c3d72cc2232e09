/**
 * Builds the demo's Kubernetes objects: pure functions from names, times and random identities to what the API server
 * would have stored (so there is no `metadata.resourceVersion`). Objects have only the members that something reads:
 * what kubectl and dashboards show, what selectors select, what owners count.
 */
import { type Key, keyFromText } from '../../../model/event.js'
import { randomInteger, type Random } from '../../../support/random.js'
import type { DemoNode, DemoWorkload } from './catalogue.js'

export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller: true
  readonly blockOwnerDeletion: true
}

export interface Metadata {
  name: string
  namespace?: string
  uid: string
  creationTimestamp: string
  generation?: number
  deletionTimestamp?: string
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  ownerReferences?: OwnerReference[]
  [member: string]: unknown
}

export interface KubeObject {
  readonly apiVersion: string
  readonly kind: string
  metadata: Metadata
  [member: string]: unknown
}

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

/** A Deployment, ReplicaSet, DaemonSet or StatefulSet. */
export interface Workload extends KubeObject {
  spec: {
    replicas?: number
    selector: { matchLabels: Record<string, string> }
    template: {
      metadata: { labels: Record<string, string>; annotations?: Record<string, string> }
      spec: { containers: { name: string; image: string }[]; [member: string]: unknown }
    }
    [member: string]: unknown
  }
  status: Record<string, unknown>
}

/** Makes the identities and times of one demo cluster. */
export interface Mint {
  readonly random: Random
  /** Milliseconds since the epoch. */
  now(): number
}

/** The paths below `/registry/`, as a kube-apiserver names them. */
const paths: Readonly<Record<string, string>> = {
  ConfigMap: 'configmaps',
  CustomResourceDefinition: 'apiextensions.k8s.io/customresourcedefinitions',
  Canary: 'delivery.example.com/canaries',
  DaemonSet: 'daemonsets',
  Deployment: 'deployments',
  Endpoints: 'services/endpoints',
  Event: 'events',
  Lease: 'leases',
  Namespace: 'namespaces',
  Node: 'minions',
  Pod: 'pods',
  ReplicaSet: 'replicasets',
  Secret: 'secrets',
  Service: 'services/specs',
  ServiceAccount: 'serviceaccounts',
  StatefulSet: 'statefulsets',
}

/** Returns the prefix of a kind, or of one namespace of it; it ends in '/'. */
export function kindPrefix(kind: string, namespace?: string): Key {
  return keyFromText(`/registry/${paths[kind] ?? kind}/${namespace === undefined ? '' : `${namespace}/`}`)
}

export function keyOf({ kind, metadata: { namespace, name } }: KubeObject): Key {
  return (kindPrefix(kind, namespace) + keyFromText(name)) as Key
}

/** RFC 3339 with seconds, as `metav1.Time` is written. */
export function timestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`
}

/** With microseconds, as `metav1.MicroTime` is written. */
export function microTimestamp(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 23)}000Z`
}

export function newUid(random: Random): string {
  const hex = (digits: number): string =>
    Array.from({ length: digits }, () => randomInteger(random, 0, 15).toString(16)).join('')
  return `${hex(8)}-${hex(4)}-4${hex(3)}-${'89ab'[randomInteger(random, 0, 3)]}${hex(3)}-${hex(12)}`
}

/** The letters from which Kubernetes generates names, which spell no words. */
export function nameSuffix(random: Random, length: number): string {
  const letters = 'bcdfghjklmnpqrstvwxz2456789'
  return Array.from({ length }, () => letters[randomInteger(random, 0, letters.length - 1)]).join('')
}

export function newMetadata(mint: Mint, name: string, namespace?: string, ageMs = 0): Metadata {
  return {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    uid: newUid(mint.random),
    creationTimestamp: timestamp(mint.now() - ageMs),
  }
}

export function ownerReference(owner: KubeObject): OwnerReference {
  const { apiVersion, kind, metadata } = owner
  const { name, uid } = metadata
  return { apiVersion, kind, name, uid, controller: true, blockOwnerDeletion: true }
}

export function newNamespace(mint: Mint, name: string, ageMs: number): KubeObject {
  const metadata = { ...newMetadata(mint, name, undefined, ageMs), labels: { 'kubernetes.io/metadata.name': name } }
  return {
    kind: 'Namespace',
    apiVersion: 'v1',
    metadata,
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  }
}

export function newNode(mint: Mint, node: DemoNode, index: number, ageMs: number): KubeObject {
  const since = timestamp(mint.now() - ageMs)
  const condition = (type: string, status: 'True' | 'False', reason: string, message: string): Condition => ({
    type,
    status,
    lastHeartbeatTime: timestamp(mint.now()),
    lastTransitionTime: since,
    reason,
    message,
  })
  const resources = { cpu: node.cpu, 'ephemeral-storage': '203234260Ki', memory: node.memory, pods: '110' }
  const isControlPlane = node.role === 'control-plane'
  return {
    kind: 'Node',
    apiVersion: 'v1',
    metadata: {
      ...newMetadata(mint, node.name, undefined, ageMs),
      labels: {
        'kubernetes.io/arch': 'amd64',
        'kubernetes.io/hostname': node.name,
        'kubernetes.io/os': 'linux',
        'topology.kubernetes.io/zone': node.zone,
        [`node-role.kubernetes.io/${node.role}`]: '',
      },
    },
    spec: {
      podCIDR: `10.244.${index}.0/24`,
      podCIDRs: [`10.244.${index}.0/24`],
      ...(isControlPlane ? { taints: [{ key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' }] } : {}),
    },
    status: {
      capacity: resources,
      allocatable: resources,
      conditions: [
        condition('MemoryPressure', 'False', 'KubeletHasSufficientMemory', 'kubelet has sufficient memory available'),
        condition('DiskPressure', 'False', 'KubeletHasNoDiskPressure', 'kubelet has no disk pressure'),
        condition('PIDPressure', 'False', 'KubeletHasSufficientPID', 'kubelet has sufficient PID available'),
        condition('Ready', 'True', 'KubeletReady', 'kubelet is posting ready status'),
      ],
      addresses: [
        { type: 'InternalIP', address: `192.168.10.${10 + index}` },
        { type: 'Hostname', address: node.name },
      ],
      daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
      nodeInfo: {
        architecture: 'amd64',
        containerRuntimeVersion: 'containerd://2.1.4',
        kernelVersion: '6.1.0-39-amd64',
        kubeletVersion: 'v1.34.2',
        operatingSystem: 'linux',
        osImage: 'Debian GNU/Linux 12 (bookworm)',
      },
    },
  }
}

export function newNodeLease(mint: Mint, node: KubeObject, ageMs: number): KubeObject {
  return {
    kind: 'Lease',
    apiVersion: 'coordination.k8s.io/v1',
    metadata: {
      ...newMetadata(mint, node.metadata.name, 'kube-node-lease', ageMs),
      ownerReferences: [ownerReference(node)],
    },
    spec: { holderIdentity: node.metadata.name, leaseDurationSeconds: 40, renewTime: microTimestamp(mint.now()) },
  }
}

export function newServiceAccount(mint: Mint, namespace: string, ageMs: number): KubeObject {
  return { kind: 'ServiceAccount', apiVersion: 'v1', metadata: newMetadata(mint, 'default', namespace, ageMs) }
}

export function newConfigMap(
  mint: Mint,
  namespace: string,
  name: string,
  data: Readonly<Record<string, string>>,
  ageMs: number,
): KubeObject {
  return { kind: 'ConfigMap', apiVersion: 'v1', metadata: newMetadata(mint, name, namespace, ageMs), data: { ...data } }
}

/** A first run uses it to show that Secrets are not served unless they are named. */
export function newSecret(mint: Mint, namespace: string, name: string, ageMs: number): KubeObject {
  const data = { password: Buffer.from(nameSuffix(mint.random, 16)).toString('base64') }
  return { kind: 'Secret', apiVersion: 'v1', metadata: newMetadata(mint, name, namespace, ageMs), data, type: 'Opaque' }
}

/** Builds the workload's object; a Deployment comes without its ReplicaSet. */
export function newWorkload(mint: Mint, workload: DemoWorkload, ageMs: number): Workload {
  const { kind, namespace, name, replicas, image, tag, port, tier } = workload
  const labels = { app: name, tier }
  const container = {
    name,
    image: `registry.example.com/${image}:${tag}`,
    imagePullPolicy: 'IfNotPresent',
    ...(port === undefined ? {} : { ports: [{ name: 'main', containerPort: port, protocol: 'TCP' }] }),
    resources: { requests: { cpu: workload.cpu, memory: workload.memory }, limits: { memory: workload.memory } },
  }
  return {
    kind,
    apiVersion: 'apps/v1',
    metadata: {
      ...newMetadata(mint, name, namespace, ageMs),
      generation: 1,
      labels,
      annotations: kind === 'Deployment' ? { 'deployment.kubernetes.io/revision': '1' } : {},
    },
    spec: {
      ...(kind === 'DaemonSet' ? {} : { replicas }),
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels },
        spec: {
          containers: [container],
          restartPolicy: 'Always',
          serviceAccountName: 'default',
          terminationGracePeriodSeconds: 30,
          ...(kind === 'DaemonSet' ? { tolerations: [{ operator: 'Exists' }] } : {}),
        },
      },
      ...(kind === 'StatefulSet' ? { serviceName: name, podManagementPolicy: 'OrderedReady' } : {}),
      ...(kind === 'Deployment'
        ? {
            strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
            revisionHistoryLimit: 2,
          }
        : { updateStrategy: { type: 'RollingUpdate' } }),
    },
    status: {},
  }
}

/** Builds the ReplicaSet of a Deployment's present template. */
export function newReplicaSet(mint: Mint, deployment: Workload, replicas: number, ageMs = 0): Workload {
  const hash = nameSuffix(mint.random, 9)
  const labels = { ...deployment.spec.template.metadata.labels, 'pod-template-hash': hash }
  const { name, namespace } = deployment.metadata
  return {
    kind: 'ReplicaSet',
    apiVersion: 'apps/v1',
    metadata: {
      ...newMetadata(mint, `${name}-${hash}`, namespace, ageMs),
      generation: 1,
      labels,
      annotations: { 'deployment.kubernetes.io/revision': revisionOf(deployment) },
      ownerReferences: [ownerReference(deployment)],
    },
    spec: {
      replicas,
      selector: { matchLabels: { ...deployment.spec.selector.matchLabels, 'pod-template-hash': hash } },
      template: { ...deployment.spec.template, metadata: { labels } },
    },
    status: {},
  }
}

/** The annotation by which a Deployment and its ReplicaSets are matched. */
export function revisionOf(object: KubeObject): string {
  return object.metadata.annotations?.['deployment.kubernetes.io/revision'] ?? '0'
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

export function newService(mint: Mint, workload: DemoWorkload, index: number, ageMs: number): KubeObject {
  const { namespace, name, port, tier, kind } = workload
  const clusterIP = kind === 'StatefulSet' ? 'None' : `10.96.${1 + Math.floor(index / 200)}.${10 + (index % 200)}`
  return {
    kind: 'Service',
    apiVersion: 'v1',
    metadata: { ...newMetadata(mint, name, namespace, ageMs), labels: { app: name, tier } },
    spec: {
      ports: [{ name: 'main', protocol: 'TCP', port, targetPort: port }],
      selector: { app: name },
      clusterIP,
      clusterIPs: [clusterIP],
      type: 'ClusterIP',
      sessionAffinity: 'None',
    },
    status: { loadBalancer: {} },
  }
}

export function newEndpoints(mint: Mint, service: KubeObject, ageMs: number): KubeObject {
  const { name, namespace, labels = {} } = service.metadata
  const metadata = { ...newMetadata(mint, name, namespace, ageMs), labels }
  return { kind: 'Endpoints', apiVersion: 'v1', metadata, subsets: [] }
}

export function newEvent(
  mint: Mint,
  about: KubeObject,
  type: 'Normal' | 'Warning',
  reason: string,
  message: string,
  component: string,
): KubeObject {
  const { name, namespace = 'default', uid } = about.metadata
  const at = timestamp(mint.now())
  return {
    kind: 'Event',
    apiVersion: 'v1',
    metadata: newMetadata(mint, `${name}.${newUid(mint.random).replaceAll('-', '').slice(0, 16)}`, namespace),
    involvedObject: {
      kind: about.kind,
      ...(about.metadata.namespace === undefined ? {} : { namespace }),
      name,
      uid,
      apiVersion: about.apiVersion,
    },
    reason,
    message,
    source: { component },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
    type,
    eventTime: null,
    reportingComponent: component,
    reportingInstance: '',
  }
}

export function newCanaryDefinition(mint: Mint, ageMs: number): KubeObject {
  const names = { plural: 'canaries', singular: 'canary', kind: 'Canary', listKind: 'CanaryList', shortNames: ['cn'] }
  const at = timestamp(mint.now() - ageMs)
  const object = (properties: object): object => ({ type: 'object', properties })
  return {
    kind: 'CustomResourceDefinition',
    apiVersion: 'apiextensions.k8s.io/v1',
    metadata: { ...newMetadata(mint, 'canaries.delivery.example.com', undefined, ageMs), generation: 1 },
    spec: {
      group: 'delivery.example.com',
      names: { ...names, categories: ['all'] },
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: {
            openAPIV3Schema: object({
              apiVersion: { type: 'string' },
              kind: { type: 'string' },
              metadata: { type: 'object' },
              spec: object({ targetRef: object({ name: { type: 'string' } }), stepWeight: { type: 'integer' } }),
              status: object({ phase: { type: 'string' }, canaryWeight: { type: 'integer' } }),
            }),
          },
          subresources: { status: {} },
          additionalPrinterColumns: [
            { name: 'Target', type: 'string', jsonPath: '.spec.targetRef.name' },
            { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
            { name: 'Weight', type: 'integer', jsonPath: '.status.canaryWeight' },
            { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
          ],
        },
      ],
      conversion: { strategy: 'None' },
    },
    status: {
      acceptedNames: { ...names, categories: ['all'] },
      conditions: [
        {
          type: 'NamesAccepted',
          status: 'True',
          lastTransitionTime: at,
          reason: 'NoConflicts',
          message: 'no conflicts found',
        },
        {
          type: 'Established',
          status: 'True',
          lastTransitionTime: at,
          reason: 'InitialNamesAccepted',
          message: 'accepted',
        },
      ],
      storedVersions: ['v1'],
    },
  }
}

export function newCanary(mint: Mint, namespace: string, name: string, stepWeight: number, ageMs: number): KubeObject {
  return {
    apiVersion: 'delivery.example.com/v1',
    kind: 'Canary',
    metadata: { ...newMetadata(mint, name, namespace, ageMs), generation: 1, labels: { app: name } },
    spec: { targetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name }, stepWeight },
    status: { phase: 'Succeeded', canaryWeight: 0, lastTransitionTime: timestamp(mint.now() - ageMs) },
  }
}
