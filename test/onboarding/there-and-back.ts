/**
 * A cluster whose etcd is out of reach: with the commands of docs/guide/onboarding.md, metrics-server with its own manifests,
 * kube-state-metrics and an OpenTelemetry collector are moved to a server that reads the API server, and back. They show
 * what the API server has before, afterwards and through restarts of both servers, as does `kubectl top`, whose answers the API
 * server gets from metrics-server. While they are moved, the API server gets no list and no watch of theirs.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Finding } from '../../src/cli/doctor/checks.js'
import { runCli } from '../cli/support/run-cli.js'
import { metricsServer } from '../clients/programs.js'
import type { KubernetesObject } from '../ops/support/kubernetes-objects.js'
import { root } from '../ops/support/server-process.js'
import { ISSUER } from '../reference/control-plane.js'
import { freePort } from '../support/free-port.js'
import { moduleFolder } from '../support/go-program.js'
import { programFile, serverRuntime } from '../support/program.js'
import { pause, until } from '../support/until.js'
import { WITHIN_MS, World } from './agent.js'
import { agents } from './agents.js'
import {
  API_SERVER,
  bundleAuthorities,
  type Cluster,
  commandsOfPage,
  install,
  type Installed,
  kustomize,
  listOf,
  publishAuthority,
  runCommands,
  startCluster,
  temporaryFolder,
} from './cluster.js'
import { deploymentOf, podOfDeployment } from './deployment.js'
import { compareOne, type Started } from './held.js'
import { makePod } from './pod.js'

const NAMESPACES = ['monitoring', 'kube-system']

/** Each with the namespace of its Deployment. */
const moved = [
  { namespace: 'monitoring', name: 'kube-state-metrics' },
  { namespace: 'monitoring', name: 'opentelemetry' },
  { namespace: 'kube-system', name: 'metrics-server' },
].map((place) => ({ ...place, agent: agents.find(({ name }) => name === place.name)! }))

const HOST = 'distributary.distributary.svc'

