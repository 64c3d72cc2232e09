/**
 * Question: what does a whole cluster cost? Each of 1,000 nodes has one HTTP/2 connection over TLS with the watches of
 * its kubelet, its proxy and two agents, in protobuf and JSON, while pods are replaced, endpoint slices follow and
 * nodes report (`support/cluster.ts` has the proportions). Then all nodes are cut off, and reconnect at the same time.
 *
 * A generic API server can serve only the custom resources of this cluster, so the comparison with it uses only these
 * on both servers.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { type Cluster, clusterKinds, clusterOf, type ClusterPart } from './support/cluster.js'
import { measureStretch, settled, type Stretch, stretchColumns } from './support/measure.js'
import { writeObjectsFile } from './support/objects.js'
import { resetPeak, sleep, usage } from './support/processes.js'
import type { Value } from './support/record.js'
import { type Scene, withScene } from './support/scene.js'
import { type EventSource, startWriter } from './support/source.js'
import { openWatchers, writeClassesFile, type Watchers, type WatchersOptions } from './support/watchers.js'

const NODES = 1_000
const QUICK_NODES = 50
/**
 * Events per second for a thousand nodes. Smaller clusters get the same rate, so that there are enough events to
 * measure.
 */
const RATE = 100
const WARM_ROUNDS = 3
const MISSED_ROUNDS = 5

const parts: readonly (readonly [target: string, part: ClusterPart])[] = [
  ['distributary/http2-tls', 'everything'],
  ['distributary/http2-tls', 'custom resources'],
  ['apiserver/http2x20-tls', 'custom resources'],
]

export const cluster: Question = async (choice) => {
  const nodes = choice.nodes ?? (choice.quick ? QUICK_NODES : NODES)
  for (const [name, part] of parts) {
    const isAsked = choice.subjects.length === 0 || choice.subjects.some((one) => name.startsWith(one))
    for (const target of isAsked ? targets({ ...choice, subjects: [] }, [name]) : []) {
      const row = {
        question: 'cluster',
        subject: target.kind.name,
        wire: 'http2-tls',
        resource: 'cluster',
        part,
        nodes,
      }
      await attempt(choice, row, () => one(choice, target, part, nodes))
    }
  }
}

async function one(choice: Choice, target: Target, part: ClusterPart, nodes: number): Promise<void> {
  const imagined = clusterOf(nodes, part)
  const { written, resources, eventsOfRound } = imagined
  const isOurs = target.kind.name === 'distributary'
  const most = `${nodes * 25 + 1_000}`
  const serverFlags = [
    ...choice.serverFlags,
    '--resource=secrets',
    `--max-watchers=${most}`,
    `--max-watchers-per-client=${most}`,
  ]
  const watches = imagined.paths(0).length
  const options = { ...choice, ...target, serverFlags, watchers: nodes * watches, objects: { written, resources } }
  await withScene({ ...options, resource: resources[0]! }, async (scene) => {
    const { subject, revision } = scene
    // A round takes the same time, however few of its events are used.
    const rate = (choice.rates[0] ?? Math.max(RATE, (RATE * nodes) / NODES)) * (eventsOfRound / 100)
    const rounds = Math.max(2, Math.round(((choice.seconds ?? (choice.quick ? 5 : 60)) * rate) / eventsOfRound))
    const churn = await startChurn(scene, imagined, nodes, rate)
    await sleep(choice.quick ? 500 : 3_000)
    const before = usage(subject.pid).residentBytes
    const watchers = await churn.open(revision, 0)
    await sleep(choice.quick ? 500 : 5_000)
    const idle = usage(subject.pid).residentBytes
    const warm = await churn.source.run(churn.rounds(WARM_ROUNDS))
    await watchers.caughtUp(warm.next, 60_000)
    const stretch = await measureStretch({
      subject,
      source: churn.source,
      watchers,
      run: churn.rounds(rounds),
      deletions: (WARM_ROUNDS + rounds) * imagined.deletions,
    })
    const back = await reconnect(scene, imagined, churn, watchers, stretch.run.next)
    const roundsASecond = rate / eventsOfRound
    choice.recorder.row({
      question: 'cluster',
      subject: subject.name,
      wire: 'http2-tls',
      resource: 'cluster',
      part,
      nodes,
      watches: nodes * watches,
      objects: written.length,
      rate,
      ownPerSecond: imagined.ownDeliveries * roundsASecond,
      sharedPerSecond: imagined.sharedDeliveries * roundsASecond,
      openedMs: watchers.openedMs,
      residentMbBefore: before / 2 ** 20,
      kbPerNode: (idle - before) / 1024 / nodes,
      serverFlags: isOurs ? choice.serverFlags.join(' ') : '',
      ...stretchColumns(stretch),
      cpuMicrosPerDelivery: (stretch.cpuSeconds / stretch.report.deliveries) * 1e6,
      ...kindColumns(stretch),
      ...back,
    })
  })
}

