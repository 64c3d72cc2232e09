/**
 * Question: what does a cluster gain? A control plane has nodes and pods simulated by kwok, and a Deployment rolls out
 * every ten seconds. One agent per node (`support/agents.ts`) watches the API server, our sidecar next to etcd, or our
 * server with `--upstream`. Then comes the storm: the API server is restarted, and all agents reconnect at once.
 *
 * The three arrangements take turns on one cluster, each with a freshly started API server. All programs share the
 * cores, except the agents, which have the last core to themselves. Agents use a service account, so the API server
 * queues and refuses their requests as in a cluster, and our server authenticates and authorizes them.
 */
import { ask, serverAt } from '../test/reference/ask.js'
import { buildControlPlane, buildKwok } from '../test/reference/programs.js'
import { NoProgramError } from '../test/support/go-program.js'
import { startDistributary } from './subjects/distributary.js'
import { type Etcd, startEtcd } from './subjects/etcd.js'
import type { Runtime } from './subjects/subject.js'
import { AGENT_RESOURCES, type AfterEach, agentPaths, everywhere, WATCHES_OF_AGENT } from './support/agents.js'
import { attempt, type Choice, type Question, targets } from './support/choice.js'
import { AGENT, type ControlPlane, type ControlPlanePrograms, startControlPlane } from './support/control-plane.js'
import { bucketsOf, quantileBetween, sumOf } from './support/histograms.js'
import { firstFault, owedChanges, type Owing } from './support/owed.js'
import { endAll, resetPeak, sleep, usage } from './support/processes.js'
import type { Value } from './support/record.js'
import {
  type ClusterSize,
  createCluster,
  type Probe,
  probing,
  type Repeated,
  rolling,
  untilReady,
} from './support/simulated.js'
import { startWatchers, type WatchRequest, type Watchers, type WatchersOptions } from './support/watchers.js'
import { createWorkspace, type Workspace } from './support/workspace.js'

const WIRE = 'http2-tls'
const NODES = 200
const PODS_OF_NODE = 20
const PODS_OF_DEPLOYMENT = 50
const ROUNDS = 3
const BUILD_MS = 3_600_000
const SETTLE_MS = 90_000

const arrangements = ['alone', 'sidecar', 'upstream'] as const
export type Arrangement = (typeof arrangements)[number]

/** Times of a run, in milliseconds. */
const usual = { roll: 10_000, probe: 250, warm: 10_000, steady: 30_000, storm: 10_000 }
const small: typeof usual = { roll: 3_000, probe: 100, warm: 1_000, steady: 3_000, storm: 1_000 }

export const relief: Question = async (choice) => {
  const programs = builtPrograms()
  if (programs === null) return
  const { nodes = choice.quick ? 10 : NODES } = choice
  const pods = nodes * PODS_OF_NODE
  const size = { nodes, pods, deployments: Math.ceil(pods / PODS_OF_DEPLOYMENT) }
  const times = choice.quick ? small : usual
  const runtime = runtimeOf(choice)
  const workspace = createWorkspace()
  try {
    const etcd = await startEtcd(workspace, 'both')
    const plane = await startControlPlane(workspace, etcd.port, programs)
    await createCluster(plane, size)
    const [rolls, probe] = [rolling(plane, size, times.roll), probing(plane, times.probe)]
    const scene = { choice, workspace, etcd, plane, size, times, runtime, rolls, probe }
    for (let round = 1; round <= (choice.rounds ?? (choice.quick ? 1 : ROUNDS)); round++) {
      for (const arrangement of arrangements) {
        const subject = arrangement === 'alone' ? 'apiserver' : 'distributary'
        const row = { question: 'relief', subject, wire: WIRE, arrangement, round, ...size }
        await attempt(choice, row, () => measure(scene, arrangement, row))
      }
    }
  } finally {
    await endAll()
    workspace.remove()
  }
}

