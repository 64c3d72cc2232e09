/**
 * Question: what does a delivery to a node agent cost? 300 and 1,000 agents, each with one HTTP/2 connection over TLS
 * and four watches in protobuf (`support/agents.ts`), connect to Kubernetes' API server and to ours, on each runtime
 * that npm can install.
 *
 * All subjects take turns on one etcd, round after round. Each subject is started, watched and ended in every round, so
 * that other load on the machine affects all of them alike. Compare only rows of the same round.
 */
import { startEtcd } from './subjects/etcd.js'
import { agentsOf, type Agents, EVENTS_OF_ROUND, WATCHES_OF_AGENT } from './support/agents.js'
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { settled, stretchColumns } from './support/measure.js'
import { pods, writeObjectsFile } from './support/objects.js'
import { endAll, sleep, usage } from './support/processes.js'
import { type EventSource, startWriter, writeAll } from './support/source.js'
import { openWatchers, writeClassesFile } from './support/watchers.js'
import { createWorkspace, type Workspace } from './support/workspace.js'

const WIRE = 'http2-tls'
const ROUNDS = 3
/**
 * Events per second for 300 agents, which cause 8,800 deliveries, about half a core's work. With more agents the number
 * of deliveries stays the same.
 */
const RATE = 40
const RATE_AGENTS = 300
const WRITE_OBJECTS_MS = 300_000

const usual = ['apiserver', 'distributary', 'distributary@22', 'distributary@24', 'distributary@26', 'distributary@bun']

export const agents: Question = async (choice) => {
  const subjects = (choice.subjects.length > 0 ? choice.subjects : usual).map((name) => `${name.split('/')[0]}/${WIRE}`)
  const asked = targets({ ...choice, subjects }, [])
  const counts = choice.watchers.length > 0 ? choice.watchers : choice.quick ? [50] : [300, 1_000]
  for (const count of counts) await measureAll(choice, asked, count)
}

interface Scene {
  readonly workspace: Workspace
  readonly etcd: Awaited<ReturnType<typeof startEtcd>>
  readonly imagined: Agents
  readonly source: EventSource
  readonly classesFile: string
}

async function measureAll(choice: Choice, asked: readonly Target[], count: number): Promise<void> {
  const workspace = createWorkspace()
  try {
    const imagined = agentsOf(count)
    const etcd = await startEtcd(workspace, 'load')
    const [initialFile, changesFile, classesFile] = ['initial', 'changes', 'classes'].map((name) =>
      workspace.path(name),
    )
    writeObjectsFile(initialFile!, imagined.written)
    writeObjectsFile(changesFile!, imagined.changes)
    writeClassesFile(classesFile!, imagined.classes)
    const initial = await startWriter(etcd.port, initialFile!, workspace.path('initial-progress'))
    await writeAll(initial, imagined.written.length, WRITE_OBJECTS_MS)
    await initial.end()
    const source = await startWriter(etcd.port, changesFile!, workspace.path('progress'))
    const scene = { workspace, etcd, imagined, source, classesFile: classesFile! }
    for (let round = 1; round <= (choice.quick ? 1 : ROUNDS); round++) {
      for (const target of asked) {
        const row = {
          question: 'agents',
          subject: target.kind.name,
          wire: WIRE,
          ...runtimeOf(target),
          agents: count,
          round,
        }
        await attempt(choice, row, () => measure(choice, scene, target, count, row))
      }
    }
  } finally {
    await endAll()
    workspace.remove()
  }
}

const runtimeOf = ({ kind, runtime }: Target): { readonly runtime: string } => ({
  runtime: kind.name === 'distributary' ? (runtime?.name ?? `Node ${process.version.slice(1)}`) : 'Go',
})

async function measure(
  choice: Choice,
  { workspace, etcd, imagined, source, classesFile }: Scene,
  { kind, runtime }: Target,
  count: number,
  row: { readonly question: string; readonly subject: string; readonly wire: string },
): Promise<void> {
  const rate = choice.rates[0] ?? Math.min(RATE, (RATE * RATE_AGENTS) / count)
  const seconds = choice.seconds ?? (choice.quick ? 4 : 20)
  const subject = await kind.start({
    workspace,
    wire: WIRE,
    resource: pods,
    etcdPort: etcd.port,
    etcdPid: etcd.child.pid,
    watchers: count * WATCHES_OF_AGENT,
    nodeFlags: choice.nodeFlags,
    serverFlags: choice.serverFlags,
    ...(runtime === undefined ? {} : { runtime }),
    ...(choice.apiServer === undefined ? {} : { apiServer: choice.apiServer }),
  })
  try {
    const before = usage(subject.pid).residentBytes
    const run = (ms: number) => source.run({ rate, count: 1e9, ms })
    const { next: first } = await source.run({ rate, count: EVENTS_OF_ROUND, ms: 60_000 })
    const watchers = await openWatchers(subject.watch({}), {
      connections: count,
      streams: WATCHES_OF_AGENT,
      first,
      classesFile,
      paths: imagined.paths(await etcd.revision()),
    })
    // V8 and JavaScriptCore compile code that has run a few thousand times.
    const warm = await run(choice.quick ? 1_000 : 5_000)
    await watchers.caughtUp(warm.next, 60_000)
    await watchers.mark()
    const parts = { server: subject.pid, client: watchers.child.pid, etcd: etcd.child.pid }
    const [atFirst, begin] = [usagesOf(parts), performance.now()]
    const ran = await run(seconds * 1000)
    const report = await settled(watchers, ran.next, { catchUpMs: 20_000 })
    const atLast = usagesOf(parts)
    const elapsed = (performance.now() - begin) / 1000
    const spent = (name: keyof typeof parts): number => atLast[name].cpuSeconds - atFirst[name].cpuSeconds
    const { event, missing, repeated, strays, ended } = report
    // A watch that the server ended is a valid result, but a fault in a running watch is not.
    if (missing + repeated + strays > 0 || (event === 'late' && ended === 0)) {
      throw new Error(`not every delivery came once: ${JSON.stringify({ event, missing, repeated, strays, ended })}`)
    }
    await watchers.end()
    choice.recorder.row({
      ...row,
      resource: 'agents',
      watches: watchers.count,
      rate,
      openedMs: watchers.openedMs,
      ended,
      cpuMicrosPerDelivery: (spent('server') / report.deliveries) * 1e6,
      clientCores: spent('client') / elapsed,
      etcdCores: spent('etcd') / elapsed,
      residentMbBefore: before / 2 ** 20,
      serverFlags: kind.name === 'distributary' ? choice.serverFlags.join(' ') : '',
      ...stretchColumns({
        run: ran,
        report,
        before: atFirst.server,
        after: atLast.server,
        cpuSeconds: spent('server'),
        seconds: elapsed,
        eventLoopP99Ms: null,
      }),
    })
  } finally {
    await subject.end()
  }
  await sleep(500)
}

function usagesOf<T extends string>(pids: Readonly<Record<T, number>>): Record<T, ReturnType<typeof usage>> {
  return Object.fromEntries(Object.entries<number>(pids).map(([name, pid]) => [name, usage(pid)])) as Record<
    T,
    ReturnType<typeof usage>
  >
}
