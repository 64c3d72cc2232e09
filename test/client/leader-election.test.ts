/**
 * Elections over a real server that stores the Lease: times are real, because the candidates are processes and sockets.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { getEventListeners, once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import {
  fetchTransport,
  LeaderElection,
  type LeaderElectionOptions,
  nodeTransport,
  requestJson,
  type Transport,
} from '../../src/client/index.js'
import { activeClock } from '../../src/client/reflector/active-clock.js'
import { silentLogger } from '../../src/support/log.js'
import { startHttpFaults } from './reflector/http-faults.js'
import { type AppHarness, startApp } from '../support/app.js'
import { until } from '../support/until.js'

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/default/leases/controller'

interface Lease {
  readonly metadata: { readonly resourceVersion: string }
  readonly spec: { readonly holderIdentity: string; readonly leaseTransitions: number; readonly acquireTime: string }
}

const start = (t: Test): Promise<AppHarness> => startApp(t, { flags: ['--enable-writes'] })

function candidate(
  t: Test,
  server: string,
  identity: string,
  options: Partial<LeaderElectionOptions> = {},
): { readonly election: LeaderElection; readonly lease: () => Promise<Lease> } {
  const transport = nodeTransport({ server })
  t.teardown(() => transport.close())
  const times = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 50 }
  const election = new LeaderElection({
    transport,
    name: 'controller',
    namespace: 'default',
    identity,
    ...times,
    ...options,
  })
  return { election, lease: () => requestJson<Lease>(transport, { path: LEASE }) }
}

/** Work that lasts until its signal aborts. */
const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => (signal.aborted ? resolve() : signal.addEventListener('abort', () => resolve())))

void t.test('one of three leads, and each takes over when the previous one releases the lease', async (t) => {
  const app = await start(t)
  const leading: string[] = []
  const leaders: string[] = []
  const stops = new Map<string, AbortController>()
  const year = 31_536_000_000
  const runs = ['a', 'b', 'c'].map((identity, i) => {
    const stop = new AbortController()
    stops.set(identity, stop)
    // Clocks that disagree by years change nothing.
    const clock = { ...activeClock, now: () => Date.now() + (i - 1) * year }
    const { election } = candidate(t, app.url, identity, { clock, onLeader: (leader) => leaders.push(leader) })
    return election.run(
      async (signal) => {
        leading.push(identity)
        t.equal(leading.length, 1, `${identity} leads alone`)
        t.ok(election.isLeader)
        await untilAborted(signal)
        leading.pop()
      },
      { signal: stop.signal },
    )
  })
  const { lease } = candidate(t, app.url, 'reader')
  const order: string[] = []
  while (stops.size > 0) {
    // With a lease of 15 s, only a release explains that the next one leads so soon.
    await until(() => leading.length === 1 && !order.includes(leading[0]!), 'the next leads')
    const [leader = ''] = leading
    t.equal((await lease()).spec.holderIdentity, leader)
    order.push(leader)
    stops.get(leader)?.abort()
    stops.delete(leader)
  }
  t.same(await Promise.all(runs), ['aborted', 'aborted', 'aborted'])
  t.same(order.toSorted(), ['a', 'b', 'c'])
  t.same(new Set(leaders), new Set(['a', 'b', 'c']))
  t.match(await lease(), { spec: { holderIdentity: '', leaseTransitions: 2 } })
})

void t.test('the end of the work ends the election, and its error is thrown; both release the lease', async (t) => {
  const app = await start(t)
  const { election, lease } = candidate(t, app.url, 'a')
  t.equal(await election.run(() => undefined), 'done')
  t.notOk(election.isLeader)
  t.match(await lease(), { spec: { holderIdentity: '' } })
  await t.rejects(
    election.run(() => {
      throw new Error('the work failed')
    }),
    /the work failed/,
  )
  t.match(await lease(), { spec: { holderIdentity: '' } })
  const stop = new AbortController()
  t.equal(await election.run(() => undefined, { signal: stop.signal }), 'done')
  t.same(getEventListeners(stop.signal, 'abort'), [], 'the signal keeps nothing of it')
  stop.abort()
  t.equal(await election.run(() => void t.fail('it was not to begin'), { signal: stop.signal }), 'aborted')
})