/** Returns null, and prints the reason, if the programs are not available. */
function builtPrograms(): ControlPlanePrograms | null {
  try {
    return { ...buildControlPlane(performance.now() + BUILD_MS), kwok: buildKwok() }
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stderr.write(`bench: relief is left out, since ${error.message}\n`)
    return null
  }
}

/** Returns our runtime, from `--subjects distributary@RUNTIME`. By default it is the container's. */
function runtimeOf(choice: Choice): Runtime {
  const [target] = targets({ ...choice, watchers: [] }, [`distributary@24/${WIRE}`])
  return target?.runtime ?? { name: `Node ${process.version.slice(1)}`, program: process.execPath }
}

interface Scene {
  readonly choice: Choice
  readonly workspace: Workspace
  readonly etcd: Etcd
  readonly plane: ControlPlane
  readonly size: ClusterSize
  readonly times: typeof usual
  readonly runtime: Runtime
  readonly rolls: Repeated
  readonly probe: Probe
}

type RowStart = Readonly<Record<string, Value>> & {
  readonly question: string
  readonly subject: string
  readonly wire: string
}

async function measure(scene: Scene, arrangement: Arrangement, row: RowStart): Promise<void> {
  const { choice, plane, runtime } = scene
  await plane.restart()
  // A completed roll shows that the controllers are working.
  await scene.rolls.once()
  await untilReady(plane, SETTLE_MS)
  const ours = arrangement === 'alone' ? null : await startOurs(scene, arrangement)
  const place = { port: ours?.port ?? plane.port, pid: ours?.child.pid ?? null, coalesces: arrangement === 'upstream' }
  const record = (phase: string, values: Readonly<Record<string, Value>>): void => {
    const which = { runtime: ours === null ? 'Go' : runtime.name, serverFlags: choice.serverFlags.join(' ') }
    choice.recorder.row({ ...row, resource: 'cluster', phase, ...which, ...values })
  }
  try {
    const { watchers, columns } = await steady(scene, place)
    record('steady', columns)
    await watchers.end()
    record('storm', await storm(scene, place))
  } finally {
    await ours?.child.end()
  }
}

/** Where the agents watch. */
interface Place {
  readonly port: number
  /** The process id of our server; null if agents watch the API server. */
  readonly pid: number | null
  /** Whether a restart of the API server may cost watches intermediate versions (`--on-gap=coalesce`). */
  readonly coalesces: boolean
}

function startOurs({ choice, workspace, etcd, plane, runtime }: Scene, arrangement: Arrangement) {
  const { kubeconfig } = plane
  const source =
    arrangement === 'sidecar'
      ? [`--etcd-servers=http://127.0.0.1:${etcd.port}`, '--authorization-mode=Node,RBAC']
      : [
          `--upstream=https://127.0.0.1:${plane.port}`,
          `--kubeconfig=${kubeconfig}`,
          '--authorization-mode=Webhook',
          `--authorization-kubeconfig=${kubeconfig}`,
          // As in deploy/kubernetes/agents/upstream: decisions outlive a restart of the API server.
          '--authorization-webhook-cache-authorized-ttl=5m',
        ]
  const { nodeFlags, serverFlags } = choice
  return startDistributary({
    workspace,
    wire: WIRE,
    core: 'both',
    runtime,
    nodeFlags,
    // All agents share one service account, which opens every watch at once.
    serverFlags: [...source, `--token-auth-file=${plane.tokenFile}`, '--requests-per-second=100000', ...serverFlags],
  })
}

function openAgents(
  { size: { nodes }, probe }: Scene,
  { port }: Place,
  after: AfterEach,
  more: Partial<WatchersOptions> = {},
): ReturnType<typeof startWatchers> {
  const headers = [`Authorization: Bearer ${AGENT}`]
  const request: WatchRequest = { port, path: '/', headers, tls: true, http2: true }
  return startWatchers(request, {
    connections: nodes,
    streams: WATCHES_OF_AGENT,
    objects: true,
    first: probe.next,
    paths: agentPaths({ after, agents: nodes, recovers: true }),
    ...more,
  })
}

