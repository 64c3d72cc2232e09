/**
 * Question: what does the hop over NATS cost? One publisher and four edges, each in its own process, use one
 * nats-server, and then three servers that all hold every stream. It measures the delay that the hop adds, the CPU time
 * of publisher, NATS and edge for each event and at rest, the bytes that NATS sends, the maximum rate, and the time
 * until a new edge is ready.
 *
 * The publisher takes a snapshot about every 10,000 messages, and a snapshot costs as much as thousands of events. So
 * the cost of an event is measured right after a snapshot, when no other is due. After that, the bench measures the
 * cost of a snapshot and its effect on the delay.
 *
 * The publisher and the edges use the server's core. NATS, etcd, the writer and the watchers use the other core. CPU
 * time is measured per process, so it does not depend on which processes share a core. The maximum rate does depend on
 * that, so it is a lower bound.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { freePort } from '../test/support/free-port.js'
import { natsBinary, startNats, startNatsCluster } from '../test/support/nats-process.js'
import { distributarySubject } from './subjects/distributary.js'
import { resourceWatch } from './subjects/kubernetes-watch.js'
import { awaitOk, type Subject } from './subjects/subject.js'
import { attempt, type Choice, type Question } from './support/choice.js'
import { measureStretch, type Stretch } from './support/measure.js'
import { sleep, start, usage } from './support/processes.js'
import { type Scene, withScene } from './support/scene.js'
import type { EventSource, RunOptions } from './support/source.js'
import type { Watchers } from './support/watchers.js'

const EDGES = 4
const RATE = 200
const WATCHERS = 20
const OBJECT_BYTES = 1_024
const READY_MS = 180_000
const WARM_UP_EVENTS = 1_000
/**
 * A snapshot is due after 10,000 messages, which may carry several events each, or after as many bytes as the last
 * snapshot had.
 */
const EVENTS_UNTIL_SNAPSHOT = 60_000
/** Long enough for a snapshot to become due at this rate. */
const SNAPSHOT_STRETCH_MS = 60_000
const WIRE = 'http1'

const program = fileURLToPath(new URL('../src/main.js', import.meta.url))

export const nats: Question = async (choice) => {
  for (const servers of choice.quick ? [1] : [1, 3]) {
    await attempt(choice, { question: 'nats', subject: 'distributary', wire: WIRE }, () => overNats(choice, servers))
  }
}

interface Broker {
  readonly pids: readonly number[]
  /** The flags of all replicas. */
  readonly flags: readonly string[]
  /** The total number of bytes that the broker has sent. */
  sentBytes(): Promise<number>
}

async function overNats(choice: Choice, servers: number): Promise<void> {
  const teardowns: (() => unknown)[] = []
  const t = { teardown: (work: () => unknown) => void teardowns.push(work) }
  try {
    // The stream and the bucket of each resource reserve the space for the most that they may hold.
    const options = { maxFile: '8GB' }
    const processes =
      servers === 1 ? [await startNats(t as never, options)] : await startNatsCluster(t as never, options)
    for (const { pid } of processes) execFileSync('taskset', ['-acp', '1', String(pid)], { stdio: 'ignore' })
    const broker: Broker = {
      pids: processes.map(({ pid }) => pid),
      flags: [
        `--nats-servers=${processes.map(({ url }) => url).join(',')}`,
        `--nats-replicas=${servers}`,
        '--nats-stream-bytes=64MiB',
      ],
      sentBytes: async () => sum(await Promise.all(processes.map((one) => one.varz('out_bytes')))),
    }
    const objects = { count: choice.quick ? 1_000 : 50_000, nodes: 100, bytes: OBJECT_BYTES }
    const publisher = { serverFlags: [...choice.serverFlags, ...broker.flags, '--nats-role=auto'] }
    const scene = { ...choice, ...publisher, kind: distributarySubject, wire: WIRE, watchers: WATCHERS, objects }
    const figures = await withScene(scene, (opened) => measure(choice, opened, broker))
    const who = { question: 'nats', subject: 'distributary', wire: WIRE }
    const natsVersion = execFileSync(natsBinary, ['--version'], { encoding: 'utf8' }).trim()
    choice.recorder.row({
      ...who,
      natsVersion,
      servers,
      edges: EDGES,
      objects: objects.count,
      bytes: OBJECT_BYTES,
      ...figures,
    })
  } finally {
    for (const work of teardowns.reverse()) await work()
  }
}

