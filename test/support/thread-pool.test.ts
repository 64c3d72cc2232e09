/** Threads for work that might not end: an excessive job fails alone, and nobody waits for it. */
import t, { type Test } from 'tap'
import { systemClock } from '../../src/support/clock.js'
import { type JobCalls, ThreadEndedError, ThreadPool } from '../../src/support/thread-pool.js'

const program = new URL('thread-program.js', import.meta.url)

function pool(t: Test, deadlineMs: number, cpuMs?: () => number) {
  const replaced: string[] = []
  const threads = new ThreadPool({
    program,
    deadlineMs,
    maxHeapMegabytes: 32,
    clock: { ...systemClock, setTimer: heldTimer },
    onReplaced: (reason) => replaced.push(reason),
    ...(cpuMs === undefined ? {} : { cpuMs }),
  })
  t.teardown(() => threads.close())
  const run = (message: readonly unknown[], calls: JobCalls = {}): Promise<unknown> =>
    threads.run({ message: () => message, calls })
  return { threads, run, replaced }
}

/** A server's sockets keep the process alive; here the timer does. */
function heldTimer(delayMs: number, callback: () => void) {
  const handle = setTimeout(callback, delayMs)
  return { cancel: () => clearTimeout(handle) }
}

const LONG_MS = 60_000

void t.test('a thread does one job after the other, and calls back', async (t) => {
  const { threads, run, replaced } = pool(t, LONG_MS)
  t.same(await run(['echo', 1]), [1])
  t.equal(await run(['call', 2], { ask: (value) => Promise.resolve(`asked ${String(value)}`) }), 'asked 2')
  t.equal(threads.size, 1, 'one thread did both')
  t.same(await Promise.all([run(['echo', 3]), run(['echo', 4])]), [[3], [4]])
  t.equal(threads.size, 2, 'two at one time need two')
  t.same(replaced, [])
})

void t.test('state that a job leaves in a thread stays in that thread', async (t) => {
  const { threads } = pool(t, LONG_MS)
  const sizes: number[] = []
  const job = {
    calls: {},
    message: (known: Set<unknown>) => {
      sizes.push(known.size)
      known.add(sizes.length)
      return ['echo']
    },
  }
  await threads.run(job)
  await threads.run(job)
  await Promise.all([threads.run(job), threads.run(job)])
  t.same(sizes, [0, 1, 2, 0], 'the fourth ran in a new thread')
})

void t.test('a job that exceeds a bound ends with its thread, and the next one gets a new thread', async (t) => {
  const rows = [
    ['hang', 'deadline', 500],
    ['fill', 'memory', LONG_MS],
    ['exit', 'crash', LONG_MS],
    ['nonsense', 'crash', LONG_MS],
  ] as const
  for (const [what, reason, deadlineMs] of rows) {
    const { threads, run, replaced } = pool(t, deadlineMs)
    await t.rejects(run([what]), { name: 'ThreadEndedError', reason }, what)
    t.same(replaced, [reason], what)
    t.equal(threads.size, 0, `${what}: the thread is gone`)
    t.same(await run(['echo', what]), [what], `after ${what}`)
  }
})

void t.test('the time that a job waits for the caller does not count', async (t) => {
  const { run } = pool(t, 500)
  const ask = () => new Promise((resolve) => setTimeout(() => resolve('late'), 700))
  t.equal(await run(['call'], { ask }), 'late')
})

void t.test('a thread that gets no processor has longer, and one that hangs without computing ends too', async (t) => {
  let cpuMs = 0
  const { run, replaced } = pool(t, 100, () => cpuMs)
  const began = performance.now()
  const starved = run(['hang'])
  await t.rejects(starved, { name: 'ThreadEndedError', reason: 'deadline' })
  t.ok(performance.now() - began >= 600, 'six times the deadline')
  const { run: runBusy } = pool(t, 100, () => (cpuMs += 60))
  await t.rejects(
    runBusy(['hang']),
    { name: 'ThreadEndedError', reason: 'deadline' },
    'one that computes ends at its deadline',
  )
  t.same(replaced, ['deadline'])
})

void t.test('closing ends jobs and threads', async (t) => {
  const { threads, run, replaced } = pool(t, LONG_MS)
  const hanging = run(['hang'])
  const refused = t.rejects(hanging, { name: 'ThreadEndedError', reason: 'closed' })
  await threads.close()
  await refused
  await t.rejects(run(['echo']), ThreadEndedError, 'nothing begins after that')
  t.equal(threads.size, 0)
  t.same(replaced, [], 'nothing is replaced')
})

void t.test('a thread that cannot be created is one that crashed', async (t) => {
  const threads = new ThreadPool({
    program: new URL('http://localhost/not-a-file'),
    deadlineMs: LONG_MS,
    maxHeapMegabytes: 32,
    clock: systemClock,
    onReplaced: () => {},
  })
  await t.rejects(threads.run({ message: () => [], calls: {} }), { name: 'ThreadEndedError', reason: 'crash' })
  t.equal(threads.size, 0)
})