async function steady(scene: Scene, place: Place) {
  const { choice, etcd, plane, times, rolls, probe } = scene
  const after = everywhere(await etcd.revision())
  const watchers = await openAgents(scene, place, after).ready
  rolls.resume()
  probe.resume()
  await sleep(times.warm)
  probe.takeDurations()
  const metrics = await readMetrics(scene)
  await watchers.mark()
  const meter = startMeter(scene, place)
  await sleep(choice.seconds === undefined ? times.steady : choice.seconds * 1_000)
  const spent = meter.end()
  const report = await watchers.report()
  const writes = probe.takeDurations().toSorted((a, b) => a - b)
  const latencies = latenciesBetween(metrics, await readMetrics(scene))
  await probe.pause()
  await rolls.pause()
  const verified = await etcd.revision()
  await untilComplete(scene, watchers, { after, until: verified })
  const { relisted, expired, throttled, failed, ended } = await watchers.report()
  await untilReady(plane, SETTLE_MS)
  return {
    watchers,
    columns: {
      ...spent,
      ...latencies,
      deliveries: report.objects,
      deliveriesPerSecond: report.objects / report.seconds,
      bytesPerDelivery: report.bytes / Math.max(1, report.objects),
      p50Ms: report.delayMs.p50,
      p99Ms: report.delayMs.p99,
      writeP50Ms: writes[Math.floor(writes.length * 0.5)] ?? null,
      writeP99Ms: writes[Math.floor(writes.length * 0.99)] ?? null,
      relisted,
      expired,
      throttled,
      failedWatches: failed,
      ended,
    },
  }
}

async function storm(scene: Scene, place: Place): Promise<Record<string, Value>> {
  const { etcd, plane, size, times, rolls, probe } = scene
  const count = size.nodes * WATCHES_OF_AGENT
  const seen = await versionsAt(place)
  await plane.restartApiServer()
  rolls.resume()
  probe.resume()
  const meter = startMeter(scene, place)
  const begin = performance.now()
  const { watchers } = openAgents(scene, place, seen, { burst: size.nodes, retries: 20 * size.nodes })
  for (let live = 0; live < count;) {
    if (performance.now() - begin > SETTLE_MS) throw new Error(`only ${live} of ${count} watches came back`)
    await sleep(100)
    live = (await watchers.report()).live
  }
  await sleep(Math.max(0, times.storm - (performance.now() - begin)))
  const spent = meter.end()
  await probe.pause()
  await rolls.pause()
  const until = await etcd.revision()
  await untilComplete(scene, watchers, { after: seen, until, coalesces: place.coalesces })
  const { liveMs, live, relisted, expired, throttled, failed, ended, totalBytes } = await watchers.report()
  if (live < count) throw new Error(`only ${live} of ${count} watches are live`)
  const { apiServer: text } = await readMetrics(scene)
  await watchers.end()
  return {
    ...spent,
    liveMs,
    relisted,
    expired,
    throttled,
    failedWatches: failed,
    ended,
    receivedMb: totalBytes / 2 ** 20,
    // All requests since the API server's restart, not only the agents' requests.
    apiServerRefused: sumOf(text, 'apiserver_request_total', (labels) => labels.includes('code="429"')),
  }
}

/**
 * The version of each resource at the server that the agents watch, as they have it from their last event or bookmark:
 * etcd's own revision is later, because of everything that they do not watch.
 */
function versionsAt({ port }: Place): Promise<AfterEach> {
  const server = serverAt('theirs', `https://127.0.0.1:${port}`, AGENT)
  return Promise.all(
    AGENT_RESOURCES.map(async (path) => {
      const { code, body } = await ask(server, { method: 'GET', path: `${path}?resourceVersion=0`, headers: {} })
      if (code !== 200) throw new Error(`${path}: ${code} ${body.toString()}`)
      return Number((JSON.parse(body.toString()) as KubeList).metadata.resourceVersion)
    }),
  )
}