interface Edge {
  readonly subject: Subject
  /** The time from the start of the process until it was ready with all objects. */
  readonly readyMs: number
}

async function startEdge({ resource }: Choice, { flags }: Broker): Promise<Edge> {
  const port = await freePort()
  const begin = performance.now()
  const own = [
    `--port=${port}`,
    '--log-level=warn',
    '--nats-role=edge',
    '--shutdown-watch-termination-grace-period=0ms',
  ]
  const child = start('edge', 'server', [process.execPath, program, ...own, ...flags])
  await awaitOk(child, `http://127.0.0.1:${port}/readyz`, READY_MS)
  const subject: Subject = {
    name: 'edge',
    wire: WIRE,
    pid: child.pid,
    streams: 1,
    watch: (query) => resourceWatch({ port, wire: WIRE, resource }, query),
    metricsUrl: `http://127.0.0.1:${port}/metrics`,
    end: () => child.end(),
  }
  return { subject, readyMs: performance.now() - begin }
}

/** A period of the run, and its cost to each process. */
interface Priced {
  readonly stretch: Stretch
  readonly events: number
  /** CPU seconds. */
  readonly cpu: Cpu
  readonly sentBytes: number
  /** The number of snapshots that the publisher made in this period. */
  readonly snapshots: number
}

