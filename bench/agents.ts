/**
 * Question: what does a delivery to a node agent cost? 300 and 1,000 agents, each with one HTTP/2 connection over TLS
 * and four watches in protobuf (`support/agents.ts`), connect to Kubernetes' API server and to ours, on each runtime
 * that npm can install.
 *
 * The writes have a shape (`--shape`): the usual one, and two in which the API server's own baseline matters most. The
 * baseline is the cost of events on a server without watchers, which an API server pays in any case. It is measured
 * after the agents have left, so that the server is warm.
 *
 * All subjects take turns on one etcd, round after round. Each subject is started, watched and ended in every round, so
 * that other load on the machine affects all of them alike. Compare only rows of the same round.
 */
import { startEtcd } from './subjects/etcd.js'
import { agentsOf, type Agents, isShape, type Shape, WATCHES_OF_AGENT } from './support/agents.js'
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
 * The number of agents for which a round of changes takes a second, which causes about half a core's work. With more
 * agents the number of deliveries stays the same.
 */
const RATE_AGENTS = 300
/** How long events go on without agents, in comparison with how long they do with them. */
const BASE_SHARE = 0.5
const WRITE_OBJECTS_MS = 300_000

const usual = ['apiserver', 'distributary', 'distributary@22', 'distributary@24', 'distributary@26', 'distributary@bun']

/** The loads besides the usual shape, and the subjects that they have if none are named. */
const otherShapes: readonly Shape[] = ['even', 'pods']
const usualOfOthers = ['apiserver', 'distributary@24', 'distributary@bun']

export const agents: Question = async (choice) => {
  const counts = choice.watchers.length > 0 ? choice.watchers : choice.quick ? [50] : [300, 1_000]
  const shapes = choice.shapes.map((name) => {
    if (!isShape(name)) throw new Error(`no shape ${name}; there are mixed, even, pods`)
    return name
  })
  const subjectsOf = (names: readonly string[]): Target[] => {
    const subjects = (choice.subjects.length > 0 ? choice.subjects : names).map(
      (name) => `${name.split('/')[0]}/${WIRE}`,
    )
    return targets({ ...choice, subjects }, [])
  }
  if (shapes.length === 0 || shapes.includes('mixed')) {
    for (const count of counts) await measureAll(choice, subjectsOf(usual), count, 'mixed')
  }
  for (const shape of otherShapes.filter((one) => shapes.length === 0 || shapes.includes(one))) {
    await measureAll(choice, subjectsOf(usualOfOthers), counts[0]!, shape)
  }
}

interface Scene {
  readonly workspace: Workspace
  readonly etcd: Awaited<ReturnType<typeof startEtcd>>
  readonly imagined: Agents
  readonly source: EventSource
  readonly classesFile: string
}

async function measureAll(choice: Choice, asked: readonly Target[], count: number, shape: Shape): Promise<void> {
  const workspace = createWorkspace()
  try {
    const imagined = agentsOf(count, shape)
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
    for (let round = 1; round <= (choice.rounds ?? (choice.quick ? 1 : ROUNDS)); round++) {
      for (const target of asked) {
        const row = {
          question: 'agents',
          subject: target.kind.name,
          wire: WIRE,
          ...runtimeOf(target),
          agents: count,
          shape,
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
  const { eventsOfRound } = imagined
  const rate = choice.rates[0] ?? eventsOfRound * Math.min(1, RATE_AGENTS / count)
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
    const { next: first } = await source.run({ rate, count: eventsOfRound, ms: 60_000 })
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
    await sleep(choice.quick ? 200 : 2_000)
    const atRest = usage(subject.pid).cpuSeconds
    const unwatched = await run(seconds * 1000 * BASE_SHARE)
    await sleep(200)
    const baseSeconds = usage(subject.pid).cpuSeconds - atRest
    choice.recorder.row({
      ...row,
      resource: 'agents',
      watches: watchers.count,
      rate,
      openedMs: watchers.openedMs,
      ended,
      cpuMicrosPerDelivery: (spent('server') / report.deliveries) * 1e6,
      cpuMicrosPerEvent: (spent('server') / (ran.next - ran.first)) * 1e6,
      baseMicrosPerEvent: (baseSeconds / (unwatched.next - unwatched.first)) * 1e6,
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
