/**
 * Clients that take their settings from a pod's variables and token directory, and nothing else: client-go, those for
 * Python, fabric8, client-java, Rust's kube and kube-state-metrics, each with a service account. They hold what the API
 * server has, and create through us what we do not serve, through restarts and the end of the tokens that they began with.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { clientGo, kubeStateMetrics } from '../clients/programs.js'
import type { Answered } from '../clients/support/stage.js'
import { momentAfter } from '../clients/support/disruptions.js'
import { provideJava } from '../clients/support/java.js'
import { startClient } from '../clients/support/program.js'
import { NoPythonError, providePython, pythonFolder } from '../clients/support/python.js'
import { provideRust } from '../clients/support/rust.js'
import { startProcess } from '../clients/support/start-process.js'
import { freePort } from '../support/free-port.js'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { until } from '../support/until.js'
import { type Cluster, install, listOf, startCluster, temporaryFolder, tokenOf, trustBoth } from './cluster.js'
import { makePod, type Pod } from './pod.js'

interface Agent {
  /** Also the name of its service account. */
  readonly name: string
  /** The pods that it holds, as lines `NAME TURN`. */
  readonly held: () => Promise<readonly string[]>
  /** Creates a ConfigMap in the namespace `default`. Returns whether it could. Absent: it only reads. */
  readonly create?: (name: string) => Promise<boolean>
  readonly printed: () => string
}

type Start = (t: Test, pod: Pod) => Promise<Omit<Agent, 'name'>>

/** A program that is asked through its standard input. */
const asked =
  (command: readonly string[], what = 'what', create = ''): Start =>
  async (t, pod) => {
    const client = await startClient(t, pod.run(...command))
    return {
      held: async () => {
        const answer = (await client.ask(what)) as readonly string[] | { readonly held: readonly string[] }
        return 'held' in answer ? answer.held : answer
      },
      create: async (name) => (await client.ask(create + name).catch(() => false)) === true,
      printed: () => client.errors(),
    }
  }

const follower = (name: string): Start => asked([providePython(), join(pythonFolder, 'follow.py'), name, 'in-cluster'])

const informer = (name: string): Start =>
  asked([buildGoProgram(clientGo), 'in-cluster', name], `what ${name}`, 'create ')

const metrics: Start = async (t, pod) => {
  const port = await freePort()
  const flags = [
    `--port=${port}`,
    `--telemetry-port=${await freePort()}`,
    '--resources=pods',
    '--metric-labels-allowlist=pods=[*]',
  ]
  const client = startProcess(t, pod.run(buildGoProgram(kubeStateMetrics), ...flags))
  return {
    held: async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      return [...text.matchAll(/^kube_pod_labels\{(.*)\} 1$/gm)].map(([, labels = '']) => {
        const of = (label: string): string => new RegExp(`(?:^|,)${label}="([^"]*)"`).exec(labels)?.[1] ?? 'null'
        return `${of('pod')} ${of('label_turn')}`
      })
    },
    printed: () => client.printed(),
  }
}

const agents: readonly (readonly [name: string, start: () => Start])[] = [
  ['client-go-typed', () => informer('typed')],
  ['client-go-dynamic', () => informer('dynamic')],
  ['client-go-metadata', () => informer('metadata')],
  ['kube-state-metrics', () => metrics],
  ['kubernetes', () => follower('kubernetes')],
  ['kubernetes-asyncio', () => follower('kubernetes_asyncio')],
  ['lightkube', () => follower('lightkube')],
  ['kr8s', () => follower('kr8s')],
  ['fabric8', () => asked([...provideJava('fabric8'), 'in-cluster'])],
  ['client-java', () => asked([...provideJava('client-java'), 'in-cluster', 'informer'])],
  ['client-java-watch', () => asked([...provideJava('client-java'), 'in-cluster', 'watch'])],
  ['kube', () => asked([provideRust(), 'in-cluster', 'paged'])],
  ['kube-streaming', () => asked([provideRust(), 'in-cluster', 'streaming'])],
]

function startOf(t: Test, name: string, start: () => Start): Start | null {
  try {
    return start()
  } catch (error) {
    if (!(error instanceof NoProgramError || error instanceof NoPythonError)) throw error
    t.comment(`skipped: ${name}, since ${error.message}`)
    return null
  }
}

/** Its informer lists again after each connection that was cut, whatever the server does. */
const RELISTS = 'client-java'

/** Some clients read the token again only each minute; others wait half a minute before they reconnect. */
const WITHIN_MS = 120_000

const PODS = 30