async function measure(choice: Choice, scene: Scene, broker: Broker): Promise<Record<string, number>> {
  const { subject: publisher, source, etcd } = scene
  const seconds = choice.seconds ?? (choice.quick ? 2 : 20)
  const edges: Edge[] = []
  for (let i = 0; i < EDGES; i++) edges.push(await startEdge(choice, broker))
  const [watched, quiet] = edges as [Edge, Edge]
  const pids = { publisher: [publisher.pid], edge: [quiet.subject.pid], nats: broker.pids, etcd: [etcd!.child.pid] }
  let next = scene.nextSequence
  const price = async (subject: Subject, watchers: Watchers, run: RunOptions): Promise<Priced> => {
    const madeBefore = await snapshotsMade(publisher)
    const [before, sentBefore] = [cpuOf(pids), await broker.sentBytes()]
    const stretch = await measureStretch({ subject, source, watchers, run, catchUpMs: READY_MS })
    const [cpu, sent] = [less(cpuOf(pids), before), await broker.sentBytes()]
    next = stretch.run.next
    const snapshots = (await snapshotsMade(publisher)) - madeBefore
    return { stretch, events: next - stretch.run.first, cpu, sentBytes: sent - sentBefore, snapshots }
  }
  const over = async (subject: Subject, runs: readonly RunOptions[]): Promise<Priced[]> => {
    const request = subject.watch({ afterRevision: await etcd!.revision() })
    const watchers = await scene.openWatchers({ first: next }, request)
    // Before the measurement, V8 must have compiled the code in use.
    await watchers.caughtUp(await warmUp(source, publisher, choice.quick), READY_MS)
    const priced: Priced[] = []
    for (const run of runs) priced.push(await price(subject, watchers, run))
    await watchers.end()
    return priced
  }
  const paced = { rate: RATE, count: 1e9, ms: seconds * 1_000 }
  const [direct] = (await over(publisher, [paced])) as [Priced]
  const before = cpuOf(pids)
  await sleep(seconds * 500)
  const idle = less(cpuOf(pids), before)
  const untilSnapshot = { ...paced, ms: choice.quick ? 1_000 : SNAPSHOT_STRETCH_MS }
  const saturated = { rate: 0, count: choice.quick ? 1_000 : 30_000, ms: 60_000 }
  const [hop, withSnapshot, full] = (await over(watched.subject, [paced, untilSnapshot, saturated])) as [
    Priced,
    Priced,
    Priced,
  ]
  const fresh = await startEdge(choice, broker)
  const idleCores = (who: string): number => idle[who]! / (seconds / 2)
  const aboveIdle = (who: string, { cpu, stretch }: Priced): number => cpu[who]! - idleCores(who) * stretch.seconds
  const micros = (who: string): number => (aboveIdle(who, hop) * 1e6) / hop.events
  // The cost of a snapshot is not reported for NATS and etcd, because the cost of the events in that minute varies so
  // much that the result was negative with one server.
  const eventsSeconds = (micros('publisher') * withSnapshot.events) / 1e6
  const snapshotSeconds = (aboveIdle('publisher', withSnapshot) - eventsSeconds) / withSnapshot.snapshots
  const residentMb = (ids: readonly number[]): number => sum(ids.map((pid) => usage(pid).residentBytes)) / 2 ** 20
  return {
    rate: RATE,
    directP50Ms: direct.stretch.report.delayMs.p50,
    directP99Ms: direct.stretch.report.delayMs.p99,
    p50Ms: hop.stretch.report.delayMs.p50,
    p99Ms: hop.stretch.report.delayMs.p99,
    maxMs: hop.stretch.report.delayMs.max,
    publisherMicrosPerEvent: micros('publisher'),
    edgeMicrosPerEvent: micros('edge'),
    natsMicrosPerEvent: micros('nats'),
    etcdMicrosPerEvent: micros('etcd'),
    publisherIdleCores: idleCores('publisher'),
    edgeIdleCores: idleCores('edge'),
    natsIdleCores: idleCores('nats'),
    natsBytesPerEventAndEdge: hop.sentBytes / hop.events / EDGES,
    ...(withSnapshot.snapshots > 0 && {
      publisherSecondsPerSnapshot: snapshotSeconds,
      snapshotP99Ms: withSnapshot.stretch.report.delayMs.p99,
      snapshotMaxMs: withSnapshot.stretch.report.delayMs.max,
    }),
    carriedPerSecond: full.events / full.stretch.seconds,
    edgeReadyMs: fresh.readyMs,
    edgeResidentMb: residentMb([fresh.subject.pid]),
    publisherResidentMb: residentMb([publisher.pid]),
    natsResidentMb: residentMb(broker.pids),
  }
}

/** Writes events until the publisher has made a snapshot, so that no other is due soon. Returns the next sequence. */
async function warmUp(source: EventSource, publisher: Subject, isQuick: boolean): Promise<number> {
  if (isQuick) return (await source.run({ rate: 1_000, count: 200, ms: 60_000 })).next
  const made = await snapshotsMade(publisher)
  for (let events = 0; events < EVENTS_UNTIL_SNAPSHOT; events += WARM_UP_EVENTS) {
    const { next } = await source.run({ rate: 1_000, count: WARM_UP_EVENTS, ms: 60_000 })
    if ((await snapshotsMade(publisher)) > made) return next
  }
  throw new Error(`no snapshot was made in ${EVENTS_UNTIL_SNAPSHOT} events`)
}

async function snapshotsMade({ metricsUrl }: Subject): Promise<number> {
  const text = await fetch(metricsUrl as string).then((answer) => answer.text())
  const counts = text.matchAll(/^distributary_fleet_snapshots_made_total(?:\{[^}]*\})? (\S+)/gm)
  return sum([...counts].map(([, count]) => Number(count)))
}

type Cpu = Readonly<Record<string, number>>

/** Returns the CPU seconds used so far, by kind of process. */
function cpuOf(pids: Readonly<Record<string, readonly number[]>>): Cpu {
  return Object.fromEntries(
    Object.entries(pids).map(([name, ids]) => [name, sum(ids.map((pid) => usage(pid).cpuSeconds))]),
  )
}

function less(after: Cpu, before: Cpu): Cpu {
  return Object.fromEntries(Object.entries(after).map(([name, cpu]) => [name, cpu - before[name]!]))
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}
