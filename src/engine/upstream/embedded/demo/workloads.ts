/** Builds workloads, and what stands beside one: its ReplicaSet, Service and Endpoints. */
import type { DemoWorkload } from './catalogue.js'
import { type KubeObject, type Mint, nameSuffix, newMetadata, ownerReference } from './kube-object.js'

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