void t.test('an onLeader that throws does not cost the leadership, and its error is logged', async (t) => {
  const app = await start(t)
  const errors: unknown[] = []
  const logger = { ...silentLogger, error: (fields: unknown) => void errors.push(fields) }
  // The next attempt would come only minutes later, so the first one has to succeed.
  const times = { leaseDurationMs: 1_000_000, renewDeadlineMs: 900_000, retryPeriodMs: 600_000 }
  const onLeader = (leader: string): never => {
    throw new Error(`cannot report ${leader}`)
  }
  const { election } = candidate(t, app.url, 'a', { ...times, logger, onLeader })
  t.equal(await election.run(() => undefined, { signal: AbortSignal.timeout(20_000) }), 'done')
  t.match(errors, [{ err: { message: 'cannot report a' } }])
})

void t.test('a leader that lost its lease stops at once, and does not release another’s lease', async (t) => {
  const app = await start(t)
  const { election, lease } = candidate(t, app.url, 'a')
  let isLeading = false
  const running = election.run(async (signal) => {
    isLeading = true
    await untilAborted(signal)
    throw new Error('work that was interrupted may fail as it likes')
  })
  await until(() => isLeading, 'it leads')
  const transport = nodeTransport({ server: app.url })
  t.teardown(() => transport.close())
  for (;;) {
    const before = await lease()
    const body = { ...before, spec: { ...before.spec, holderIdentity: 'usurper' } }
    try {
      await requestJson(transport, { method: 'PUT', path: LEASE, body })
      break
    } catch {
      // The leader renewed it in between.
    }
  }
  t.equal(await running, 'lost')
  t.notOk(election.isLeader)
  t.equal(election.leader, 'usurper')
  t.match(await lease(), { spec: { holderIdentity: 'usurper' } })
})

void t.test('a leader tolerates failures up to the renewal deadline, and no longer', async (t) => {
  const app = await start(t)
  const faults = await startHttpFaults(t, app.port)
  const times = { leaseDurationMs: 4_000, renewDeadlineMs: 3_000, retryPeriodMs: 50 }
  const { election } = candidate(t, faults.url, 'a', times)
  let isLeading = false
  const running = election.run(async (signal) => {
    isLeading = true
    await untilAborted(signal)
  })
  await until(() => isLeading, 'it leads')
  let failed = 0
  faults.fault = () => (++failed <= 3 ? { status: 500, body: '{}' } : null)
  const renewals = faults.requests.length
  await until(() => faults.requests.length > renewals + 8, 'it keeps renewing')
  t.ok(isLeading && election.isLeader, 'after three failures')
  faults.fault = () => ({ status: 500, body: '{}' })
  t.equal(await running, 'lost')
})

void t.test('a leader whose credentials or transport hang notices that it lost the lease', async (t) => {
  const app = await start(t)
  const times = { leaseDurationMs: 2_000, renewDeadlineMs: 1_000, retryPeriodMs: 50 }
  let hangs = false
  const orNever = async <R>(result: R): Promise<R> => (hangs ? await new Promise<R>(() => {}) : result)
  const credentials = { current: () => orNever({}), refused: () => undefined }
  const plain = nodeTransport({ server: app.url })
  const withSource = nodeTransport({ server: app.url, credentials })
  t.teardown(() => [plain, withSource].forEach((transport) => transport.close()))
  for (const [what, transport] of Object.entries<Transport>({
    source: withSource,
    token: fetchTransport({ server: app.url, token: () => orNever('x') }),
    transport: { send: async (request) => await plain.send(await orNever(request)) },
  })) {
    hangs = false
    const { election } = candidate(t, app.url, what, { ...times, transport })
    const outcome = await election.run(async (signal) => {
      hangs = true
      await untilAborted(signal)
      t.match(signal.reason, { message: /was lost/ }, what)
    })
    t.equal(outcome, 'lost', what)
  }
})

