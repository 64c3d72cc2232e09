/** Limits that apply to all workers together, between a primary and its workers on real sockets. */
import t from 'tap'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { FairSemaphore } from '../../../src/server/limits/fair-semaphore.js'
import { IdentityRateLimits } from '../../../src/server/limits/identity-rate-limits.js'
import type { IdentitySemaphore, Rates } from '../../../src/engine/model/shared-limits.js'
import { BusyError } from '../../../src/engine/model/errors.js'
import { systemClock } from '../../../src/support/clock.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'
import { countedLimits, primaryHarness, type TestWorker } from '../workers-harness.js'

/** The semaphore of a worker with a local share of `slots`. */
function semaphoreOf({ channel }: TestWorker, slots = 1): IdentitySemaphore {
  const own = new FairSemaphore({
    slots,
    maxSlotsPerIdentity: slots,
    maxWaiting: 0,
    maxWaitingPerIdentity: 0,
    maxWaitMs: 0,
    clock: systemClock,
    onRejected: () => {},
  })
  return channel.limits.semaphore('watchers', own)
}

void t.test('slots are counted over all workers, and a released one goes to any of them', async (t) => {
  const limits = countedLimits({ slots: 3 })
  const h = primaryHarness(t, { limits })
  const semaphores = [semaphoreOf(await h.worker()), semaphoreOf(await h.worker())] as const
  const held = [await semaphores[0].acquire('a'), await semaphores[0].acquire('a'), await semaphores[0].acquire('a')]
  t.equal(limits.semaphores.watchers.running, 3, 'one worker may have all of them')
  t.equal(semaphores[0].running, 3)
  const waiting = semaphores[1].acquire('b')
  const alsoWaiting = semaphores[1].acquire('b')
  await t.rejects(semaphores[1].acquire('b'), { name: 'BusyError', message: /too many/ }, "the primary's refusal")
  held[0]!()
  held[0]!()
  const leave = await waiting
  t.equal(limits.semaphores.watchers.running, 3, 'giving back twice frees one slot')
  leave()
  await alsoWaiting
  t.equal(semaphores[1].running, 1)
})

void t.test(
  'a client that stops waiting leaves the queue, and a slot granted in the meantime is released',
  async (t) => {
    const limits = countedLimits({ slots: 1 })
    const h = primaryHarness(t, { limits })
    const semaphore = semaphoreOf(await h.worker())
    const leave = await semaphore.acquire('a')
    const controller = new AbortController()
    const waiting = semaphore.acquire('b', controller.signal)
    await until(() => (limits.semaphores.watchers as FairSemaphore).waiting === 1, 'the second waits')
    controller.abort(new Error('gone'))
    await t.rejects(waiting, { message: 'gone' })
    await until(() => (limits.semaphores.watchers as FairSemaphore).waiting === 0, 'nobody waits')
    leave()
    await until(() => limits.semaphores.watchers.running === 0, 'nobody is in')
    await t.rejects(semaphore.acquire('b', AbortSignal.abort(new Error('gone'))), { message: 'gone' })
  },
)

void t.test('everything held by a worker’s clients is released with the worker', async (t) => {
  const limits = countedLimits({ slots: 2 })
  const h = primaryHarness(t, { limits })
  const [first, second] = [await h.worker(), await h.worker()]
  await semaphoreOf(first).acquire('a')
  await semaphoreOf(first).acquire('a')
  const waiting = semaphoreOf(second).acquire('b')
  first.socket.destroy()
  await waiting
  t.equal(limits.semaphores.watchers.running, 1)
})

void t.test(
  'a worker whose primary is silent decides by its share, and reports to the primary afterwards',
  async (t) => {
    const limits = countedLimits({ slots: 4 })
    const h = primaryHarness(t, { limits })
    const clock = new VirtualClock()
    const worker = await h.worker(clock)
    const semaphore = semaphoreOf(worker, 2)
    const before = await semaphore.acquire('a')
    worker.primarySocket.pause()
    const asked = semaphore.acquire('a')
    await until(() => {
      clock.advance(500)
      return semaphore.running === 2
    }, 'the question is decided here')
    const alone = await asked
    await t.rejects(semaphore.acquire('a'), BusyError, 'the share of a worker is used up')
    before()
    const again = await semaphore.acquire('a')
    worker.primarySocket.resume()
    await until(() => limits.semaphores.watchers.running === 2, 'the primary knows what is held')
    alone()
    again()
    await until(() => limits.semaphores.watchers.running === 0, 'and what is not')
  },
)

