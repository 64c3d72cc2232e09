/**
 * Question: what does a delivery cost in etcd's own protocol, and what does etcd itself save? All watchers watch one
 * prefix over gRPC, each on a connection of its own: at etcd, at its grpc-proxy and at our server, on each runtime.
 * Before the watchers of etcd come, the same events are written without any, to know what the writes alone cost it.
 *
 * Where Kubernetes' API server is built, the question also compares what two of them cost etcd, directly and behind us.
 */
import { mkdirSync } from 'node:fs'
import { freePort } from '../test/support/free-port.js'
import { ask, type Server, serverAt } from '../test/reference/ask.js'
import { ADMIN, apiServerFlags, writeCredentials } from '../test/reference/control-plane.js'
import { distributarySubject, startDistributary } from './subjects/distributary.js'
import { startEtcd } from './subjects/etcd.js'
import { awaitOkOverTls } from './subjects/subject.js'
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { type BenchResource, benchObjects, pods, writeObjectsFile } from './support/objects.js'
import { endAll, sleep, start, usage } from './support/processes.js'
import { withScene } from './support/scene.js'
import { type RunOptions, startWriter, writeAll } from './support/source.js'
import { createWorkspace } from './support/workspace.js'
import { servedFlags } from '../test/etcd-api/support/served-flags.js'

const QUESTION = 'etcd-api'

/** The prefix cannot be one of Kubernetes' own, because only declared ones are served in etcd's protocol. */
export const values: BenchResource = { ...pods, name: 'values', prefix: '/bench/values/' }
const SERVED = [`--resource=${values.name}=${values.prefix}`, `--etcd-api=${values.name}`]

/** As in `fanout`, whose rows are comparable. */
const WINDOW = 200

/** Bun's plain port has no HTTP/2. */
const usual = [
  'etcd/grpc',
  'etcd/grpc-tls',
  'grpc-proxy/grpc',
  'grpc-proxy/grpc-tls',
  'distributary/grpc',
  'distributary/grpc-tls',
  'distributary@24/grpc',
  'distributary@24/grpc-tls',
  'distributary@bun/grpc-tls',
]

const API_SERVERS = 'api-servers'

export const etcdApi: Question = async (choice) => {
  const subjects = choice.subjects.filter((name) => name !== API_SERVERS)
  const hasSubjects = choice.subjects.length === 0 || subjects.length > 0
  const counts = choice.watchers.length > 0 ? choice.watchers : choice.quick ? [50] : [1_000]
  const rates = choice.rates.length > 0 ? choice.rates : [20, 0]
  for (const watchers of hasSubjects ? counts : []) {
    for (const rate of rates) {
      for (const target of targets({ ...choice, subjects }, usual)) {
        const row = { question: QUESTION, subject: target.kind.name, wire: target.wire, watchers, rate }
        await attempt(choice, row, () => deliveries(choice, target, watchers, rate))
      }
    }
  }
  if (choice.subjects.length > 0 && !choice.subjects.includes(API_SERVERS)) return
  const { apiServer } = choice
  if (apiServer === undefined) {
    process.stderr.write(
      'bench: without an API server, which --peers reference builds, there are no rows for two of them\n',
    )
    return
  }
  for (const isBehindUs of [false, true]) {
    const row = { question: QUESTION, subject: isBehindUs ? 'distributary' : 'etcd', wire: API_SERVERS }
    await attempt(choice, row, () => apiServers(choice, apiServer, isBehindUs, row))
  }
}

async function deliveries(choice: Choice, target: Target, watchers: number, rate: number): Promise<void> {
  const seconds = choice.seconds ?? (choice.quick ? 2 : 10)
  const serverFlags = [...SERVED, ...choice.serverFlags]
  const objects = { count: 100, nodes: 100, bytes: 1024 }
  await withScene(
    { ...choice, ...target, serverFlags, resource: values, watchers, objects },
    async ({ subject, source, openWatchers, etcd, nextSequence }) => {
      const etcdPid = etcd!.child.pid
      const run: RunOptions = { rate, count: 1e9, ms: seconds * 1000, window: WINDOW, watchers }
      let first = nextSequence
      let alone: number | null = null
      if (target.kind.etcd === 'subject' && rate > 0) {
        const before = usage(etcdPid).cpuSeconds
        const { next } = await source.run(run)
        alone = ((usage(etcdPid).cpuSeconds - before) / (next - first)) * 1e6
        first = next
      }
      // Like any client, a watcher whose connection was refused tries again, and is counted.
      const opened = await openWatchers(
        { first, retries: watchers },
        subject.watch({ afterRevision: await etcd!.revision() }),
      )
      const warm = await source.run({ ...run, ms: choice.quick ? 500 : 2_000 })
      await opened.caughtUp(warm.next, 60_000)
      await sleep(200)
      const etcdBefore = usage(etcdPid).cpuSeconds
      const stretch = await measureStretch({ subject, source, watchers: opened, run })
      const etcdCpuSeconds = usage(etcdPid).cpuSeconds - etcdBefore
      choice.recorder.row({
        question: QUESTION,
        subject: subject.name,
        wire: subject.wire,
        resource: values.name,
        watchers: opened.count,
        load: rate > 0 ? 'paced' : 'saturated',
        rate,
        serverFlags: target.kind.name === distributarySubject.name ? choice.serverFlags.join(' ') : '',
        openedMs: opened.openedMs,
        retried: opened.retried,
        etcdCpuMicrosPerEvent: (etcdCpuSeconds / (stretch.run.next - stretch.run.first)) * 1e6,
        etcdCpuMicrosPerEventAlone: alone,
        ...stretchColumns(stretch),
      })
    },
  )
}

