import { readFileSync } from 'node:fs'
import t from 'tap'
import { resolveResources } from '../../../../src/kubernetes/dialect/declared-resource.js'
import { type ServedResource, servedResource } from '../../../../src/kubernetes/dialect/resource-registry.js'
import type { Cell } from '../../../../src/kubernetes/dialect/table/printer.js'
import { tableColumns, tableRow } from '../../../../src/kubernetes/dialect/table/table-rows.js'
import { findWellKnown, wellKnownResources } from '../../../../src/kubernetes/dialect/well-known-resources.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const AN_HOUR_AGO = '2026-11-21T11:00:00Z'

const table = wellKnownResources()

function served(name: string): ServedResource {
  const found = findWellKnown(table, name)
  if (found === undefined) throw new Error(name)
  return servedResource(found.resource, 'well-known')
}

/** A time so many seconds from now. */
function at(seconds: number): string {
  return new Date(NOW + seconds * 1_000).toISOString()
}

/** The row as `kubectl get` would show it: column name to cell. */
function shown(resource: ServedResource, object: unknown): Record<string, Cell | undefined> {
  const { cells } = tableRow(resource, object, NOW)
  return Object.fromEntries(tableColumns(resource).map(({ name }, index) => [name, cells[index]]))
}

interface RealTable {
  readonly path: string
  readonly columns: readonly (readonly [name: string, priority: number, type: string])[]
  readonly rows: readonly (readonly Cell[])[]
  readonly objects: readonly { readonly metadata: { readonly creationTimestamp: string } }[]
}

/** The columns that API servers have added, or turned into text, since the 1.20 that wrote the data. */
const ADDED_SINCE: ReadonlySet<string> = new Set([
  'jobs Status',
  'persistentvolumeclaims VolumeAttributesClass',
  'priorityclasses PreemptionPolicy',
  ...['Scope', 'Versions', 'Group', 'Kind', 'ShortNames', 'Established'].map(
    (name) => `customresourcedefinitions ${name}`,
  ),
])
const REMOVED_SINCE: ReadonlySet<string> = new Set(['serviceaccounts Secrets'])
const TEXT_SINCE: ReadonlySet<string> = new Set(['pods Restarts'])

void t.test('columns and first rows are those that a real API server answered', async (t) => {
  const file = new URL('../../../../../test/data/kube-apiserver-1.20/tables.json', import.meta.url)
  const tables = JSON.parse(readFileSync(file, 'utf8')) as RealTable[]
  t.ok(tables.length > 15)
  for (const { path, columns: all, rows, objects } of tables) {
    const match = /^\/(?:api|apis\/([^/]+))\/([^/]+)\/([^/]+)$/.exec(path)
    const [, group = '', version = '', plural = ''] = match ?? []
    if (group === 'edge.example.com') continue
    const resource = served(group === '' ? plural : `${plural}.${version}.${group}`)
    const columns = all.filter(([name]) => !REMOVED_SINCE.has(`${plural} ${name}`))
    const kept = tableColumns(resource).flatMap((column, index) =>
      ADDED_SINCE.has(`${plural} ${column.name}`) ? [] : [{ column, index }],
    )
    t.same(
      kept.map(({ column }) => [column.name, column.priority]),
      columns.map(([name, priority]) => [name, priority]),
      path,
    )
    for (const [at, [name, , type]] of columns.entries()) {
      if (TEXT_SINCE.has(`${plural} ${name}`)) continue
      t.equal(kept[at]?.column.type, type, `${path} ${name}`)
    }
    const ageAt = all.findIndex(([name]) => name === 'Age')
    for (const [at, row] of rows.entries()) {
      const object = objects[at]
      const now = Date.parse(object?.metadata.creationTimestamp ?? '') + secondsOf(row[ageAt]) * 1_000
      const { cells } = tableRow(resource, object, now)
      const stillShown = row.filter((_, index) => columns.includes(all[index]!))
      const expected = stillShown.map((cell, index) =>
        TEXT_SINCE.has(`${plural} ${columns[index]?.[0]}`) ? String(cell) : cell,
      )
      t.same(
        kept.map(({ index }) => cells[index]),
        expected,
        `${path} row ${at}`,
      )
    }
  }
})

/** The seconds of an age like `3m29s`; 0 when there is no Age column. */
function secondsOf(age: Cell | undefined): number {
  const match = /^(?:(\d+)m)?(?:(\d+)s)?$/.exec(String(age ?? ''))
  return Number(match?.[1] ?? 0) * 60 + Number(match?.[2] ?? 0)
}

const running = { state: { running: {} }, ready: true, restartCount: 0 }
const waiting = (reason: string): object => ({ state: { waiting: { reason } }, restartCount: 0 })
const ended = (exitCode: number, more: object = {}): object => ({
  state: { terminated: { exitCode, ...more } },
  restartCount: 0,
})