void t.test('the requests of an identity are counted over all workers', async (t) => {
  const clock = new VirtualClock()
  const limits = countedLimits({ requestsPerSecond: 10, clock })
  const h = primaryHarness(t, { limits })
  const own = new IdentityRateLimits({ clock, requestsPerSecond: () => 5 })
  const workers = [await h.worker(), await h.worker()]
  const rates = workers.map(({ channel }) => channel.limits.rates(own))
  let passed = 0
  const ask = async (i: number): Promise<void> => {
    try {
      await rates[i % 2]!.countRequest('a')
      passed++
    } catch (error) {
      t.match(error, { name: 'BusyError', message: 'too many requests: more than 10 a second' })
    }
  }
  await Promise.all(Array.from({ length: 300 }, async (_, i) => await ask(i)))
  t.equal(passed, 100, 'a burst of ten seconds, to the last one')
  await rates[0]!.countRequest('b')
  t.equal((await rates[1]!.countRequest('b')) ?? 'passed', 'passed', 'others have their own')
  clock.advance(1_000)
  passed = 0
  for (let i = 0; i < 40; i++) await ask(i)
  t.equal(passed, 10, 'then the rate')
})

void t.test('requests granted to one worker in advance are available to the others', async (t) => {
  const clock = new VirtualClock()
  // A worker whose clock jumps hears nothing from its primary in the meantime, and would decide alone.
  const clockOfWorkers = new VirtualClock()
  const limits = countedLimits({ requestsPerSecond: 2, clock })
  const h = primaryHarness(t, { limits })
  const own = new IdentityRateLimits({ clock, requestsPerSecond: () => 1 })
  const workers = [await h.worker(clockOfWorkers), await h.worker(clockOfWorkers)]
  const [first, second] = workers.map(({ channel }) => channel.limits.rates(own)) as [Rates, Rates]
  const passed = async (rates: Rates, requests: number): Promise<number> => {
    let count = 0
    for (let i = 0; i < requests; i++) {
      try {
        await rates.countRequest('a')
        count++
      } catch (error) {
        t.match(error, { name: 'BusyError' })
      }
    }
    return count
  }
  t.equal(await passed(first, 8), 8, 'one after the other, so that each grant is larger than the last')
  t.equal(await passed(second, 20), 12, 'all that is left')
  clock.advance(10_000)
  t.equal(await passed(first, 2), 2, 'the second of which draws more than it needs')
  clock.advance(2_000)
  clockOfWorkers.advance(1_001)
  t.equal((await passed(first, 1)) + (await passed(second, 30)), 20, 'what was not used in time is given back')
})

void t.test('reset requests are counted over all workers, and all suspect the network', async (t) => {
  const limits = countedLimits()
  const h = primaryHarness(t, { limits })
  const [first, second] = [await h.worker(), await h.worker()]
  const refused: string[] = []
  const own = (name: string) => ({
    countOf: () => {},
    suspect: (network: string) => void refused.push(`${name} ${network}`),
  })
  const tell = first.channel.limits.resets(own('first'))
  second.channel.limits.resets(own('second'))
  for (let i = 0; i < 5; i++) tell('192.0.2.1', 1)
  await until(() => limits.resetsOf.get('192.0.2.1') === 5, 'the primary counts them')
  h.primary.suspect('192.0.2.1')
  await until(() => refused.length === 2, 'both workers receive it')
  t.same(refused.sort(), ['first 192.0.2.1', 'second 192.0.2.1'])
})

void t.test('a worker that cannot read its metrics reports that at once, and is left out of the scrape', async (t) => {
  const h = primaryHarness(t)
  const failed: unknown[] = []
  const options = {
    collectMetrics: () => Promise.reject(new Error('no metrics')),
    collectStatus: () => Promise.reject(new Error('no status')),
    onBug: (error: unknown) => void failed.push(error),
  }
  const broken = await h.worker(systemClock, options)
  await h.worker()
  t.equal(await broken.channel.ask('metrics'), 'own')
  t.same(await broken.channel.ask('status'), ['primary', 'own'])
  t.same(
    failed.map((error) => (error as Error).message),
    ['no metrics', 'no status'],
  )
})

void t.test('a worker has at most 256 open requests to the primary; the others wait in the worker', async (t) => {
  const upstream = createEmbeddedUpstream()
  const answers: (() => void)[] = []
  const h = primaryHarness(t, {
    upstream: Object.assign(upstream, {
      currentRevision: () => new Promise((resolve) => answers.push(() => resolve(1))),
    }),
  })
  const { channel } = await h.worker()
  const asked = Array.from({ length: 300 }, () => channel.upstream.currentRevision())
  await until(() => answers.length === 256, 'as many as may be open')
  await new Promise((resolve) => setTimeout(resolve, 50))
  t.equal(answers.length, 256)
  answers[0]!()
  await until(() => answers.length === 257, 'one more for each answer')
  while (answers.length < 300) {
    for (const answer of answers) answer()
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (const answer of answers) answer()
  t.same(new Set(await Promise.all(asked)), new Set([1]))
})
