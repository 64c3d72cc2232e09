/**
 * One namespace with objects of many kinds in various states, and two nodes, for clients that show everything. All are
 * old, so that their ages stay the same for a day.
 */
import { ESTABLISHED, definitionObject, column, AGE } from '../../support/definition.js'
import type { Written } from '../../support/etcd-writer.js'
import type { World } from './stage.js'

const CREATED = '2026-01-01T00:00:00Z'
const LATER = '2026-01-02T03:04:05Z'

interface Parts {
  readonly labels?: Readonly<Record<string, string>>
  readonly [name: string]: unknown
}

/** An object and its key. @param kind `GROUP/VERSION Kind`. @param key below the registry, without the name. */
function stored(kind: string, key: string, name: string, { labels, metadata, ...parts }: Parts): [string, Written] {
  const [apiVersion = '', kindName = ''] = kind.split(' ')
  const namespace = key.endsWith('/team') ? { namespace: 'team' } : {}
  const own = { name, ...namespace, uid: uidOf(`${key}/${name}`), creationTimestamp: CREATED }
  const object = {
    apiVersion,
    kind: kindName,
    metadata: { ...own, labels: { app: name, ...labels }, ...(metadata as object | undefined) },
    ...parts,
  }
  return [`/registry/${key}/${name}`, object]
}

/** A uid that depends on the text. */
function uidOf(text: string): string {
  const hex = Buffer.from(text).toString('hex').padEnd(32, '0').slice(-32)
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

const ownedBy = (apiVersion: string, kind: string, key: string, name: string): object => ({
  ownerReferences: [{ apiVersion, kind, name, uid: uidOf(`${key}/${name}`), controller: true }],
})

const selector = { matchLabels: { app: 'web' } }
const container = {
  name: 'main',
  image: 'example.org/web:1.2',
  ports: [{ name: 'http', containerPort: 8_080, protocol: 'TCP' }],
  env: [{ name: 'MODE', value: 'fast' }],
  resources: { requests: { cpu: '100m', memory: '64Mi' }, limits: { cpu: '1', memory: '128Mi' } },
}
const template = { metadata: { labels: { app: 'web' } }, spec: { containers: [container] } }
const ready = (status: string, type = 'Ready'): object => ({ type, status, lastTransitionTime: LATER })

/** @param state of its container. */
function podOf(name: string, phase: string, state: object, more: Parts = {}): [string, Written] {
  const isReady = phase === 'Running' && 'running' in state
  const status = {
    phase,
    conditions: [ready(isReady ? 'True' : 'False'), ready('True', 'PodScheduled')],
    hostIP: '10.1.0.1',
    podIP: '10.2.0.7',
    podIPs: [{ ip: '10.2.0.7' }],
    startTime: CREATED,
    qosClass: 'Burstable',
    containerStatuses: [
      { name: 'main', image: 'example.org/web:1.2', imageID: 'i', ready: isReady, restartCount: 0, state },
    ],
  }
  return stored('v1 Pod', 'pods/team', name, {
    labels: { app: 'web' },
    metadata: ownedBy('apps/v1', 'ReplicaSet', 'replicasets/team', 'web-1'),
    spec: { nodeName: 'n0', containers: [container] },
    status,
    ...more,
  })
}

const running = { running: { startedAt: LATER } }

const pods: readonly (readonly [string, Written])[] = [
  podOf('web-a', 'Running', running),
  podOf('web-b', 'Running', { waiting: { reason: 'CrashLoopBackOff', message: 'back-off' } }),
  podOf('done', 'Succeeded', {
    terminated: { reason: 'Completed', exitCode: 0, startedAt: CREATED, finishedAt: LATER },
  }),
  podOf('failed', 'Failed', { terminated: { reason: 'Error', exitCode: 3, startedAt: CREATED, finishedAt: LATER } }),
  podOf('waits', 'Pending', {}, { spec: { containers: [container] }, status: { phase: 'Pending' } }),
]

const nodeOf = (name: string, status: string, spec: object): [string, Written] =>
  stored('v1 Node', 'minions', name, {
    labels: { 'node-role.kubernetes.io/worker': '' },
    spec,
    status: {
      capacity: { cpu: '4', memory: '8Gi', pods: '110' },
      allocatable: { cpu: '3500m', memory: '7Gi', pods: '110' },
      conditions: [ready(status)],
      addresses: [
        { type: 'InternalIP', address: '10.1.0.1' },
        { type: 'Hostname', address: name },
      ],
      nodeInfo: {
        kubeletVersion: 'v1.37.2',
        osImage: 'Debian',
        kernelVersion: '6.1',
        containerRuntimeVersion: 'containerd://2.0',
        architecture: 'amd64',
        operatingSystem: 'linux',
      },
    },
  })

// The API server reports addresses that it has not allocated itself as events, so neither service has one.
const serviceOf = (name: string, spec: object): [string, Written] =>
  stored('v1 Service', 'services/specs/team', name, {
    spec: { ports: [{ name: 'http', port: 80, targetPort: 8_080, protocol: 'TCP' }], ...spec },
  })

const eventOf = (name: string, type: string, reason: string, count: number): [string, Written] =>
  stored('v1 Event', 'events/team', name, {
    involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'team', name: 'web-b', uid: uidOf('pods/team/web-b') },
    type,
    reason,
    message: `${reason} of the container`,
    source: { component: 'kubelet', host: 'n0' },
    firstTimestamp: CREATED,
    lastTimestamp: LATER,
    count,
  })

