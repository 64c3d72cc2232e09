/**
 * The descheduler, unmodified: with distributary it evicts the same pods as with Kubernetes' own API server, and may
 * not evict those that a disruption budget protects. It keeps its Lease and continues to evict through restarts.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ask } from '../../reference/ask.js'
import type { ApiServer } from '../../reference/control-plane.js'
import { freePort } from '../../support/free-port.js'
import { buildGoProgram } from '../../support/go-program.js'
import { until } from '../../support/until.js'
import { descheduler } from '../programs.js'
import { clientFolder, sources, startCompared, urlOf } from '../support/api-server.js'
import { deschedulerPolicy } from '../support/descheduler-policy.js'
import { disruptions, momentAfter } from '../support/disruptions.js'
import type { World } from '../support/stage.js'
import { type RunningProcess, startProcess } from '../support/start-process.js'

const program = buildGoProgram(descheduler)

const policy = deschedulerPolicy({
  RemovePodsHavingTooManyRestarts: { podRestartThreshold: 10 },
  RemoveFailedPods: {},
  RemovePodsViolatingNodeTaints: {},
  RemovePodsViolatingNodeAffinity: { nodeAffinityType: ['requiredDuringSchedulingIgnoredDuringExecution'] },
})

const CREATED = '2026-01-01T00:00:00Z'
const meta = (name: string, more: object = {}): object => ({
  name,
  uid: `uid-${name}`,
  creationTimestamp: CREATED,
  ...more,
})
const SSD = { key: 'disk', operator: 'In', values: ['ssd'] }

const node = (name: string, labels: object, spec: object): object => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: meta(name, { labels }),
  spec,
  status: {
    allocatable: { cpu: '4', memory: '8Gi', pods: '110' },
    capacity: { cpu: '4', memory: '8Gi', pods: '110' },
    conditions: [{ type: 'Ready', status: 'True' }],
  },
})

interface PodParts {
  readonly kind?: 'ReplicaSet' | 'DaemonSet' | null
  readonly phase?: string
  readonly restarts?: number
  readonly labels?: Readonly<Record<string, string>>
  readonly spec?: object
}

function pod(
  name: string,
  { kind = 'ReplicaSet', phase = 'Running', restarts = 0, labels = {}, spec }: PodParts,
): object {
  const owner = { apiVersion: 'apps/v1', kind, name: 'owner', uid: 'uid-owner', controller: true }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: meta(name, { namespace: 'default', labels, ...(kind === null ? {} : { ownerReferences: [owner] }) }),
    spec: { nodeName: 'plain', containers: [{ name: 'c', image: 'i' }], ...spec },
    status: {
      phase,
      conditions: [{ type: 'Ready', status: phase === 'Running' ? 'True' : 'False' }],
      containerStatuses: [{ name: 'c', image: 'i', imageID: 'i', ready: true, restartCount: restarts }],
    },
  }
}

const budget = (name: string, disruptionsAllowed: number): object => ({
  apiVersion: 'policy/v1',
  kind: 'PodDisruptionBudget',
  metadata: meta(name, { namespace: 'default' }),
  spec: { minAvailable: 1, selector: { matchLabels: { budget: name } } },
  status: { disruptionsAllowed, currentHealthy: 1 + disruptionsAllowed, desiredHealthy: 1, expectedPods: 2 },
})

const FAILED = { phase: 'Failed' }
const RESTARTS = { restarts: 20 }

const pods: Readonly<Record<string, PodParts>> = {
  fine: {},
  restarts: RESTARTS,
  failed: FAILED,
  tainted: { spec: { nodeName: 'tainted' } },
  tolerates: { spec: { nodeName: 'tainted', tolerations: [{ operator: 'Exists' }] } },
  misplaced: {
    spec: {
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [SSD] }] },
        },
      },
    },
  },
  critical: { ...RESTARTS, spec: { priority: 2_000_000_000, priorityClassName: 'system-cluster-critical' } },
  local: { ...RESTARTS, spec: { volumes: [{ name: 'v', emptyDir: {} }] } },
  daemon: { ...RESTARTS, kind: 'DaemonSet' },
  bare: { ...FAILED, kind: null },
  protected: { ...RESTARTS, labels: { budget: 'none' } },
  allowed: { ...RESTARTS, labels: { budget: 'one' } },
}

const evicted = ['allowed', 'failed', 'misplaced', 'restarts', 'tainted']

const keyOf = (name: string): string => `/registry/pods/default/${name}`

const world: World = {
  initial: new Map(
    Object.entries({
      '/registry/minions/plain': node('plain', {}, {}),
      '/registry/minions/fast': node('fast', { disk: 'ssd' }, {}),
      '/registry/minions/tainted': node('tainted', {}, { taints: [{ key: 'dedicated', effect: 'NoSchedule' }] }),
      '/registry/poddisruptionbudgets/default/none': budget('none', 0),
      '/registry/poddisruptionbudgets/default/one': budget('one', 1),
      ...Object.fromEntries(Object.entries(pods).map(([name, parts]) => [keyOf(name), pod(name, parts)])),
    }),
  ),
  turn: (name) => [{ [keyOf(name)]: pod(name, FAILED) }],
}

interface Run {
  readonly left: readonly string[]
  /** The descheduler's log lines about evictions, without their times. */
  readonly said: readonly string[]
}