void t.test('after a suspension, during which the monotonic time stood still, a leader must renew first', async (t) => {
  const app = await start(t)
  let suspendedMs = 0
  const clock = { ...activeClock, now: () => Date.now() + suspendedMs }
  const { election } = candidate(t, app.url, 'a', { clock })
  const outcome = await election.run(async () => {
    t.ok(election.isLeader)
    suspendedMs += 15_000
    t.notOk(election.isLeader)
    await until(() => election.isLeader, 'it has renewed the lease')
    suspendedMs -= 3_600_000
    t.ok(election.isLeader, 'a clock that is set back does not matter')
  })
  t.equal(outcome, 'done')
})

void t.test('one of several candidate processes leads, although leaders are killed and paused', async (t) => {
  const app = await start(t)
  const folder = mkdtempSync(join(tmpdir(), 'distributary-election-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'order')
  writeFileSync(file, '')
  const program = fileURLToPath(new URL('leader-election/candidate.js', import.meta.url))
  const children = new Map<string, ChildProcess>()
  const said = new Map<string, string>()
  for (const identity of ['a', 'b', 'c']) {
    const child = spawn(process.execPath, [program, app.url, identity, file], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    children.set(identity, child)
    child.stdout.on('data', (text: Buffer) => said.set(identity, (said.get(identity) ?? '') + String(text)))
  }
  const order = (): string[] => readFileSync(file, 'utf8').split('\n').filter(Boolean)
  const leader = (): string | undefined => order().at(-1)?.split(' ')[0]
  const nextLeader = async (before: string): Promise<string> => {
    await until(() => ![undefined, before].includes(leader()), `another than ${before} leads`)
    return leader() ?? ''
  }
  const first = await nextLeader('')
  children.get(first)?.kill('SIGKILL')
  const second = await nextLeader(first)
  children.get(second)?.kill('SIGSTOP')
  const third = await nextLeader(second)
  children.get(second)?.kill('SIGCONT')
  await until(() => said.get(second)?.startsWith('lost') === true, 'the paused one finds out')
  const { length } = order()
  await until(() => order().length > length + 20, 'the third keeps working')
  // On a busy machine the third may lose the lease, too.
  const turns = order().filter((run, i, all) => run !== all[i - 1])
  t.equal(new Set(turns).size, turns.length, `nobody acted after its time: ${turns.join()}`)
  const exited = once(children.get(third)!, 'exit')
  children.get(third)?.kill('SIGTERM')
  t.same(await exited, [0, null])
  t.equal(await nextLeader(third), second, 'a candidate that lost may lead again')
})

void t.test('inconsistent times are rejected', (t) => {
  const transport = nodeTransport({ server: 'http://127.0.0.1:1' })
  const base = { transport, name: 'x', namespace: 'default', identity: 'a' }
  for (const [options, message] of [
    [{ identity: '' }, /identity are required/],
    [{ leaseDurationMs: 500 }, /multiple of 1,000/],
    [{ leaseDurationMs: 15_500 }, /multiple of 1,000/],
    [{ leaseDurationMs: Number.NaN }, /multiple of 1,000/],
    [{ renewDeadlineMs: 15_000 }, /below leaseDurationMs/],
    [{ retryPeriodMs: 9_000 }, /below renewDeadlineMs/],
    [{ retryPeriodMs: 0 }, /above 0/],
  ] as const) {
    t.throws(() => new LeaderElection({ ...base, ...options }), { message })
  }
  t.doesNotThrow(() => new LeaderElection(base))
  t.end()
})