void t.test('agents are moved to a server that reads the API server, and back', async (t) => {
  const folder = temporaryFolder(t)
  const theirs = join(folder, 'requests-at-the-api-server')
  // Alpha resources are off, as in most clusters: the role of the manifests does not name them.
  const cluster = await startCluster(t, [...auditFlags(folder, theirs), '--runtime-config=api/alpha=false'])
  const world = new World(cluster)
  const apply = (objects: readonly object[]): void =>
    void cluster.kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], listOf(objects))
  apply([...NAMESPACES, 'distributary'].map((name) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })))
  for (const namespace of NAMESPACES) publishAuthority(cluster, namespace)
  const objects = moved.flatMap(({ agent }) => agent.objects ?? [])
  apply([...objects, ...moved.flatMap(({ name, namespace }) => workloadOf(name, namespace)), ...DEFAULT_ACCOUNTS])
  for (const { agent } of moved) await agent.prepare?.(t, world)
  let previous = ''
  const write = (turn: string): void => {
    apply([...podsOfTurn(turn), ...moved.flatMap(({ agent }) => agent.turn?.(turn) ?? [])])
    // Without waiting: its kubelet runs in this process.
    if (previous !== '') cluster.kubectl(['delete', 'pod', '--wait=false', '-n', 'measured', `measured-${previous}`])
    previous = turn
  }
  write('first')

  const log = join(folder, 'requests')
  const flags = [`--secure-port=${await freePort()}`, `--audit-log-path=${log}`, `--service-account-issuer=${ISSUER}`]
  const start = async (certificates?: string): Promise<Installed> =>
    await install(t, cluster, {
      objects: kustomize('deploy/kubernetes/agents/upstream'),
      flags,
      ...(certificates === undefined ? {} : { certificates }),
      command: (token) => {
        const { port } = new URL(cluster.url)
        const pod = makePod(t, { host: '127.0.0.1', port, ca: cluster.ca, token, namespace: 'distributary' })
        return pod.run(serverRuntime(), programFile('main'))
      },
    })
  let ours = await start()
  const restartOurs = async (signal: NodeJS.Signals): Promise<void> => {
    process.kill(ours.pid, signal)
    await ours.stop()
    write(`without-${signal.toLowerCase()}`)
    ours = await start(ours.certificates)
  }
  const addresses = { [`${API_SERVER}:443`]: cluster.url, [`${HOST}:443`]: ours.url }
  const asked = { atTheApiServer: () => readsIn(theirs), here: () => readsIn(log) }
  const byAgents = (lines: readonly string[]): string[] => lines.filter((line) => agentOf(line) !== undefined)

  /** Runs the agents as their Deployments are now. */
  const stage = async (name: string, work: (t: Test, running: readonly Started[]) => Promise<void>): Promise<void> => {
    await t.test(name, async (t) => {
      const running: Started[] = []
      for (const { agent, ...place } of moved) {
        const pod = podOfDeployment(t, cluster, place, addresses)
        running.push({ ...agent, ...(await agent.start(t, pod, world)) })
      }
      const port = running.find((agent) => agent.port !== undefined)!.port
      const service = JSON.stringify({ spec: { service: { port } } })
      cluster.kubectl(['patch', 'apiservice', 'v1beta1.metrics.k8s.io', '--type=merge', '--patch', service])
      await work(t, running)
    })
  }
  const compare = async (t: Test, moment: string, running: readonly Started[]): Promise<void> => {
    await Promise.all(running.map((agent) => compareOne(t, world, moment, agent)))
    const here = ['--server', ours.url, '--certificate-authority', join(ours.certificates, 'ca.crt')]
    for (const [name, server] of [
      ['the API server', []],
      ['distributary', here],
    ] as const) {
      let shown: readonly string[] = []
      const wanted = await topOf(world)
      await until(
        async () => {
          await pause(250)
          shown = top(cluster, server)
          return shown.join('\n') === wanted.join('\n')
        },
        () => `kubectl top shows it: ${shown.join('\n')}`,
        WITHIN_MS,
      ).catch((error: unknown) => t.comment(String(error)))
      t.same(shown, wanted, `${moment}: kubectl top at ${name}`)
    }
  }

  const specs = (): unknown[] => moved.map(({ namespace, name }) => deploymentOf(cluster, namespace, name).spec)
  const before = specs()
  await stage('before', async (t, running) => {
    await compare(t, 'before', running)
    const lines = byAgents(asked.atTheApiServer())
    t.same(new Set(lines.map(agentOf)), new Set(moved.map(({ name }) => name)), 'they ask the API server')
    t.same(byAgents(asked.here()), [], 'and nobody else')
  })

  for (const namespace of NAMESPACES) {
    await diagnose(t, cluster, ours, namespace, ['--certificate-authority', join(ours.certificates, 'ca.crt')])
    bundleAuthorities(cluster, ours, namespace)
    await diagnose(t, cluster, ours, namespace, [])
  }
  const patch = (file: string): void => {
    for (const { namespace, name } of moved) {
      const commands = commandsOfPage(/move\.patch\.yaml/)
        .replaceAll('move.patch.yaml', file)
        .replaceAll('-n monitoring', `-n ${namespace}`)
        .replaceAll('kube-state-metrics', name)
      runCommands(cluster, `${commands} > /dev/null`, root)
    }
  }

  patch('move.patch.yaml')
  const mark = asked.atTheApiServer().length
  await stage('moved', async (t, running) => {
    await compare(t, 'moved', running)
    write('second')
    await compare(t, 'second', running)
    const atTheStart = listsOf(asked.here())
    t.comment(`lists: ${JSON.stringify(atTheStart)}`)
    const disruptions = [
      { name: 'term-of-ours', disrupt: () => restartOurs('SIGTERM') },
      { name: 'kill-of-ours', disrupt: () => restartOurs('SIGKILL') },
      { name: 'kill-of-the-api-server', disrupt: () => cluster.restart('SIGKILL') },
      { name: 'term-of-the-api-server', disrupt: () => cluster.restart('SIGTERM') },
    ]
    for (const { name, disrupt } of disruptions) {
      await disrupt()
      await compare(t, name, running)
      write(`after-${name}`)
      await compare(t, `after-${name}`, running)
      t.same(listsOf(asked.here()), atTheStart, `${name}: none has listed again`)
    }
    t.same(byAgents(asked.atTheApiServer().slice(mark)), [], 'the API server gets no list and no watch of theirs')
    t.same(new Set(byAgents(asked.here()).map(agentOf)), new Set(moved.map(({ name }) => name)), 'distributary does')
  })

  patch('back.patch.yaml')
  t.same(specs(), before, 'the Deployments are as they were')
  const read = byAgents(asked.here()).filter((line) => line.includes(' list ')).length
  const markBack = asked.atTheApiServer().length
  await stage('back', async (t, running) => {
    await compare(t, 'back', running)
    write('third')
    await compare(t, 'third', running)
    const lines = byAgents(asked.atTheApiServer().slice(markBack))
    t.same(new Set(lines.map(agentOf)), new Set(moved.map(({ name }) => name)), 'they ask the API server again')
    const lists = byAgents(asked.here()).filter((line) => line.includes(' list '))
    t.equal(lists.length, read, 'and distributary no more')
  })
})