interface KubeList {
  readonly metadata: { readonly resourceVersion: string }
}

/** @throws Error when a watch received anything other than the expected events, or received them too late. */
async function untilComplete({ workspace, etcd }: Scene, watchers: Watchers, owing: Owing): Promise<void> {
  const changes = await owedChanges(etcd.port, Math.min(...owing.after), owing.until)
  for (let tries = 0; ; tries++) {
    const fault = firstFault(await watchers.versions(workspace.path('versions')), changes, owing)
    if (fault === null) return
    if (tries === 20) throw new Error(`not every change came once: ${fault}`)
    await sleep(500)
  }
}

const SAMPLE_MS = 500

/**
 * Measures CPU and memory of each part until the meter is ended. `Peak` cores are the cores used in the busiest half
 * second.
 */
function startMeter({ etcd, plane }: Scene, { pid }: Place): { end(): Record<string, Value> } {
  const parts = {
    apiServer: [plane.pid],
    etcd: [etcd.child.pid],
    ours: pid === null ? [] : [pid],
    others: plane.otherPids,
  }
  const names = Object.keys(parts) as (keyof typeof parts)[]
  for (const each of names.flatMap((name) => parts[name])) resetPeak(each)
  const read = () => {
    const at = performance.now()
    const used = names.map((name) => parts[name].map(usage))
    const sum = (i: number, value: 'cpuSeconds' | 'peakResidentBytes'): number =>
      used[i]!.reduce((all, each) => all + each[value], 0)
    return {
      at,
      cpu: names.map((_, i) => sum(i, 'cpuSeconds')),
      peak: names.map((_, i) => sum(i, 'peakResidentBytes')),
    }
  }
  const first = read()
  let last = first
  const busiest = names.map(() => 0)
  const cores = (from: typeof first, to: typeof first, i: number): number =>
    (to.cpu[i]! - from.cpu[i]!) / ((to.at - from.at) / 1_000)
  const timer = setInterval(() => {
    const now = read()
    for (const i of names.keys()) busiest[i] = Math.max(busiest[i]!, cores(last, now, i))
    last = now
  }, SAMPLE_MS)
  return {
    end() {
      clearInterval(timer)
      const end = read()
      const columns = names.flatMap((name, i) =>
        parts[name].length === 0
          ? []
          : [
              [`${name}Cores`, cores(first, end, i)] as const,
              [`${name}PeakCores`, busiest[i]!] as const,
              [`${name}CpuSeconds`, end.cpu[i]! - first.cpu[i]!] as const,
              [`${name}PeakMb`, end.peak[i]! / 2 ** 20] as const,
            ],
      )
      return { seconds: (end.at - first.at) / 1_000, ...Object.fromEntries(columns) }
    },
  }
}

interface Metrics {
  readonly apiServer: string
  readonly etcd: string
}

async function readMetrics({ plane, etcd }: Scene): Promise<Metrics> {
  const answer = await fetch(`http://127.0.0.1:${etcd.port}/metrics`)
  return { etcd: await answer.text(), apiServer: (await plane.request('GET', '/metrics')).toString() }
}

function latenciesBetween(before: Metrics, after: Metrics): Record<string, Value> {
  const milliseconds = (of: (metrics: Metrics) => ReturnType<typeof bucketsOf>): number | null => {
    const seconds = quantileBetween(of(before), of(after), 0.99)
    return seconds === null ? null : seconds * 1_000
  }
  const isRequest = (labels: string): boolean => !/verb="(WATCH|CONNECT)"/.test(labels)
  return {
    apiServerP99Ms: milliseconds(({ apiServer }) =>
      bucketsOf(apiServer, 'apiserver_request_duration_seconds', isRequest),
    ),
    etcdP99Ms: milliseconds(({ etcd }) => bucketsOf(etcd, 'etcd_server_request_duration_seconds')),
  }
}
