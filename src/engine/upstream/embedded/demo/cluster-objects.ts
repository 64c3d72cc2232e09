/** Builds the objects of the cluster itself: namespaces, nodes with their leases, configuration, events. */
import type { DemoNode } from './catalogue.js'
import {
  type KubeObject,
  type Mint,
  microTimestamp,
  nameSuffix,
  newMetadata,
  newUid,
  ownerReference,
  timestamp,
} from './kube-object.js'
import type { Condition } from './pods.js'

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