void t.test('a pod’s STATUS, READY and RESTARTS are those of kubectl', async (t) => {
  const two = { containers: [{ name: 'a' }, { name: 'b' }] }
  const withInit = { ...two, initContainers: [{ name: 'i' }, { name: 'j' }] }
  const withSidecar = { ...two, initContainers: [{ name: 'proxy', restartPolicy: 'Always' }, { name: 'j' }] }
  const rows: readonly (readonly [name: string, pod: object, ready: string, status: string, restarts?: string])[] = [
    ['no status yet', { spec: two }, '0/2', ''],
    ['pending', { spec: two, status: { phase: 'Pending' } }, '0/2', 'Pending'],
    ['all ready', { spec: two, status: { phase: 'Running', containerStatuses: [running, running] } }, '2/2', 'Running'],
    [
      'crash loop',
      {
        spec: two,
        status: {
          phase: 'Running',
          containerStatuses: [
            running,
            {
              ...waiting('CrashLoopBackOff'),
              restartCount: 3,
              lastState: { terminated: { finishedAt: '2026-11-21T11:55:00Z' } },
            },
          ],
        },
      },
      '1/2',
      'CrashLoopBackOff',
      '3 (5m ago)',
    ],
    [
      'the newest restart counts',
      {
        spec: two,
        status: {
          phase: 'Running',
          containerStatuses: ['11:59:30', '11:00:00'].map((time) => ({
            ...running,
            restartCount: 1,
            lastState: { terminated: { finishedAt: `2026-11-21T${time}Z` } },
          })),
        },
      },
      '2/2',
      'Running',
      '2 (30s ago)',
    ],
    [
      'image',
      { spec: two, status: { phase: 'Pending', containerStatuses: [waiting('ImagePullBackOff')] } },
      '0/2',
      'ImagePullBackOff',
    ],
    [
      'done',
      { spec: two, status: { phase: 'Succeeded', containerStatuses: [ended(0, { reason: 'Completed' })] } },
      '0/2',
      'Completed',
    ],
    ['exit code', { spec: two, status: { phase: 'Failed', containerStatuses: [ended(3)] } }, '0/2', 'ExitCode:3'],
    [
      'signal',
      { spec: two, status: { phase: 'Failed', containerStatuses: [ended(137, { signal: 9 })] } },
      '0/2',
      'Signal:9',
    ],
    ['evicted', { spec: two, status: { phase: 'Failed', reason: 'Evicted' } }, '0/2', 'Evicted'],
    [
      'one ended, one runs, ready',
      {
        spec: two,
        status: {
          phase: 'Running',
          conditions: [{ type: 'Ready', status: 'True' }],
          containerStatuses: [ended(0, { reason: 'Completed' }), running],
        },
      },
      '1/2',
      'Running',
    ],
    [
      'one ended, one runs, not ready',
      { spec: two, status: { phase: 'Running', containerStatuses: [ended(0, { reason: 'Completed' }), running] } },
      '1/2',
      'NotReady',
    ],
    [
      'init, first',
      { spec: withInit, status: { phase: 'Pending', initContainerStatuses: [waiting('PodInitializing')] } },
      '0/2',
      'Init:0/2',
    ],
    [
      'init, second',
      { spec: withInit, status: { phase: 'Pending', initContainerStatuses: [ended(0), { state: { running: {} } }] } },
      '0/2',
      'Init:1/2',
    ],
    [
      'init fails',
      {
        spec: withInit,
        status: { phase: 'Pending', initContainerStatuses: [{ ...ended(1, { reason: 'Error' }), restartCount: 4 }] },
      },
      '0/2',
      'Init:Error',
      '4',
    ],
    [
      'init exit code',
      { spec: withInit, status: { phase: 'Pending', initContainerStatuses: [ended(2)] } },
      '0/2',
      'Init:ExitCode:2',
    ],
    [
      'init signal',
      { spec: withInit, status: { phase: 'Pending', initContainerStatuses: [ended(1, { signal: 15 })] } },
      '0/2',
      'Init:Signal:15',
    ],
    [
      'init waits',
      { spec: withInit, status: { phase: 'Pending', initContainerStatuses: [waiting('CrashLoopBackOff')] } },
      '0/2',
      'Init:CrashLoopBackOff',
    ],
    [
      'a sidecar counts as a container and does not hold up',
      {
        spec: withSidecar,
        status: {
          phase: 'Running',
          initContainerStatuses: [
            { name: 'proxy', started: true, ...running, restartCount: 2 },
            { name: 'j', ...ended(0), restartCount: 7 },
          ],
          containerStatuses: [running, running],
        },
      },
      '3/3',
      'Running',
      '2',
    ],
    [
      'gated',
      { spec: two, status: { phase: 'Pending', conditions: [{ type: 'PodScheduled', reason: 'SchedulingGated' }] } },
      '0/2',
      'SchedulingGated',
    ],
    [
      'being deleted',
      {
        metadata: { deletionTimestamp: AN_HOUR_AGO },
        spec: two,
        status: { phase: 'Running', containerStatuses: [running, running] },
      },
      '2/2',
      'Terminating',
    ],
    [
      'being deleted, over',
      { metadata: { deletionTimestamp: AN_HOUR_AGO }, spec: two, status: { phase: 'Succeeded' } },
      '0/2',
      'Succeeded',
    ],
    [
      'its node is lost',
      { metadata: { deletionTimestamp: AN_HOUR_AGO }, spec: two, status: { phase: 'Running', reason: 'NodeLost' } },
      '0/2',
      'Unknown',
    ],
  ]
  const pods = served('pods')
  for (const [name, pod, ready, status, restarts = '0'] of rows) {
    t.match(shown(pods, pod), { Ready: ready, Status: status, Restarts: restarts }, name)
  }
  t.match(tableRow(pods, { status: { phase: 'Failed' } }, NOW).conditions, [{ type: 'Completed', reason: 'Failed' }])
  t.match(tableRow(pods, { status: { phase: 'Succeeded' } }, NOW).conditions, [{ reason: 'Succeeded' }])
  t.equal(tableRow(pods, { status: { phase: 'Running' } }, NOW).conditions, undefined)
  t.match(
    shown(pods, {
      metadata: { name: 'p', creationTimestamp: AN_HOUR_AGO },
      spec: { nodeName: 'n1', readinessGates: [{ conditionType: 'x' }, { conditionType: 'y' }] },
      status: { podIP: '10.0.0.1', conditions: [{ type: 'x', status: 'True' }] },
    }),
    {
      Name: 'p',
      Age: '60m',
      IP: '10.0.0.1',
      Node: 'n1',
      'Nominated Node': '<none>',
      'Readiness Gates': '1/2',
    },
  )
})

