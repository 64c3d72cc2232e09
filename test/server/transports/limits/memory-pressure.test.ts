import t from 'tap'
import { MemoryPressure } from '../../../../src/server/transports/limits/memory-pressure.js'
import { VirtualClock } from '../../../support/virtual-clock.js'

const MiB = 2 ** 20

function at(t: Tap, residentMiB: number, targetMiB: number | null) {
  const clock = new VirtualClock()
  const seen = { relieved: 0, rejected: 0, resident: residentMiB }
  const collections = { count: 0 }
  const gate = new MemoryPressure({
    targetBytes: targetMiB === null ? null : targetMiB * MiB,
    residentBytes: () => seen.resident * MiB,
    clock,
    relieve: () => seen.relieved++,
    onRejected: () => seen.rejected++,
    collections,
  })
  gate.start()
  t.teardown(() => gate.stop())
  clock.advance(1_000)
  return { clock, gate, seen, collections }
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
    const { gate, seen } = at(t, resident, target)
    t.equal(seen.relieved, relieved, 'caches shrink from 85 %')
    if (isRefused) t.throws(() => gate.admit(), { code: 429, reason: 'TooManyRequests' })
    else gate.admit()
    t.equal(seen.rejected, isRefused ? 1 : 0)
    t.end()
  })
}

void t.test('the refusal ends when memory is available again', (t) => {
  const { clock, gate, seen } = at(t, 300, 200)
  clock.advance(3_000)
  t.throws(() => gate.admit())
  seen.resident = 150
  clock.advance(1_000)
  gate.admit()
  t.equal(seen.relieved, 1)
  t.end()
})

void t.test('memory is given back at most once in 10 s, and again only after a collection', (t) => {
  const { clock, gate, seen, collections } = at(t, 300, 200)
  for (let i = 0; i < 90; i++) {
    t.throws(() => gate.admit())
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

void t.test('a new target holds at once, whether it is lower, higher, the first or none', (t) => {
  const { gate, seen, clock } = at(t, 150, null)
  gate.admit()
  gate.setTarget(140 * MiB)
  t.throws(() => gate.admit(), { code: 429 }, 'the first')
  t.equal(seen.relieved, 1)
  gate.setTarget(1_000 * MiB)
  gate.admit()
  gate.setTarget(149 * MiB)
  t.throws(() => gate.admit(), { code: 429 }, 'a lower one')
  gate.setTarget(null)
  gate.admit()
  seen.resident = 10_000
  clock.advance(20_000)
  gate.admit()
  t.equal(seen.relieved, 1, 'without a target nothing is measured')
  gate.setTarget(200 * MiB)
  seen.resident = 10
  clock.advance(1_000)
  gate.admit()
  gate.stop()
  gate.setTarget(1 * MiB)
  gate.admit()
  t.end()
})
