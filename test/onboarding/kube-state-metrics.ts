/**
 * kube-state-metrics as a pod that docs/guide/onboarding.md has moved: environment variables and a token directory, nothing
 * else. Its series equal those of one that reads the API server, even after everything has changed.
 */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { kubeStateMetrics } from '../clients/programs.js'
import { type RunningProcess, startProcess } from '../clients/support/start-process.js'
import { freePorts } from '../support/free-port.js'
import { buildGoProgram } from '../support/go-program.js'
import { until } from '../support/until.js'
import { type Cluster, install, listOf, startCluster, tokenOf, trustBoth } from './cluster.js'
import { makePod, type PodSettings } from './pod.js'

const program = buildGoProgram(kubeStateMetrics)

const KINDS = ['nodes', 'pods', 'services', 'endpointslices', 'ingresses', 'configmaps', 'deployments', 'namespaces']

const RIGHTS = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'monitoring' } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'kube-state-metrics', namespace: 'monitoring' } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'nobody', namespace: 'monitoring' } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: 'monitoring' } },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'kube-state-metrics' },
    rules: [
      { apiGroups: ['', 'apps', 'networking.k8s.io', 'discovery.k8s.io'], resources: KINDS, verbs: ['list', 'watch'] },
    ],
  },
  {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'kube-state-metrics' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'kube-state-metrics' },
    subjects: [{ kind: 'ServiceAccount', name: 'kube-state-metrics', namespace: 'monitoring' }],
  },
]

void t.test('kube-state-metrics runs as a moved pod, and shows what one at the API server shows', async (t) => {
  const cluster = await startCluster(t)
  cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf(RIGHTS))
  write(cluster, 'first')
  const ours = await install(t, cluster)
  const token = tokenOf(cluster, 'monitoring', 'kube-state-metrics')
  const ca = trustBoth(cluster, ours, 'monitoring')
  const moved = await startPod(t, {
    host: 'distributary.distributary.svc',
    port: portOf(ours.url),
    ca,
    token,
  })
  const there = await startPod(t, { host: 'kubernetes.default.svc', port: portOf(cluster.url), ca: cluster.ca, token })

  await untilEqual(t, moved, there)
  for (const [previous, turn] of [
    ['first', 'second'],
    ['second', 'third'],
  ] as const) {
    write(cluster, turn, previous)
    await until(async () => (await moved.series()).some((line) => line.includes(`"map-${turn}"`)), `${turn} is shown`)
    await untilEqual(t, moved, there)
  }
  t.notMatch(moved.process.printed(), /panic|Unauthorized|forbidden/)

  await t.test('the CA file of its pods is valid for both servers', async (t) => {
    for (const url of [ours.url, cluster.url]) {
      const args = ['--kubeconfig', '/dev/null', '--server', url, '--certificate-authority', ca, '--token', token]
      t.match(cluster.kubectl([...args, 'get', '--raw', '/version']), /gitVersion/, url)
    }
  })

  await t.test('a token without permissions cannot read, and an invented one is rejected', async (t) => {
    const nobody = tokenOf(cluster, 'monitoring', 'nobody')
    for (const [text, code] of [
      [nobody, 'Forbidden'],
      [`${token}x`, 'Unauthorized'],
    ] as const) {
      const args = ['--server', ours.url, '--certificate-authority', join(ours.certificates, 'ca.crt'), '--token', text]
      const read = (): string => cluster.kubectl(['--kubeconfig', '/dev/null', ...args, 'get', 'pods', '-A'])
      t.throws(read, code === 'Forbidden' ? /forbidden/ : /must be logged in/)
    }
  })
})

const portOf = (url: string): string => new URL(url).port

/** Applies what the turn names, in kinds that need no controller, and deletes what the turn before it left. */
function write(cluster: Cluster, turn: string, previous?: string): void {
  const meta = (name: string, namespaced = true): object => ({
    name,
    labels: { turn },
    ...(namespaced ? { namespace: 'monitoring' } : {}),
  })
  const pod = { containers: [{ name: 'c', image: `example.org/${turn}:1`, ports: [{ containerPort: 80 }] }] }
  const objects = [
    {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: meta('n0', false),
      spec: { taints: [{ key: turn, effect: 'NoSchedule' }] },
    },
    { apiVersion: 'v1', kind: 'Pod', metadata: meta(`pod-${turn}`), spec: pod },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: meta(`map-${turn}`), data: { turn } },
    { apiVersion: 'v1', kind: 'Service', metadata: meta('web'), spec: { ports: [{ port: 80 }], selector: { turn } } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: meta('web'),
      spec: {
        replicas: turn.length,
        selector: { matchLabels: { app: 'web' } },
        template: { metadata: { labels: { app: 'web' } }, spec: pod },
      },
    },
  ]
  cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf(objects))
  if (previous !== undefined) {
    cluster.kubectl(['delete', '--wait=false', '-n', 'monitoring', `pod/pod-${previous}`, `configmap/map-${previous}`])
  }
}

interface Pod {
  readonly process: RunningProcess
  series(): Promise<string[]>
}

/** kube-state-metrics in a pod. */
async function startPod(t: Test, settings: PodSettings): Promise<Pod> {
  const [own = 0, telemetry = 0] = await freePorts(2)
  const command = [
    program,
    '--host=127.0.0.1',
    '--telemetry-host=127.0.0.1',
    `--port=${own}`,
    `--telemetry-port=${telemetry}`,
    `--resources=${KINDS.join(',')}`,
    '--metric-labels-allowlist=pods=[*],nodes=[*],services=[*]',
  ]
  const process = startProcess(t, makePod(t, settings).run(...command))
  const series = async (): Promise<string[]> => {
    const text = await (await fetch(`http://127.0.0.1:${own}/metrics`)).text()
    return text
      .split('\n')
      .filter((row) => row !== '' && !row.startsWith('#'))
      .sort()
  }
  await until(
    async () =>
      process.hasEnded() ||
      (await series().then(
        (rows) => rows.length > 0,
        () => false,
      )),
    () => `kube-state-metrics shows something: ${process.printed()}`,
    60_000,
  )
  if (process.hasEnded()) throw new Error(process.printed())
  return { process, series }
}

async function untilEqual(t: Test, one: Pod, other: Pod): Promise<void> {
  let [ours, theirs]: [string[], string[]] = [[], []]
  await until(
    async () => {
      ;[ours, theirs] = await Promise.all([one.series(), other.series()])
      return ours.length > 20 && ours.join('\n') === theirs.join('\n')
    },
    'the series are equal',
    30_000,
  ).catch(() => undefined)
  t.same(ours, theirs)
  t.ok(ours.length > 20)
}