/** Runs it once against a server. */
async function runOnce(t: Test, server: string, apiServer: ApiServer): Promise<Run> {
  const client = await start(t, server, [])
  await until(
    () => client.hasEnded(),
    () => `it has ended: ${client.printed()}`,
    120_000,
  )
  const lines = client.printed().split('\n')
  const said = lines.flatMap((line) => /\] ("(?:Evicted pod|Error evicting pod)".*)$/.exec(line)?.[1] ?? [])
  return { left: await podNames(apiServer), said: said.toSorted() }
}

async function start(t: Test, server: string, flags: readonly string[]): Promise<RunningProcess> {
  const { folder, kubeconfig } = clientFolder(t, server)
  const file = join(folder, 'policy.json')
  writeFileSync(file, JSON.stringify(policy))
  return startProcess(t, [
    program,
    `--kubeconfig=${kubeconfig}`,
    `--policy-config-file=${file}`,
    `--secure-port=${await freePort()}`,
    '--bind-address=127.0.0.1',
    `--cert-dir=${folder}`,
    '--v=3',
    ...flags,
  ])
}

async function podNames({ server }: ApiServer): Promise<readonly string[]> {
  const { body } = await ask(server, { method: 'GET', path: '/api/v1/namespaces/default/pods', headers: {} })
  const { items } = JSON.parse(body.toString()) as { items: readonly { metadata: { name: string } }[] }
  return items.map(({ metadata: { name } }) => name).toSorted()
}

const LEASE = ['--leader-elect', '--leader-elect-lease-duration=15s', '--leader-elect-renew-deadline=10s']

void t.test('at distributary the descheduler does what it does at the API server', async (t) => {
  let expected!: Run
  await t.test('at the API server', async (t) => {
    const { apiServer } = await startCompared(t, world, sources[0]!)
    expected = await runOnce(t, urlOf(apiServer), apiServer)
    t.same(
      expected.left,
      Object.keys(pods)
        .filter((name) => !evicted.includes(name))
        .toSorted(),
    )
    t.ok(expected.said.some((line) => /^"Error.*default\/protected/.test(line)))
  })
  for (const source of sources) {
    await t.test(source.name, async (t) => {
      const { stage, apiServer } = await startCompared(t, world, source)
      t.same(await runOnce(t, stage.url, apiServer), expected)
      const client = await start(t, stage.url, [
        ...LEASE,
        '--leader-elect-retry-period=2s',
        '--descheduling-interval=1s',
      ])
      for (const disruption of [{ name: 'the start', disrupt: async () => {} }, ...disruptions]) {
        await disruption.disrupt(stage)
        const moment = momentAfter(disruption)
        await stage.write(moment)
        // Pods that were written during the disruption are evicted too, in any order.
        const isDone = async (): Promise<boolean> =>
          client.printed().includes(`default/${moment}"`) && (await podNames(apiServer)).join() === expected.left.join()
        await until(isDone, () => `${moment} is evicted: ${client.printed()}`, 90_000)
        t.pass(`${moment} is evicted`)
      }
      t.notOk(client.hasEnded(), client.printed())
      t.notMatch(client.printed(), /Leader lost|panic/)
    })
  }
})