/** The prefix of the API servers. */
const ROOT = '/k2/'
/** Events per second of one resource that both API servers watch. */
const RATE = 100
const READY_MS = 180_000
const CAUGHT_UP_MS = 60_000

async function apiServers(
  choice: Choice,
  program: string,
  isBehindUs: boolean,
  row: { readonly question: string; readonly subject: string; readonly wire: string },
): Promise<void> {
  const seconds = choice.seconds ?? (choice.quick ? 5 : 20)
  const rate = choice.rates.find((each) => each > 0) ?? RATE
  const workspace = createWorkspace()
  try {
    const etcd = await startEtcd(workspace, 'both')
    const objects = benchObjects({ ...pods, prefix: `${ROOT}pods/` }, { count: 100, nodes: 100, bytes: 1024 })
    const file = workspace.path('objects')
    writeObjectsFile(file, objects)
    const source = await startWriter(etcd.port, file, workspace.path('progress'))
    await writeAll(source, objects.length, 60_000)
    const ours = isBehindUs ? await startOurs(choice, workspace, etcd.port) : null
    const port = ours?.plainPort ?? etcd.port
    // Our own resources are watched even without API servers.
    const ownWatchers = await watchersOf(etcd.port)
    const servers = [await startApiServer(1, port), await startApiServer(2, port)]
    const warm = await source.run({ rate, count: 1e9, ms: 2_000 })
    await allHave(servers, await etcd.revision())
    const pids = [etcd.child.pid, ours?.child.pid ?? 0, ...servers.map(({ pid }) => pid)]
    const cpu = (): number[] => pids.map((pid) => (pid === 0 ? 0 : usage(pid).cpuSeconds))
    const [before, began] = [cpu(), performance.now()]
    const ran = await source.run({ rate, count: 1e9, ms: seconds * 1000 })
    await allHave(servers, await etcd.revision())
    const elapsed = (performance.now() - began) / 1000
    const [etcdCpu, ourCpu, ...theirCpu] = cpu().map((after, i) => after - before[i]!)
    choice.recorder.row({
      ...row,
      apiServers: servers.length,
      rate,
      seconds: elapsed,
      events: ran.next - warm.next,
      etcdCores: etcdCpu! / elapsed,
      etcdWatchers: (await watchersOf(etcd.port)) - ownWatchers,
      ownWatchers,
      serverCores: isBehindUs ? ourCpu! / elapsed : null,
      apiServerCores: theirCpu.reduce((sum, one) => sum + one, 0) / elapsed,
    })
  } finally {
    await endAll()
    workspace.remove()
  }

  async function startApiServer(number: number, etcdPort: number): Promise<{ server: Server; pid: number }> {
    const folder = workspace.path(`api-server-${number}`)
    mkdirSync(folder)
    writeCredentials(folder)
    const port = await freePort()
    const child = start('apiserver', 'both', [
      program,
      ...apiServerFlags({ etcdUrl: `http://127.0.0.1:${etcdPort}`, port, folder }),
      `--etcd-prefix=${ROOT.slice(0, -1)}`,
    ])
    const url = `https://127.0.0.1:${port}`
    await awaitOkOverTls(child, `${url}/readyz`, READY_MS, { Authorization: `Bearer ${ADMIN}` })
    return { server: serverAt('theirs', url, ADMIN), pid: child.pid }
  }
}

function startOurs(choice: Choice, workspace: ReturnType<typeof createWorkspace>, etcdPort: number) {
  return startDistributary({
    workspace,
    wire: 'grpc',
    core: 'both',
    nodeFlags: choice.nodeFlags,
    serverFlags: [...servedFlags(`http://127.0.0.1:${etcdPort}`, 'k2'), ...choice.serverFlags],
  })
}

/** Waits until the watch cache of each API server has the newest pod, whose revision is at most this one. */
async function allHave(servers: readonly { readonly server: Server }[], revision: number): Promise<void> {
  const deadline = performance.now() + CAUGHT_UP_MS
  for (const { server } of servers) {
    const path = `/api/v1/pods?limit=1&resourceVersionMatch=NotOlderThan&resourceVersion=${revision}`
    for (;;) {
      const { code, body } = await ask(server, { method: 'GET', path, headers: {} })
      if (code === 200) break
      if (performance.now() > deadline) throw new Error(`an API server stays behind: ${code} ${body.toString()}`)
      await sleep(100)
    }
  }
}

async function watchersOf(etcdPort: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${etcdPort}/metrics`)).text()
  return Number(/^etcd_debugging_mvcc_watcher_total (\S+)/m.exec(text)?.[1] ?? Number.NaN)
}