void t.test('clients in pods hold what the API server has, through restarts and new tokens', async (t) => {
  const started = agents.flatMap(([name, start]) => {
    const found = startOf(t, name, start)
    return found === null ? [] : [{ name, start: found }]
  })
  const names = started.map(({ name }) => name)
  const cluster = await startCluster(t)
  cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf(rightsOf(names)))
  cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf([...boundPods(names, 'first'), ...worldOf('start')]))
  const log = join(temporaryFolder(t), 'requests')
  const flags = [`--secure-port=${await freePort()}`, `--audit-log-path=${log}`]
  let ours = await install(t, cluster, { flags })
  const ca = trustBoth(cluster, ours, 'monitoring')

  const pods = new Map<string, Pod>()
  const running = await Promise.all(
    started.map(async ({ name, start }): Promise<Agent> => {
      const token = tokenOf(cluster, 'monitoring', name, `${name}-first`)
      const host = 'distributary.distributary.svc'
      const pod = makePod(t, { host, port: new URL(ours.url).port, ca, token })
      pods.set(name, pod)
      return { name, ...(await start(t, pod)) }
    }),
  )

  const compare = async (t: Test, moment: string): Promise<void> => {
    const expected = linesOf(cluster)
    t.ok(expected.includes(`${moment} ${moment}`))
    const compareOne = async ({ name, held, printed }: Agent): Promise<void> => {
      let lines: readonly string[] = []
      const isEqual = async (): Promise<boolean> => {
        lines = (await held().catch(() => [])).map((line) => line.replace(/ None$/, ' null')).toSorted()
        return lines.join('\n') === expected.join('\n')
      }
      await until(isEqual, 'it holds what the API server has', WITHIN_MS).catch(() => t.comment(printed()))
      t.same(lines, expected, `${moment}: ${name} holds what the API server has`)
    }
    const createOne = async ({ name, create, printed }: Agent): Promise<void> => {
      if (create === undefined) return
      const map = `${name}-${moment}`
      await until(() => create(map), `${name} creates ${map}`, WITHIN_MS).catch(() => t.comment(printed()))
      t.equal(cluster.kubectl(['get', 'configmap', map, '-o', 'name']).trim(), `configmap/${map}`)
    }
    await Promise.all([...running.map(compareOne), ...running.map(createOne)])
  }
  /** How often each has listed, without the one that lists again by itself. */
  const lists = (): Readonly<Record<string, number>> => {
    const lines = readFileSync(log, 'utf8').split('\n').slice(0, -1)
    const answered = lines.map((line) => JSON.parse(line) as Answered & { readonly user: string })
    const count = (name: string): number =>
      answered.filter(
        ({ user, verb, resource, code }) =>
          user === `system:serviceaccount:monitoring:${name}` && verb === 'list' && resource === 'pods' && code === 200,
      ).length
    return Object.fromEntries(names.filter((name) => name !== RELISTS).map((name) => [name, count(name)]))
  }
  const restart = async (signal: NodeJS.Signals, meanwhile: string): Promise<void> => {
    process.kill(ours.pid, signal)
    await ours.stop()
    write(cluster, meanwhile)
    ours = await install(t, cluster, { flags, certificates: ours.certificates })
  }

  write(cluster, 'first')
  await compare(t, 'first')
  const atTheStart = lists()
  t.comment(JSON.stringify(atTheStart))
  for (const { name, disrupt } of [
    { name: 'SIGTERM', disrupt: () => restart('SIGTERM', 'without-a-server') },
    { name: 'a restart of etcd', disrupt: () => cluster.etcd.restart() },
    {
      name: 'new tokens, the end of the old ones, and kill -9',
      disrupt: async () => {
        cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf(boundPods(names, 'second')))
        for (const [name, pod] of pods) pod.rotate(tokenOf(cluster, 'monitoring', name, `${name}-second`))
        cluster.kubectl(['delete', 'pod', '-n', 'monitoring', ...names.map((name) => `${name}-first`)])
        await restart('SIGKILL', 'without-tokens')
      },
    },
  ]) {
    await t.test(`after ${name}`, async (t) => {
      await disrupt()
      const moment = momentAfter({ name })
      write(cluster, moment)
      await compare(t, moment)
      t.same(lists(), atTheStart, 'none has listed again')
    })
  }
})

function rightsOf(names: readonly string[]): object[] {
  const account = (name: string, namespace: string): object => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name, namespace },
  })
  const roles = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'agents' }
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'monitoring' } },
    ...['default', ...names].map((name) => account(name, 'monitoring')),
    account('default', 'default'),
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: 'agents' },
      rules: [
        { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
        { apiGroups: [''], resources: ['configmaps'], verbs: ['create'] },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: 'agents' },
      roleRef: roles,
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'system:serviceaccounts:monitoring' }],
    },
  ]
}

/** The pods that the tokens are bound to, by their generation. */
const boundPods = (names: readonly string[], generation: string): object[] =>
  names.map((name) => podOf(`${name}-${generation}`, generation, 'monitoring', name))

const podOf = (name: string, turn: string, namespace = 'default', serviceAccountName = 'default'): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace, labels: { turn } },
  spec: { serviceAccountName, containers: [{ name: 'c', image: 'example.org/c:1' }] },
})

const worldOf = (turn: string): object[] => Array.from({ length: PODS }, (_, i) => podOf(`p${i}`, turn))

/** Changes some pods, deletes and recreates one, and creates one with the turn's name. */
function write(cluster: Cluster, turn: string): void {
  cluster.kubectl(['delete', 'pod', 'p0'])
  const changed = worldOf(turn).slice(0, 10)
  cluster.kubectl(['apply', '--server-side', '-f', '-'], listOf([...changed, podOf(turn, turn)]))
}

function linesOf(cluster: Cluster): readonly string[] {
  const { items } = JSON.parse(cluster.kubectl(['get', 'pods', '-A', '-o', 'json'])) as {
    items: readonly { metadata: { name: string; labels?: Record<string, string> } }[]
  }
  return items.map(({ metadata: { name, labels } }) => `${name} ${labels?.['turn'] ?? 'null'}`).toSorted()
}