/** The API server's own log of its requests. */
function auditFlags(folder: string, log: string): string[] {
  const policy = join(folder, 'audit-policy')
  writeFileSync(
    policy,
    JSON.stringify({
      apiVersion: 'audit.k8s.io/v1',
      kind: 'Policy',
      omitStages: ['RequestReceived'],
      rules: [{ level: 'Metadata' }],
    }),
  )
  return [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`]
}

interface Audited {
  /** Only at the API server. A watch is written when it starts, and again when it ends. */
  readonly stage?: string
  readonly user: string | { readonly username: string }
  readonly verb: string
  readonly resource?: string
  readonly objectRef?: { readonly resource: string }
}

/** Returns the lists and watches in an audit log, each as `USER VERB RESOURCE`. */
function readsIn(log: string): string[] {
  return readFileSync(log, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Audited)
    .filter(({ verb, stage }) =>
      verb === 'watch' ? stage !== 'ResponseComplete' : verb === 'list' && stage !== 'ResponseStarted',
    )
    .map(({ user, verb, resource, objectRef }) => {
      const name = typeof user === 'string' ? user : user.username
      return `${name} ${verb} ${resource ?? objectRef?.resource}`
    })
}

const agentOf = (line: string): string | undefined =>
  moved.find(({ namespace, name }) => line.startsWith(`system:serviceaccount:${namespace}:${name} `))?.name

function listsOf(lines: readonly string[]): Readonly<Record<string, number>> {
  const count = (name: string): number =>
    lines.filter((line) => agentOf(line) === name && line.includes(' list ')).length
  return Object.fromEntries(moved.map(({ name }) => [name, count(name)]))
}

/** Runs doctor as the page says, for the first agent of the namespace. It must find nothing wrong. */
async function diagnose(
  t: Test,
  cluster: Cluster,
  ours: Installed,
  namespace: string,
  more: readonly string[],
): Promise<void> {
  const account = moved.find((place) => place.namespace === namespace)!.name
  const pod = ['--from-pod', `${namespace}/${account}`]
  const args = ['doctor', '--kubeconfig', cluster.kubeconfig, '--server', ours.url, ...pod, '-o', 'json', ...more]
  const { code, stdout, stderr } = await runCli(t, args)
  const rows = stdout === '' ? [] : (JSON.parse(stdout) as Finding[])
  t.same(
    rows.filter(({ outcome }) => outcome === 'wrong'),
    [],
    `${account}: doctor finds nothing wrong`,
  )
  t.equal(code, 0, stderr)
  for (const { check, outcome, found } of rows) if (outcome === 'skipped') t.comment(`${account}: ${check}: ${found}`)
}

/** What `kubectl top` shows of pods and nodes, without the percentages. */
const top = (cluster: Cluster, server: readonly string[]): string[] =>
  [
    ['top', 'pods', '-A', '--no-headers'],
    ['top', 'nodes', '--no-headers'],
  ].flatMap((args) =>
    cluster
      .kubectl([...server, ...args])
      .trim()
      .split('\n')
      .map((line) => line.replaceAll(/ \d+%/g, '').trim().replaceAll(/\s+/g, ' '))
      .toSorted(),
  )

/** The same, computed from what metrics-server is expected to hold: pods first, then nodes. */
async function topOf(world: World): Promise<readonly string[]> {
  const { expected } = moved.find(({ name }) => name === 'metrics-server')!.agent
  const lines = await expected!(world)
  const of = (kind: string): string[] =>
    lines
      .filter((line) => line.startsWith(`${kind} `))
      .map((line) => {
        const [, key = '', , ...usage] = line.split(' ')
        const [namespace = '', name = ''] = key.split('/')
        return [...(namespace === '' ? [] : [namespace]), name, ...usage].join(' ')
      })
      .toSorted()
  return [...of('pod'), ...of('node')]
}

const DEFAULT_ACCOUNTS = ['default', 'monitoring', 'kube-system'].map((namespace) => ({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  metadata: { name: 'default', namespace },
}))

function podsOfTurn(turn: string): object[] {
  return [...Array.from({ length: 10 }, (_, i) => `p${i}`), turn].map((name) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'default', labels: { turn } },
    spec: { containers: [{ name: 'c', image: 'example.org/c:1' }] },
  }))
}

/** The Deployment of an agent, its service account and its permissions. */
function workloadOf(name: string, namespace: string): readonly object[] {
  if (name === 'metrics-server') return manifestsOfMetricsServer()
  const { rules = [] } = moved.find((one) => one.name === name)!.agent
  const labels = { app: name }
  const rbac = 'rbac.authorization.k8s.io'
  const apiVersion = `${rbac}/v1`
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } },
    {
      apiVersion,
      kind: 'ClusterRole',
      metadata: { name },
      rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }, ...rules],
    },
    {
      apiVersion,
      kind: 'ClusterRoleBinding',
      metadata: { name },
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name, namespace },
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: { serviceAccountName: name, containers: [{ name, image: `example.org/${name}:1` }] },
        },
      },
    },
  ]
}

/** Those of its release. There is no network of Services: theirs is a name of this machine. */
function manifestsOfMetricsServer(): KubernetesObject[] {
  const folder = join(moduleFolder(metricsServer, 'sigs.k8s.io/metrics-server'), 'manifests/overlays/release')
  const spec = { type: 'ExternalName', externalName: 'localhost' }
  return kustomize(folder).map((object) => (object.kind === 'Service' ? { ...object, spec } : object))
}
