import t from 'tap'
import { MemoryPressure } from '../../../../src/server/transports/limits/memory-pressure.js'
import { FairSemaphore } from '../../../../src/server/limits/fair-semaphore.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

const MiB = 2 ** 20

function at(t: Tap, residentMiB: number, targetMiB: number | null) {
  const clock = new VirtualClock()
  const seen = { relieved: 0, rejected: 0, resident: residentMiB, isShort: false }
  const collections = { count: 0, collect() {} }
  const bounds = { slots: 2, maxSlotsPerIdentity: 1, maxWaiting: 4, maxWaitingPerIdentity: 2 }
  const pressure = new MemoryPressure({
    turns: new FairSemaphore({ ...bounds, maxWaitMs: 3_000, clock, onRejected: () => seen.rejected++ }),
    targetBytes: targetMiB === null ? null : targetMiB * MiB,
    residentBytes: () => seen.resident * MiB,
    clock,
    relieve: () => seen.relieved++,
    onShort: (isShort) => (seen.isShort = isShort),
    onRejected: () => seen.rejected++,
    collections,
  })
  pressure.start()
  t.teardown(() => pressure.stop())
  clock.advance(1_000)
  return { clock, pressure, seen, collections }
}

type Tap = Pick<typeof t, 'teardown'>

const rows: [resident: number, target: number | null, relieved: number, isRefused: boolean][] = [
  [10, 200, 0, false],
  [170, 200, 0, false],
  [171, 200, 1, false],
  [200, 200, 1, false],
  [201, 200, 1, true],
  [10_000, null, 0, false],
]
for (const [resident, target, relieved, isRefused] of rows) {
  void t.test(`${resident} MiB of ${target ?? 'no target'}`, (t) => {
    const { pressure, seen } = at(t, resident, target)
    t.equal(seen.relieved, relieved, 'caches shrink from 85 %')
    t.equal(seen.isShort, relieved > 0)
    if (isRefused) t.throws(() => pressure.admit(), { code: 429, reason: 'TooManyRequests' })
    else pressure.admit()
    t.equal(seen.rejected, isRefused ? 1 : 0)
    t.end()
  })
}

void t.test('work that takes much memory at once needs room for it', (t) => {
  const { pressure, seen } = at(t, 150, 200)
  pressure.admit(60 * MiB)
  t.throws(() => pressure.admit(61 * MiB), { code: 429, reason: 'TooManyRequests' })
  t.equal(seen.rejected, 1)
  at(t, 150, null).pressure.admit(10_000 * MiB)
  t.end()
})

void t.test(
  'a little beyond the target, lists begin in fair turns, so the one that fills the memory waits',
  async (t) => {
    const { pressure, seen, clock } = at(t, 190, 200)
    const { signal } = new AbortController()
    const admit = (identity: string): Promise<(() => void) | null> => pressure.admitInTurn(identity, signal)
    t.equal(await admit('a'), null, 'below it nobody waits')
    seen.resident = 209
    clock.advance(1_000)
    const first = await admit('a')
    const second = admit('a')
    t.type(await admit('b'), 'function', 'another client has its turn at once')
    t.equal(seen.rejected, 0)
    first!()
    t.type(await second, 'function')
    const waiting = admit('a')
    clock.advance(3_000)
    await t.rejects(waiting, { name: 'BusyError' }, 'a turn that does not come')
    seen.resident = 211
    clock.advance(1_000)
    await t.rejects(admit('c'), { code: 429 }, 'and nobody begins when it is full')
    t.throws(() => pressure.admit(), { code: 429 })
    t.end()
  },
)

void t.test('the rejections end when memory is available again', (t) => {
  const { clock, pressure, seen } = at(t, 300, 200)
  clock.advance(3_000)
  t.throws(() => pressure.admit())
  t.ok(pressure.isFull && seen.isShort)
  seen.resident = 150
  clock.advance(1_000)
  pressure.admit()
  t.notOk(pressure.isFull || seen.isShort)
  t.equal(seen.relieved, 1)
  t.end()
})

void t.test('memory is freed at most once in 10 s, and again only after a collection', (t) => {
  const { clock, pressure, seen, collections } = at(t, 300, 200)
  for (let i = 0; i < 90; i++) {
    t.throws(() => pressure.admit())
    clock.advance(100)
  }
  t.equal(seen.relieved, 1, 'however often requests come')
  clock.advance(30_000)
  t.equal(seen.relieved, 1, 'no collection has shown what the last time gave')
  collections.count++
  clock.advance(1_000)
  t.equal(seen.relieved, 2)
  collections.count++
  clock.advance(5_000)
  t.equal(seen.relieved, 2)
  clock.advance(5_000)
  t.equal(seen.relieved, 3)
  t.end()
})

void t.test('a new target applies at once, whether it is lower, higher, the first or none', (t) => {
  const { pressure, seen, clock } = at(t, 150, null)
  pressure.admit()
  pressure.setTarget(140 * MiB)
  t.throws(() => pressure.admit(), { code: 429 }, 'the first')
  t.equal(seen.relieved, 1)
  pressure.setTarget(1_000 * MiB)
  pressure.admit()
  pressure.setTarget(149 * MiB)
  t.throws(() => pressure.admit(), { code: 429 }, 'a lower one')
  pressure.setTarget(null)
  pressure.admit()
  seen.resident = 10_000
  clock.advance(20_000)
  pressure.admit()
  t.equal(seen.relieved, 1, 'without a target nothing is measured')
  pressure.setTarget(200 * MiB)
  seen.resident = 10
  clock.advance(1_000)
  pressure.admit()
  pressure.stop()
  pressure.setTarget(1 * MiB)
  pressure.admit()
  t.end()
})

void t.test('far beyond the target, small reads still get their turns, and large ones are refused', async (t) => {
  const { pressure } = at(t, 400, 200)
  const { signal } = new AbortController()
  await t.rejects(pressure.admitInTurn('a', signal), { code: 429 })
  const leave = await pressure.admitInTurn('a', signal, () => true)
  t.type(leave, 'function')
  let isSecond = false
  const second = pressure
    .admitInTurn('a', signal, () => true)
    .then((leaveSecond) => {
      isSecond = true
      leaveSecond?.()
    })
  await new Promise(setImmediate)
  t.notOk(isSecond, 'in turns')
  leave?.()
  await second
})

void t.test('while the resident memory cannot be read, the last value applies', (t) => {
  const { clock, pressure, seen } = at(t, 201, 200)
  Object.defineProperty(seen, 'resident', {
    get: () => {
      throw new Error('EMFILE: too many open files, uv_resident_set_memory')
    },
  })
  clock.advance(1_000)
  t.throws(() => pressure.admit(), { code: 429 })
  pressure.setTarget(300 * MiB)
  pressure.admit(MiB)
  t.throws(() => pressure.admit(200 * MiB), { code: 429 })
  t.end()
})