const claim = { accessModes: ['ReadWriteOnce'], storageClassName: 'fast' }

const objects: readonly (readonly [string, Written])[] = [
  stored('v1 Namespace', 'namespaces', 'team', { spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } }),
  nodeOf('n0', 'True', {}),
  nodeOf('n1', 'False', { unschedulable: true, taints: [{ key: 'broken', effect: 'NoSchedule' }] }),
  ...pods,
  serviceOf('web', { clusterIP: 'None', clusterIPs: ['None'], selector: { app: 'web' } }),
  serviceOf('public', { type: 'ExternalName', externalName: 'www.example.org' }),
  stored('v1 Endpoints', 'services/endpoints/team', 'web', {
    subsets: [{ addresses: [{ ip: '10.2.0.7' }], ports: [{ name: 'http', port: 8_080, protocol: 'TCP' }] }],
  }),
  stored('discovery.k8s.io/v1 EndpointSlice', 'endpointslices/team', 'web-x', {
    labels: { 'kubernetes.io/service-name': 'web' },
    addressType: 'IPv4',
    endpoints: [{ addresses: ['10.2.0.7'], conditions: { ready: true }, nodeName: 'n0' }],
    ports: [{ name: 'http', port: 8_080, protocol: 'TCP' }],
  }),
  stored('apps/v1 Deployment', 'deployments/team', 'web', {
    metadata: { annotations: { 'deployment.kubernetes.io/revision': '1' } },
    spec: { replicas: 3, selector, template },
    status: {
      replicas: 3,
      readyReplicas: 1,
      updatedReplicas: 3,
      availableReplicas: 1,
      conditions: [ready('False', 'Available')],
    },
  }),
  stored('apps/v1 ReplicaSet', 'replicasets/team', 'web-1', {
    labels: { app: 'web' },
    metadata: ownedBy('apps/v1', 'Deployment', 'deployments/team', 'web'),
    spec: { replicas: 3, selector, template },
    status: { replicas: 3, readyReplicas: 1 },
  }),
  stored('apps/v1 StatefulSet', 'statefulsets/team', 'store', {
    spec: { replicas: 2, serviceName: 'web', selector, template },
    status: { replicas: 2, readyReplicas: 2 },
  }),
  stored('apps/v1 DaemonSet', 'daemonsets/team', 'agent', {
    spec: { selector, template },
    status: { desiredNumberScheduled: 2, currentNumberScheduled: 2, numberReady: 1, numberMisscheduled: 0 },
  }),
  stored('batch/v1 Job', 'jobs/team', 'once', {
    spec: {
      completions: 1,
      selector,
      template: { ...template, spec: { containers: [container], restartPolicy: 'Never' } },
    },
    status: { succeeded: 1, startTime: CREATED, completionTime: LATER, conditions: [ready('True', 'Complete')] },
  }),
  stored('batch/v1 CronJob', 'cronjobs/team', 'nightly', {
    spec: {
      schedule: '0 3 * * *',
      concurrencyPolicy: 'Forbid',
      jobTemplate: { spec: { template: { spec: { containers: [container], restartPolicy: 'Never' } } } },
    },
    status: { lastScheduleTime: LATER },
  }),
  stored('v1 ConfigMap', 'configmaps/team', 'settings', { data: { 'a.conf': 'a = 1\nb = 2\n', mode: 'fast' } }),
  stored('v1 Secret', 'secrets/team', 'login', { type: 'Opaque', data: { user: 'YQ==' } }),
  stored('v1 ServiceAccount', 'serviceaccounts/team', 'robot', {}),
  eventOf('web-b.1', 'Warning', 'BackOff', 7),
  eventOf('web-b.2', 'Normal', 'Pulled', 1),
  stored('v1 PersistentVolume', 'persistentvolumes', 'disk', {
    spec: {
      ...claim,
      capacity: { storage: '5Gi' },
      persistentVolumeReclaimPolicy: 'Retain',
      hostPath: { path: '/disk' },
      claimRef: { namespace: 'team', name: 'data' },
    },
    status: { phase: 'Bound' },
  }),
  stored('v1 PersistentVolumeClaim', 'persistentvolumeclaims/team', 'data', {
    spec: { ...claim, volumeName: 'disk', resources: { requests: { storage: '5Gi' } } },
    status: { phase: 'Bound', accessModes: claim.accessModes, capacity: { storage: '5Gi' } },
  }),
  stored('storage.k8s.io/v1 StorageClass', 'storageclasses', 'fast', { provisioner: 'example.com/disks' }),
  stored('networking.k8s.io/v1 Ingress', 'ingress/team', 'site', {
    spec: { ingressClassName: 'nginx', defaultBackend: { service: { name: 'web', port: { number: 80 } } } },
  }),
  stored('networking.k8s.io/v1 NetworkPolicy', 'networkpolicies/team', 'closed', {
    spec: { podSelector: selector, policyTypes: ['Ingress'], ingress: [{ ports: [{ protocol: 'TCP', port: 80 }] }] },
  }),
  stored('policy/v1 PodDisruptionBudget', 'poddisruptionbudgets/team', 'web', {
    spec: { minAvailable: 1, selector },
    status: { currentHealthy: 1, desiredHealthy: 1, disruptionsAllowed: 0, expectedPods: 3 },
  }),
  stored('autoscaling/v2 HorizontalPodAutoscaler', 'horizontalpodautoscalers/team', 'web', {
    spec: {
      scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' },
      minReplicas: 1,
      maxReplicas: 9,
      metrics: [
        { type: 'Resource', resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 70 } } },
      ],
    },
    status: { currentReplicas: 3, desiredReplicas: 3 },
  }),
  stored('rbac.authorization.k8s.io/v1 Role', 'roles/team', 'reader', {
    rules: [{ apiGroups: [''], resources: ['pods', 'configmaps'], verbs: ['get', 'list', 'watch'] }],
  }),
  stored('rbac.authorization.k8s.io/v1 RoleBinding', 'rolebindings/team', 'readers', {
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
    subjects: [{ kind: 'ServiceAccount', name: 'robot', namespace: 'team' }],
  }),
  stored('coordination.k8s.io/v1 Lease', 'leases/team', 'turn', {
    spec: { holderIdentity: 'web-a', leaseDurationSeconds: 15, renewTime: '2026-01-01T00:00:00.000000Z' },
  }),
]

