/**
 * Agents with the settings of a pod (`agents.ts`). They hold what the API server has, write through us, and create what
 * we do not serve, through restarts and the end of the tokens that they began with.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Answered } from '../clients/support/stage.js'
import { momentAfter } from '../clients/support/disruptions.js'
import { eachAtOnce } from '../reference/at-once.js'
import { freePort } from '../support/free-port.js'
import { pause, until } from '../support/until.js'
import { type Agent, IDLE_MINUTES, LACKING, podsOf, WITHIN_MS, World } from './agent.js'
import { agents } from './agents.js'
import { install, listOf, startCluster, temporaryFolder, tokenOf, trustBoth } from './cluster.js'
import { compareOne, type Started } from './held.js'
import { makePod, type Pod } from './pod.js'

/** How many agents start at once: on two cores, all of them together would not be ready within a minute. */
const STARTING = 3

const PODS = 30

/** How long a token is mounted when nothing happens: the kubelet replaces it well before its hour is over. */
const MINUTES_OF_TOKEN = 20

void t.test('agents in pods hold what the API server has, through restarts and new tokens', async (t) => {
  const lacking = new Set((process.env[LACKING] ?? '').split(','))
  const chosen = agents.filter(({ client }) => !lacking.has(client))
  const names = chosen.map(({ name }) => name)
  const cluster = await startCluster(t)
  const world = new World(cluster)
  const apply = (objects: readonly object[]): void =>
    void cluster.kubectl(['apply', '--server-side', '--force-conflicts', '-f', '-'], listOf(objects))
  apply(rightsOf(chosen))
  // A namespace must be there before what is in it.
  const others = chosen.flatMap(({ objects = [] }) => objects)
  const isFirst = (object: object): boolean =>
    ['Namespace', 'ServiceAccount'].includes((object as { kind: string }).kind)
  const first = others.filter(isFirst)
  if (first.length > 0) apply(first)
  apply([...boundPods(names, 'first'), ...worldOf('start'), ...others.filter((object) => !isFirst(object))])
  const log = join(temporaryFolder(t), 'requests')
  const flags = [`--secure-port=${await freePort()}`, `--audit-log-path=${log}`]
  let ours = await install(t, cluster, { flags })
  const ca = trustBoth(cluster, ours, 'monitoring')

  for (const { prepare } of chosen) await prepare?.(t, world)
  const pods = new Map<string, Pod>()
  const running: Started[] = []
  await eachAtOnce(chosen, STARTING, async (agent) => {
    const { name, start } = agent
    const token = tokenOf(cluster, 'monitoring', name, `${name}-first`)
    const host = 'distributary.distributary.svc'
    const pod = makePod(t, { host, port: new URL(ours.url).port, ca, token })
    pods.set(name, pod)
    running.push({ ...agent, ...(await start(t, pod, world)) })
  })

  const write = (turn: string): void => {
    cluster.kubectl(['delete', 'pod', 'p0'])
    const changed = worldOf(turn).slice(0, 10)
    const others = [...new Set(chosen.map((agent) => agent.turn))].flatMap((write) => write?.(turn) ?? [])
    apply([...changed, podOf(turn, turn), ...others])
  }
  const createOne = async (t: Test, moment: string, agent: Started): Promise<void> => {
    const { name, create, printed, hasEnded } = agent
    if (create === undefined) return
    const map = `${name}-${moment}`
    await until(() => hasEnded?.() === true || create(map), `${name} creates ${map}`, WITHIN_MS).catch(() =>
      t.comment(printed()),
    )
    t.equal(cluster.kubectl(['get', 'configmap', map, '-o', 'name']).trim(), `configmap/${map}`)
  }
  const compare = async (t: Test, moment: string, compared = running): Promise<void> => {
    await Promise.all(compared.map((agent) => createOne(t, moment, agent)))
    await Promise.all(compared.map((agent) => compareOne(t, world, moment, agent)))
    t.ok((await podsOf(world)).includes(`${moment} ${moment}`))
  }
  /** How often each has listed what it follows. */
  const lists = (): Readonly<Record<string, number>> => {
    const lines = readFileSync(log, 'utf8').split('\n').slice(0, -1)
    const answered = lines.map((line) => JSON.parse(line) as Answered & { readonly user: string })
    const count = ({ name, follows = ['pods'] }: Agent): number =>
      answered.filter(
        ({ user, verb, resource, code }) =>
          user === `system:serviceaccount:monitoring:${name}` &&
          verb === 'list' &&
          follows.includes(resource) &&
          code === 200,
      ).length
    return Object.fromEntries(chosen.map((agent) => [agent.name, count(agent)]))
  }
  const restart = async (signal: NodeJS.Signals, meanwhile: string): Promise<void> => {
    process.kill(ours.pid, signal)
    await ours.stop()
    write(meanwhile)
    ours = await install(t, cluster, { flags, certificates: ours.certificates })
  }

  write('first')
  await compare(t, 'first')
  const atTheStart = lists()
  t.comment(JSON.stringify(atTheStart))
  const rotate = (generation: string): void => {
    for (const [name, pod] of pods) pod.rotate(tokenOf(cluster, 'monitoring', name, `${name}-${generation}`))
  }
  const idleMinutes = Number(process.env[IDLE_MINUTES] ?? 0)
  if (idleMinutes > 0) {
    await t.test(`after ${idleMinutes} idle minutes`, { timeout: 0 }, async (t) => {
      for (let minute = 1; minute <= idleMinutes; minute++) {
        await pause(60_000)
        if (minute % MINUTES_OF_TOKEN === 0) rotate('first')
      }
      t.same(lists(), atTheStart, 'none has listed again')
      write('later')
      await compare(t, 'later')
      t.same(lists(), atTheStart, 'nor to get what is written then')
    })
  }
  for (const { name, endsTokens = false, disrupt } of [
    { name: 'SIGTERM', disrupt: () => restart('SIGTERM', 'without-a-server') },
    { name: 'a restart of etcd', disrupt: () => cluster.etcd.restart() },
    {
      name: 'new tokens and kill -9',
      endsTokens: true,
      disrupt: async () => {
        apply(boundPods(names, 'second'))
        rotate('second')
        cluster.kubectl(['delete', 'pod', '-n', 'monitoring', ...names.map((name) => `${name}-first`)])
        await restart('SIGKILL', 'without-tokens')
      },
    },
  ]) {
    await t.test(`after ${name}`, async (t) => {
      const startedMs = performance.now()
      await disrupt()
      const moment = momentAfter({ name })
      write(moment)
      const writtenMs = performance.now()
      await compare(t, moment, endsTokens ? running.filter((agent) => agent.withoutToken === undefined) : running)
      t.comment(`${Math.round(writtenMs - startedMs)} ms, then ${Math.round(performance.now() - writtenMs)} ms`)
      if (!endsTokens) return void t.same(lists(), atTheStart, 'none has listed again')
      // A client that resumes its watch with the old token gets 401, and after an error client-go lists.
      for (const [agent, count] of Object.entries(lists())) {
        // One that began with streams has not listed before.
        t.ok(count <= Math.max(1, 2 * atTheStart[agent]!), `${agent} has listed at most once more`)
      }
    })
  }
})

function rightsOf(chosen: readonly Agent[]): object[] {
  const account = (name: string, namespace: string): object => ({
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name, namespace },
  })
  const rules = [
    { apiGroups: [''], resources: ['pods'], verbs: ['list', 'watch'] },
    { apiGroups: [''], resources: ['configmaps'], verbs: ['create'] },
  ]
  const apiVersion = 'rbac.authorization.k8s.io/v1'
  const apiGroup = 'rbac.authorization.k8s.io'
  return [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'monitoring' } },
    ...['default', ...chosen.map(({ name }) => name)].map((name) => account(name, 'monitoring')),
    account('default', 'default'),
    ...chosen.flatMap(({ name, rules: own = [] }) => [
      { apiVersion, kind: 'ClusterRole', metadata: { name }, rules: [...rules, ...own] },
      {
        apiVersion,
        kind: 'ClusterRoleBinding',
        metadata: { name },
        roleRef: { apiGroup, kind: 'ClusterRole', name },
        subjects: [{ kind: 'ServiceAccount', name, namespace: 'monitoring' }],
      },
    ]),
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