interface Churn {
  readonly source: EventSource
  rounds(count: number): { readonly rate: number; readonly count: number; readonly ms: number; readonly concurrency: 1 }
  /** Opens every node's watches. */
  open(afterRevision: number, first: number, more?: Partial<WatchersOptions>): Promise<Watchers>
}

async function startChurn(
  { workspace, etcd, subject }: Scene,
  imagined: Cluster,
  nodes: number,
  rate: number,
): Promise<Churn> {
  if (etcd === null || subject.port === undefined) throw new Error(`${subject.name} serves no cluster`)
  const [objectsFile, classesFile] = [workspace.path('changes'), workspace.path('classes')]
  writeObjectsFile(objectsFile, imagined.changes)
  writeClassesFile(classesFile, imagined.classes)
  const { port } = subject
  const streams = imagined.paths(0).length
  return {
    source: await startWriter(etcd.port, objectsFile, workspace.path('churn-progress')),
    // One at a time, so that a deletion does not overtake the change before it.
    rounds: (count) => ({ rate, count: count * imagined.eventsOfRound, ms: 600_000, concurrency: 1 }),
    open: (afterRevision, first, more = {}) =>
      openWatchers(
        { port, path: '/', tls: true, http2: true },
        {
          connections: nodes,
          retries: 10 * nodes,
          streams,
          first,
          classesFile,
          paths: imagined.paths(afterRevision),
          ...more,
        },
      ),
  }
}

/** Cuts off all nodes for some rounds, and lets them reconnect at the same time while changes continue. */
async function reconnect(
  { subject, etcd }: Scene,
  imagined: Cluster,
  churn: Churn,
  watchers: Watchers,
  next: number,
): Promise<Record<string, Value>> {
  const revision = (await etcd?.revision()) ?? 0
  await watchers.end()
  const away = await churn.source.run(churn.rounds(MISSED_ROUNDS))
  await sleep(500)
  resetPeak(subject.pid)
  const before = usage(subject.pid)
  const begin = performance.now()
  const running = churn.source.run(churn.rounds(MISSED_ROUNDS))
  const back = await churn.open(revision, next, { burst: watchers.count })
  const level = await back.caughtUp(away.next, 120_000)
  const levelMs = performance.now() - begin
  const run = await running
  const report = await settled(back, run.next, { deletions: 2 * MISSED_ROUNDS * imagined.deletions })
  const after = usage(subject.pid)
  const { event, missing, strays } = report
  if (level.event === 'late' || event === 'late' || missing + strays > 0) {
    throw new Error(
      `not every node came back to what it missed: ${JSON.stringify({ level: level.event, event, missing, strays })}`,
    )
  }
  return {
    missedEvents: away.next - away.first,
    reopenedMs: back.openedMs,
    levelMs,
    connectedAgain: back.retried,
    hadToRelist: report.ended,
    reconnectCpuSeconds: after.cpuSeconds - before.cpuSeconds,
    reconnectPeakMb: after.peakResidentBytes / 2 ** 20,
    reconnectPeakAboveMb: (after.peakResidentBytes - before.residentBytes) / 2 ** 20,
  }
}

function kindColumns({ report }: Stretch): Record<string, Value> {
  return Object.fromEntries(
    clusterKinds.flatMap((kind) => {
      const delays = report.kinds[kind]
      return delays === undefined || delays.count === 0
        ? []
        : [
            [`${kind}P50Ms`, delays.p50],
            [`${kind}P99Ms`, delays.p99],
          ]
    }),
  )
}