const gadgetDefinition = definitionObject({
  group: 'example.com',
  plural: 'gadgets',
  kind: 'Gadget',
  scope: 'Namespaced',
  versions: [
    {
      name: 'v1',
      storage: true,
      additionalPrinterColumns: [
        column('Size', 'integer', '.spec.size'),
        column('Colour', 'string', '.spec.colour'),
        AGE,
      ],
    },
  ],
})

const definition: readonly (readonly [string, Written])[] = [
  [
    '/registry/apiextensions.k8s.io/customresourcedefinitions/gadgets.example.com',
    {
      ...gadgetDefinition,
      metadata: { name: 'gadgets.example.com', uid: uidOf('gadgets'), creationTimestamp: CREATED },
      status: { ...ESTABLISHED },
    },
  ],
  stored('example.com/v1 Gadget', 'example.com/gadgets/team', 'large', { spec: { size: 7, colour: 'red' } }),
  stored('example.com/v1 Gadget', 'example.com/gadgets/team', 'small', { spec: { size: 1 } }),
]

/** In each turn a pod with its name is created, the first one changes, and one is deleted and created again. */
export const team: World = {
  initial: new Map([...objects, ...definition]),
  turn: (name) => {
    const [failed, stillFailed] = pods[3]!
    return [
      Object.fromEntries([podOf('web-a', 'Running', running, { labels: { app: 'web', turn: name } })]),
      { [failed]: null },
      { [failed]: stillFailed },
      Object.fromEntries([podOf(name, 'Running', running)]),
    ]
  },
}