const metadata = { name: 'x', creationTimestamp: AN_HOUR_AGO }

void t.test('each kind has the columns that kubectl users expect', async (t) => {
  const rows: readonly (readonly [resource: string, object: object, expected: Record<string, Cell>])[] = [
    [
      'nodes',
      {
        metadata: { ...metadata, labels: { 'node-role.kubernetes.io/worker': '', 'kubernetes.io/role': 'edge' } },
        spec: { unschedulable: true },
        status: {
          conditions: [{ type: 'Ready', status: 'True' }],
          nodeInfo: { kubeletVersion: 'v1.32.0', osImage: 'Debian' },
          addresses: [{ type: 'InternalIP', address: '10.0.0.7' }],
        },
      },
      {
        Status: 'Ready,SchedulingDisabled',
        Roles: 'edge,worker',
        Version: 'v1.32.0',
        'Internal-IP': '10.0.0.7',
        'External-IP': '<none>',
        'OS-Image': 'Debian',
        'Kernel-Version': '<unknown>',
      },
    ],
    ['nodes', { metadata }, { Status: 'Unknown', Roles: '<none>', Age: '60m' }],
    ['nodes', { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } }, { Status: 'NotReady' }],
    [
      'services',
      {
        metadata,
        spec: {
          type: 'LoadBalancer',
          clusterIP: '10.1.1.1',
          externalIPs: ['9.9.9.9'],
          ports: [
            { port: 80, nodePort: 30080, protocol: 'TCP' },
            { port: 53, protocol: 'UDP' },
          ],
          selector: { b: '2', a: '1' },
        },
        status: { loadBalancer: { ingress: [{ hostname: 'lb.example' }, { ip: '1.2.3.4' }] } },
      },
      {
        Type: 'LoadBalancer',
        'Cluster-IP': '10.1.1.1',
        'External-IP': '1.2.3.4,lb.example,9.9.9.9',
        'Port(s)': '80:30080/TCP,53/UDP',
        Selector: 'a=1,b=2',
      },
    ],
    ['services', { spec: { type: 'LoadBalancer' } }, { 'External-IP': '<pending>', 'Port(s)': '<none>' }],
    [
      'services',
      { spec: { type: 'ExternalName', externalName: 'db.example' } },
      { 'External-IP': 'db.example', 'Cluster-IP': '<none>' },
    ],
    ['endpoints', {}, { Endpoints: '<none>' }],
    [
      'endpoints',
      { subsets: [{ addresses: ['1', '2', 'f::'].map((ip) => ({ ip })), ports: [{ port: 1 }, { port: 2 }] }] },
      { Endpoints: '1:1,2:1,[f::]:1 + 3 more...' },
    ],
    ['endpoints', { subsets: [{ addresses: [{ ip: '1' }] }] }, { Endpoints: '1' }],
    ['endpoints', { subsets: [{ ports: [{ port: 1 }] }] }, { Endpoints: '' }],
    [
      'endpoints',
      { subsets: [{ addresses: many({ ip: '1' }), ports: many({ port: 1 }) }] },
      { Endpoints: '1:1,1:1,1:1 + 39999999997 more...' },
    ],
    [
      'pods',
      {
        spec: { readinessGates: many({ conditionType: 'x' }) },
        status: { conditions: [...many({ type: 'y' }), { type: 'x', status: 'True' }, { type: 'x' }] },
      },
      { 'Readiness Gates': '200000/200000' },
    ],
    [
      'endpointslices',
      {
        addressType: 'IPv4',
        ports: [{ port: 80 }, { name: 'x' }, {}],
        endpoints: [{ addresses: ['a', 'b'] }, { addresses: ['c', 'd'] }],
      },
      { AddressType: 'IPv4', Ports: '80,x,*', Endpoints: 'a,b,c + 1 more...' },
    ],
    ['endpointslices', {}, { Ports: '<unset>', Endpoints: '<unset>' }],
    ['configmaps', { data: { a: '' }, binaryData: { b: '' } }, { Data: 2 }],
    ['secrets', { type: 'kubernetes.io/tls', data: { a: '', b: '' } }, { Type: 'kubernetes.io/tls', Data: 2 }],
    [
      'persistentvolumes',
      {
        spec: {
          capacity: { storage: '5Gi' },
          accessModes: ['ReadWriteMany', 'ReadWriteOnce'],
          claimRef: { namespace: 'a', name: 'c' },
          storageClassName: 'std',
        },
        status: { phase: 'Bound' },
      },
      {
        Capacity: '5Gi',
        'Access Modes': 'RWO,RWX',
        'Reclaim Policy': 'Retain',
        Status: 'Bound',
        Claim: 'a/c',
        StorageClass: 'std',
      },
    ],
    [
      'persistentvolumeclaims',
      {
        metadata: { deletionTimestamp: AN_HOUR_AGO },
        spec: { volumeName: 'pv1' },
        status: { capacity: { storage: '1Gi' }, accessModes: ['ReadWriteOncePod'] },
      },
      { Status: 'Terminating', Volume: 'pv1', Capacity: '1Gi', 'Access Modes': 'RWOP', VolumeMode: 'Filesystem' },
    ],
    [
      'events',
      {
        metadata,
        type: 'Warning',
        reason: 'BackOff',
        message: ' back-off\n',
        involvedObject: { kind: 'Pod', name: 'web-0', fieldPath: 'spec.containers{a}' },
        source: { component: 'kubelet', host: 'n1' },
        firstTimestamp: AN_HOUR_AGO,
        lastTimestamp: '2026-11-21T11:59:00Z',
        count: 4,
      },
      {
        'Last Seen': '60s',
        Type: 'Warning',
        Reason: 'BackOff',
        Object: 'pod/web-0',
        Subobject: 'spec.containers{a}',
        Source: 'kubelet, n1',
        Message: 'back-off',
        'First Seen': '60m',
        Count: 4,
      },
    ],
    [
      'events',
      {
        eventTime: AN_HOUR_AGO,
        firstTimestamp: null,
        lastTimestamp: null,
        series: { count: 9, lastObservedTime: '2026-11-21T11:59:00Z' },
      },
      { 'Last Seen': '60s', 'First Seen': '60m', Count: 9 },
    ],
    [
      'events.events.k8s.io',
      { regarding: { kind: 'Node', name: 'n' }, note: 'hm', eventTime: AN_HOUR_AGO },
      { Object: 'node/n', Message: 'hm', Count: 1, 'Last Seen': '60m' },
    ],
    [
      'replicasets',
      { spec: { replicas: 3 }, status: { replicas: 2, readyReplicas: 1 } },
      { Desired: 3, Current: 2, Ready: 1 },
    ],
    [
      'replicationcontrollers',
      { spec: { replicas: 3, selector: { app: 'web' } }, status: { replicas: 2, readyReplicas: 1 } },
      { Desired: 3, Current: 2, Ready: 1, Selector: 'app=web' },
    ],
    ['deployments', { spec: {}, status: {} }, { Ready: '0/1', 'Up-to-date': 0, Selector: '' }],
    [
      'deployments',
      {
        spec: {
          replicas: 2,
          selector: {
            matchLabels: { app: 'web' },
            matchExpressions: [
              { key: 'aa', operator: 'In', values: ['y', 'x'] },
              { key: 'zz', operator: 'DoesNotExist' },
            ],
          },
          template: {
            spec: {
              containers: [
                { name: 'a', image: 'i:1' },
                { name: 'b', image: 'j' },
              ],
            },
          },
        },
        status: { readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1 },
      },
      {
        Ready: '1/2',
        'Up-to-date': 2,
        Available: 1,
        Containers: 'a,b',
        Images: 'i:1,j',
        Selector: 'aa in (x,y),app=web,!zz',
      },
    ],
    [
      'daemonsets',
      {
        spec: { template: { spec: { nodeSelector: { os: 'linux' } } } },
        status: { desiredNumberScheduled: 3, numberReady: 2 },
      },
      { Desired: 3, Current: 0, Ready: 2, 'Node Selector': 'os=linux', Selector: '<none>' },
    ],
    [
      'jobs',
      { spec: { completions: 5 }, status: { succeeded: 2, startTime: AN_HOUR_AGO } },
      { Status: 'Running', Completions: '2/5', Duration: '60m' },
    ],
    [
      'jobs',
      {
        spec: { parallelism: 3 },
        status: {
          startTime: AN_HOUR_AGO,
          completionTime: '2026-11-21T11:00:07Z',
          conditions: [{ type: 'Complete', status: 'True' }],
        },
      },
      { Status: 'Complete', Completions: '0/1 of 3', Duration: '7s' },
    ],
    [
      'cronjobs',
      { spec: { schedule: '@daily', suspend: false }, status: { active: [{}] } },
      { Schedule: '@daily', Timezone: '<none>', Suspend: 'False', Active: 1, 'Last Schedule': '<none>' },
    ],
    [
      'horizontalpodautoscalers',
      {
        spec: {
          scaleTargetRef: { kind: 'Deployment', name: 'web' },
          minReplicas: 2,
          maxReplicas: 9,
          metrics: [
            { type: 'Resource', resource: { name: 'cpu', target: { averageUtilization: 80 } } },
            { type: 'External', external: { target: { averageValue: '30' } } },
            { type: 'Odd' },
          ],
        },
        status: {
          currentReplicas: 3,
          currentMetrics: [{ type: 'Resource', resource: { current: { averageUtilization: 55 } } }],
        },
      },
      {
        Reference: 'Deployment/web',
        Targets: 'cpu: 55%/80%, <unknown>/30 (avg) + 1 more...',
        MinPods: '2',
        MaxPods: 9,
        Replicas: 3,
      },
    ],
    [
      'horizontalpodautoscalers.v1.autoscaling',
      { spec: { targetCPUUtilizationPercentage: 50 } },
      { Targets: 'cpu: <unknown>/50%', MinPods: '<unset>' },
    ],
    [
      'horizontalpodautoscalers.v1.autoscaling',
      {
        apiVersion: 'autoscaling/v1',
        metadata: {
          annotations: {
            'autoscaling.alpha.kubernetes.io/metrics':
              '[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},{"type":"Pods","pods":{"metricName":"q","targetAverageValue":"5"}}]',
            'autoscaling.alpha.kubernetes.io/current-metrics':
              '[{"type":"Resource","resource":{"name":"memory","currentAverageValue":"2Gi"}},{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"1"}}]',
          },
        },
        spec: { targetCPUUtilizationPercentage: 70 },
        status: { currentCPUUtilizationPercentage: 7 },
      },
      { Targets: 'memory: 2Gi/1Gi, cpu: 7%/70% + 1 more...' },
    ],
    [
      'poddisruptionbudgets',
      { spec: { maxUnavailable: 1 }, status: { disruptionsAllowed: 1 } },
      { 'Min Available': 'N/A', 'Max Unavailable': '1', 'Allowed Disruptions': 1 },
    ],
    [
      'ingresses',
      { spec: { ingressClassName: 'nginx', rules: ['a', 'b', 'c', 'd'].map((host) => ({ host })) } },
      { Class: 'nginx', Hosts: 'a,b,c + 1 more...', Ports: '80' },
    ],
    ['ingresses', {}, { Hosts: '*', Address: '' }],
    [
      'ingressclasses',
      { spec: { controller: 'x/y', parameters: { apiGroup: 'g', kind: 'K', name: 'n' } } },
      { Parameters: 'K.g/n' },
    ],
    ['networkpolicies', { spec: { podSelector: {} } }, { 'Pod-Selector': '<none>' }],
    ['leases', { spec: { holderIdentity: 'n7' } }, { Holder: 'n7' }],
    [
      'rolebindings',
      {
        roleRef: { kind: 'Role', name: 'r' },
        subjects: [
          { kind: 'User', name: 'u' },
          { kind: 'Group', name: 'g' },
          { kind: 'ServiceAccount', namespace: 'a', name: 's' },
        ],
      },
      { Role: 'Role/r', Users: 'u', Groups: 'g', ServiceAccounts: 'a/s' },
    ],
    [
      'customresourcedefinitions',
      {
        metadata,
        spec: {
          scope: 'Namespaced',
          group: 'example.com',
          names: { kind: 'Thing', shortNames: ['th', 'tg'] },
          versions: [
            { name: 'v1alpha1', served: true, storage: true },
            { name: 'v1beta1', served: false },
            { name: 'v1', served: true },
          ],
        },
        status: { conditions: [{ type: 'Established', status: 'True' }] },
      },
      {
        Name: 'x',
        Scope: 'Namespaced',
        Versions: 'v1,v1alpha1(storage)',
        'Created At': AN_HOUR_AGO,
        Group: 'example.com',
        Kind: 'Thing',
        ShortNames: 'th,tg',
        Established: true,
      },
    ],
    ['clusterroles', { metadata }, { Name: 'x', 'Created At': AN_HOUR_AGO }],
    [
      'storageclasses',
      { metadata: { name: 'std', annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' } } },
      { Name: 'std (default)', ReclaimPolicy: 'Delete' },
    ],
    [
      'volumeattachments',
      { spec: { attacher: 'd', nodeName: 'n', source: { persistentVolumeName: 'pv' } }, status: { attached: true } },
      { PV: 'pv', Node: 'n', Attached: true },
    ],
    ['csinodes', { spec: { drivers: [{}, {}] } }, { Drivers: 2 }],
    ['csidrivers', {}, { AttachRequired: true, PodInfoOnMount: false, Modes: '<none>', TokenRequests: '<unset>' }],
    ['runtimeclasses', { handler: 'runsc' }, { Handler: 'runsc' }],
    ['validatingwebhookconfigurations', { webhooks: [{}] }, { Webhooks: 1 }],
    ['mutatingwebhookconfigurations', { webhooks: [{}, {}] }, { Webhooks: 2 }],
    [
      'clusterrolebindings',
      { roleRef: { kind: 'ClusterRole', name: 'r' }, subjects: [{ kind: 'Group', name: 'g' }] },
      { Role: 'ClusterRole/r', Users: '', Groups: 'g', ServiceAccounts: '' },
    ],
    [
      'validatingadmissionpolicybindings',
      { spec: { policyName: 'p', paramRef: { name: 'n' } } },
      { PolicyName: 'p', ParamRef: '*/n' },
    ],
    [
      'resourcequotas',
      { status: { hard: { 'limits.cpu': '4', pods: '10', cpu: '2' }, used: { pods: '3' } } },
      { Request: 'cpu: 0/2, pods: 3/10', Limit: 'limits.cpu: 0/4' },
    ],
    ['limitranges', { metadata }, { 'Created At': AN_HOUR_AGO }],
    [
      'certificatesigningrequests',
      {
        spec: { username: 'u', expirationSeconds: 3600 },
        status: { certificate: 'x', conditions: [{ type: 'Approved' }] },
      },
      { Requestor: 'u', RequestedDuration: '60m', Condition: 'Approved,Issued', SignerName: '<none>' },
    ],
    [
      'flowschemas',
      { spec: { matchingPrecedence: 5 } },
      { MatchingPrecedence: 5, DistinguisherMethod: '<none>', MissingPL: '?' },
    ],
    [
      'prioritylevelconfigurations',
      { spec: { type: 'Limited', limited: { nominalConcurrencyShares: 0 } } },
      { NominalConcurrencyShares: 0, Queues: '<none>' },
    ],
    ['apiservices', {}, { Service: 'Local', Available: 'Unknown' }],
    [
      'apiservices',
      {
        spec: { service: { namespace: 'a', name: 's' } },
        status: { conditions: [{ type: 'Available', status: 'False', reason: 'NoEndpoints' }] },
      },
      { Service: 'a/s', Available: 'False (NoEndpoints)' },
    ],
    [
      'controllerrevisions',
      {
        revision: 3,
        metadata: { ownerReferences: [{ controller: true, apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd' }] },
      },
      { Controller: 'daemonset.apps/d', Revision: 3 },
    ],
    [
      'podtemplates',
      { template: { metadata: { labels: { a: '1' } }, spec: { containers: [{ name: 'c', image: 'i' }] } } },
      { Containers: 'c', Images: 'i', 'Pod Labels': 'a=1' },
    ],
    ['resourceclaims', { status: { allocation: {}, reservedFor: [{}] } }, { State: 'allocated,reserved' }],
    [
      'ipaddresses',
      { spec: { parentRef: { resource: 'services', namespace: 'a', name: 's' } } },
      { ParentRef: 'services/a/s' },
    ],
    ['servicecidrs', { spec: { cidrs: ['10.0.0.0/8', 'f::/64'] } }, { CIDRs: '10.0.0.0/8,f::/64' }],
  ]
  for (const [resource, object, expected] of rows) {
    const cells = shown(served(resource), object)
    for (const [name, cell] of Object.entries(expected)) t.equal(cells[name], cell, `${resource} ${name}`)
  }
})

void t.test('no object, however odd, breaks a row: a cell is always a scalar', async (t) => {
  const oddities: unknown[] = [null, 1, 'x', [], [null], {}, { metadata: null, spec: [], status: 'x' }]
  const members = [
    'metadata',
    'spec',
    'status',
    'data',
    'subsets',
    'ports',
    'endpoints',
    'template',
    'subjects',
    'roleRef',
    'webhooks',
    'involvedObject',
    'series',
  ]
  for (const value of [
    null,
    0,
    'x',
    [null, 1, [], {}],
    { a: null, conditions: [null], containers: {}, __proto__: null },
  ]) {
    oddities.push(Object.fromEntries(members.map((member) => [member, value])))
  }
  let rows = 0
  for (const { resource } of table) {
    const entry = servedResource(resource, 'well-known')
    for (const object of oddities) {
      const { cells } = tableRow(entry, object, NOW)
      rows++
      if (cells.length !== tableColumns(entry).length) t.fail(`${resource.plural} has ${cells.length} cells`)
      if (cells.some((cell) => cell === undefined || (typeof cell === 'object' && cell !== null))) {
        t.fail(`${resource.plural} ${JSON.stringify(object)} ${JSON.stringify(cells)}`)
      }
    }
  }
  t.ok(rows > 600)
})

void t.test('every table begins with the columns that name the object, and no column is repeated', async (t) => {
  for (const { resource } of table) {
    const names = tableColumns(servedResource(resource, 'well-known')).map(({ name }) => name)
    t.equal(new Set(names).size, names.length, resource.plural)
    t.ok(names.includes('Name'), resource.plural)
  }
})

void t.test('pods that wait to be scheduled or evicted show their progress', async (t) => {
  const group = served('podgroups')
  const conditions = (type: string, status: string, reason = ''): object => ({
    status: { conditions: [{ type, status, reason }] },
  })
  const gang = { metadata, spec: { schedulingPolicy: { gang: {} }, workloadRef: { workloadName: 'w' } } }
  t.match(shown(group, gang), { Policy: 'Gang', Workload: 'w', Status: 'Pending' })
  t.match(shown(group, { metadata, spec: {}, ...conditions('PodGroupInitiallyScheduled', 'False') }), {
    Policy: 'Basic',
    Workload: '<none>',
    Status: 'Unschedulable',
  })
  t.match(shown(group, { ...conditions('PodGroupInitiallyScheduled', 'True') }), { Status: 'Scheduled' })
  t.match(shown(group, { ...conditions('DisruptionTarget', 'True', 'Preempted') }), { Status: 'Preempted' })

  const eviction = served('evictions')
  const responders = (state: string, own: object): object => ({
    metadata,
    spec: { target: { pod: { name: 'web' } } },
    status: {
      observedGeneration: 1,
      requesters: [{ name: 'b' }, { name: 'a' }, { name: 'c', intent: 'Withdrawn' }],
      targetResponders: [
        { name: 'first', state: 'Completed' },
        { name: 'second', state },
        { name: 'third', state: 'Inactive' },
      ],
      responders: [{ name: 'second', ...own }],
    },
  })
  t.match(
    shown(
      eviction,
      responders('Active', {
        startTime: at(-60),
        expectedCompletionTime: at(30),
        heartbeatTime: at(-5),
        message: ' on it\n',
      }),
    ),
    {
      Target: 'web',
      'Target Type': 'Pod',
      Status: 'Progressing',
      'Active Responder': 'second (2/3)',
      'Responder Status': 'Started (60s ago)',
      'Responder Expected Finish': 'in 30s',
      Requesters: 'a + 1 more...',
      'Responder Heartbeat': '5s ago',
      'Responder Status Message': 'on it',
    },
  )
  t.match(shown(eviction, responders('Completed', { completionTime: at(-60) })), {
    'Responder Status': 'Completed (60s ago)',
    'Responder Expected Finish': '-',
  })
  t.match(shown(eviction, { ...conditions('Failed', 'True', 'Cancelled') }), {
    Target: '<unset>',
    Status: 'Failed (Cancelled)',
    'Active Responder': '<unset> (0/0)',
    Requesters: '<none>',
    'Responder Status Message': '<unset>',
  })
})

void t.test('rows of device and certificate requests show their outcome', async (t) => {
  const request = served('resourcepoolstatusrequests')
  t.match(shown(request, { metadata, spec: { driver: 'd' } }), { Driver: 'd', Total: '-', Pools: 0, Status: 'Pending' })
  const pools = [
    { totalDevices: 3, allocatedDevices: 1 },
    { totalDevices: 2, validationError: 'x' },
  ]
  const complete = { type: 'Complete', status: 'True', lastTransitionTime: at(-60) }
  t.match(shown(request, { status: { poolCount: 3, pools, conditions: [complete] } }), {
    Total: '5',
    Allocated: '1',
    Available: '0',
    Errors: '1',
    Pools: 3,
    Status: 'Complete (2/3 pools)',
    Completed: '60s',
  })
  t.match(shown(request, { status: { pools, conditions: [{ type: 'Failed', status: 'True' }] } }), {
    Total: '-',
    Status: 'Failed',
    Completed: '<none>',
  })
  t.match(
    shown(served('podcertificaterequests'), { spec: { podName: 'web' }, status: { conditions: [{ type: 'Issued' }] } }),
    {
      PodName: 'web',
      State: 'Issued',
      UnverifiedUserAnnotations: '<none>',
    },
  )
  t.match(shown(served('clustertrustbundles'), {}), { SignerName: '<none>' })
  t.match(
    shown(served('storageversionmigrations'), { spec: { resource: { group: 'apps', resource: 'deployments' } } }),
    {
      Resource: 'deployments.apps',
      Status: 'Unknown',
    },
  )
})

void t.test('a custom resource shows its definition’s columns', async (t) => {
  const { resource } = served('leases')
  const column = (name: string, type: string, jsonPath: string): object => ({
    name,
    type,
    jsonPath,
    format: '',
    description: '',
    priority: 0,
  })
  const custom = servedResource(resource, 'custom', {
    printerColumns: [
      column('Size', 'string', '.spec.size'),
      column('Map', 'string', '.spec.map'),
      column('Number', 'string', '.spec.replicas'),
      column('Replicas', 'integer', '.spec.replicas'),
      column('Wrong', 'integer', '.spec.size'),
      column('Ready', 'string', '.status.conditions[?(@.type=="Ready")].status'),
      column('On', 'boolean', '.spec.on'),
      column('Age', 'date', '.metadata.creationTimestamp'),
      column('Bad', 'string', '..x'),
      column('None', 'string', '.nope'),
    ] as never,
  })
  t.same(
    tableRow(
      custom,
      {
        metadata,
        spec: { size: '2Gi', replicas: 2.5, on: true, map: { a: 1 } },
        status: { conditions: [{ type: 'Ready', status: 'True' }] },
      },
      NOW,
    ).cells,
    ['x', '2Gi', '{"a":1}', '2.5', 2, null, 'True', true, '60m', null, null],
  )
  t.same(
    tableColumns(servedResource(resource, 'custom')).map(({ name, type }) => [name, type]),
    [
      ['Name', 'string'],
      ['Age', 'date'],
    ],
    'and without any, its age',
  )
})

void t.test('a declared prefix shows the value, or its beginning', async (t) => {
  const flags = resolveResources({ names: ['flags=/flags/'] }).resources.at(-1)
  if (flags === undefined) throw new Error('flags')
  const keyValue = { metadata: { name: 'a' }, key: '/flags/a', createRevision: 3, version: 2 }
  t.match(shown(flags, { ...keyValue, text: 'on\n\u001b[31m' }), {
    Name: 'a',
    Value: 'on [31m',
    'Create Revision': 3,
    Version: 2,
    Lease: '<none>',
  })
  t.notOk(
    tableColumns(flags).some(({ name }) => name === 'Age'),
    'etcd keeps no times',
  )
  t.match(shown(flags, { ...keyValue, value: { on: [true, null] } }), { Value: '{"on":[true,null]}' })
  t.match(shown(flags, { ...keyValue, value: null }), { Value: 'null' })
  t.match(shown(flags, { ...keyValue, bytes: 'AAECAw==', lease: '7587862094709768000' }), {
    Value: '<4 bytes>',
    Lease: '694d805f77d3bf40',
  })
  t.match(shown(flags, { ...keyValue, lease: '7587' }), { Lease: '0000000000001da3' })
  t.equal(String(shown(flags, { ...keyValue, text: 'x'.repeat(1_000) })['Value']).length, 60)
})

void t.test('a declared prefix of objects shows their content and age', async (t) => {
  const declaration = { name: 'routes', prefix: '/routes/', objects: true }
  const routes = resolveResources({ declarations: [declaration] }).resources.at(-1)
  if (routes === undefined) throw new Error('routes')
  t.strictSame(shown(routes, { kind: 'Route', metadata, spec: { on: true } }), {
    Name: 'x',
    Value: '{"spec":{"on":true}}',
    Age: '60m',
  })
})

/** As many as an object of etcd may contain, of the smallest kind. */
function many(item: object): object[] {
  return Array.from({ length: 200_000 }, () => item)
}
