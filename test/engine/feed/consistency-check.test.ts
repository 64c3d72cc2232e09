import t, { type Test } from 'tap'
import {
  ConsistencyCheck,
  type ConsistencyCheckOptions,
  type CheckOutcome,
} from '../../../src/engine/feed/consistency-check.js'
import type { CheckedKey } from '../../../src/engine/model/checked-cache.js'
import type { Key } from '../../../src/engine/model/event.js'
import { toRevision as rev, type Revision } from '../../../src/engine/model/revision.js'
import { seededRandom } from '../../../src/support/random.js'
import { createEmbeddedUpstream } from '../../support/faulty-store.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import { smallPages } from '../../support/small-pages.js'
import { until } from '../../support/until.js'
import { nextTurn, VirtualClock } from '../../support/virtual-clock.js'
import { elsewhere, key, put, remove } from './harness.js'

type Held = { -readonly [K in keyof CheckedKey]: CheckedKey[K] }

/** An etcd with the keys of `names`, and a cache that holds the same until a test changes it. */
async function harness(t: Test, names: readonly string[], options: Partial<ConsistencyCheckOptions> = {}) {
  const clock = new VirtualClock()
  const etcd = createEmbeddedUpstream({ clock })
  t.teardown(() => etcd.close())
  for (const name of names) etcd.commit([put(name)])
  const { keyValues } = await etcd.read({ prefix: '/p/' as Key })
  const held: Held[] = keyValues.map(({ key, modRevision, value }) => ({ key, modRevision, value }))
  const cache = {
    revision: etcd.revision as Revision | null,
    stateAt: (_revision: Revision): Iterable<CheckedKey> | null => held,
  }
  const outcomes: CheckOutcome[] = []
  const check = new ConsistencyCheck({
    upstream: () => smallPages(etcd, 2),
    prefix: '/p/' as Key,
    cache,
    clock,
    random: seededRandom(1),
    intervalMs: 300_000,
    onOutcome: (outcome) => outcomes.push(outcome),
    ...options,
  })
  t.teardown(() => check.stop())
  return { clock, etcd, held, cache, check, outcomes }
}

const names = ['a', 'b', 'c', 'd', 'e']

void t.test('equal states are found equal, whatever their size', async (t) => {
  for (const count of [0, 1, 2, 3, 5]) {
    const { check } = await harness(t, names.slice(0, count))
    const outcome = await check.run()
    t.match(outcome, { kind: 'equal', revision: count + 1, keys: count, values: count })
  }
})

void t.test('writes after the cache’s revision are not a difference', async (t) => {
  const { check, etcd } = await harness(t, names)
  etcd.commit([put('a', 'later'), remove('b'), put('new')])
  etcd.commit([elsewhere])
  t.match(await check.run(), { kind: 'equal', revision: 6 })
})

void t.test('each kind of difference is found, wherever it is', async (t) => {
  for (const index of [0, 2, 4]) {
    const name = key(names[index]!)
    const modRevision = index + 2
    const missing = await harness(t, names)
    missing.held.splice(index, 1)
    t.match(await missing.check.run(), {
      kind: 'different',
      differences: 1,
      examples: [{ key: name, kind: 'missing', ours: null, theirs: modRevision }],
    })

    const ghost = await harness(t, names)
    ghost.held.splice(index + 1, 0, { key: `${name}!` as Key, modRevision: rev(3) })
    t.match(await ghost.check.run(), {
      kind: 'different',
      differences: 1,
      examples: [{ key: `${name}!`, kind: 'unknown-to-etcd', ours: 3, theirs: null }],
    })

    const old = await harness(t, names)
    old.held[index]!.modRevision = rev(1)
    t.match(await old.check.run(), {
      kind: 'different',
      differences: 1,
      examples: [{ key: name, kind: 'other-revision', ours: 1, theirs: modRevision }],
    })

    const wrong = await harness(t, names)
    wrong.held[index]!.value = Buffer.from('wrong')
    t.match(await wrong.check.run(), {
      kind: 'different',
      differences: 1,
      examples: [{ key: name, kind: 'other-value', ours: modRevision, theirs: modRevision }],
    })
  }
})

void t.test('an empty cache and an empty etcd differ from full ones', async (t) => {
  const full = await harness(t, names)
  full.held.length = 0
  t.match(await full.check.run(), { kind: 'different', keys: 5, differences: 5 })
  const empty = await harness(t, [])
  empty.held.push({ key: key('a'), modRevision: rev(1) })
  t.match(await empty.check.run(), { kind: 'different', keys: 0, differences: 1 })
})

void t.test('many differences are all counted and few are named', async (t) => {
  const many = Array.from({ length: 100 }, (_, i) => `k${i}`)
  const { check, held } = await harness(t, many)
  held.length = 0
  const outcome = await check.run()
  t.match(outcome, { kind: 'different', differences: 100 })
  t.equal(outcome.kind === 'different' && outcome.examples.length, 10)
})

void t.test('values that the cache keeps in another form are not sampled', async (t) => {
  const { check, held } = await harness(t, names)
  for (const one of held.slice(1)) delete one.value
  t.match(await check.run(), { kind: 'equal', values: 1 })
})

void t.test('every value is sampled sooner or later', async (t) => {
  const { check, held } = await harness(
    t,
    Array.from({ length: 100 }, (_, i) => `k${i}`),
  )
  held[3]!.value = Buffer.from('wrong')
  let found = 0
  for (let i = 0; i < 100; i++) if ((await check.run()).kind === 'different') found++
  t.ok(found > 5 && found < 50, `${found} of 100`)
})

void t.test('a check without a comparable state is skipped', async (t) => {
  const notListed = await harness(t, names)
  notListed.cache.revision = null
  t.match(await notListed.check.run(), { kind: 'skipped' })
  const gone = await harness(t, names)
  gone.cache.stateAt = () => null
  t.match(await gone.check.run(), { kind: 'skipped' })
  const away = await harness(t, names)
  away.etcd.failReads(new UpstreamError('unavailable', 'away'))
  t.match(await away.check.run(), { kind: 'skipped', reason: 'unavailable: away' })
})

void t.test('when the cache’s revision is compacted, only keys that were not written since are compared', async (t) => {
  const later = async (change: (h: Awaited<ReturnType<typeof harness>>) => void): Promise<CheckOutcome> => {
    const h = await harness(t, names)
    change(h)
    h.etcd.compact(rev(h.etcd.revision))
    return await h.check.run()
  }
  t.match(await later(({ etcd }) => etcd.commit([elsewhere])), { kind: 'equal', revision: 6, keys: 5, values: 5 })
  const written = await later(({ etcd }) => etcd.commit([put('a', 'later'), put('c', 'later'), put('new')]))
  t.match(written, { kind: 'equal', revision: 6, keys: 6, values: 3 })
  const removed = await later(({ etcd }) => etcd.commit([remove('b')]))
  t.match(removed, { kind: 'skipped', reason: /^compacted: 1 of 4 keys/ })
  const missing = await later(({ etcd, held }) => {
    held.splice(2, 1)
    etcd.commit([put('a', 'later')])
  })
  t.match(missing, { kind: 'different', differences: 1, examples: [{ key: key('c'), kind: 'missing' }] })
  const old = await later(({ etcd, held }) => {
    held[4]!.modRevision = rev(1)
    etcd.commit([remove('b')])
  })
  t.match(old, { kind: 'different', differences: 1, examples: [{ key: key('e'), kind: 'other-revision' }] })
  const wrong = await later(({ etcd, held }) => {
    held[1]!.value = Buffer.from('wrong')
    etcd.commit([elsewhere])
  })
  t.match(wrong, { kind: 'different', differences: 1, examples: [{ key: key('b'), kind: 'other-value' }] })
})

void t.test('an expensive source is only counted from time to time, and listed when the number differs', async (t) => {
  const { clock, check, etcd, held, outcomes } = await harness(t, names, { countsOnly: () => true })
  const read = t.capture(etcd, 'read', etcd.read.bind(etcd))
  const listed = (): boolean => read().some(({ args: [{ limit }] }) => limit !== 1)
  const next = async (): Promise<CheckOutcome> => {
    const before = outcomes.length
    // In steps shorter than the time that a read may take.
    for (let i = 0; i < 30 && outcomes.length === before; i++) await clock.advanceInTurns(60_000, 1_000)
    return outcomes.at(-1)!
  }
  check.start()
  t.match(await next(), { kind: 'equal', keys: 5, values: 2 })
  t.notOk(listed(), 'the keys were not')
  held.pop()
  t.match(await next(), { kind: 'different', keys: 5, examples: [{ key: key('e'), kind: 'missing' }] })
  t.ok(listed())
  t.match(await check.run(), { kind: 'different', keys: 5 }, 'a check on request lists them')
})

void t.test('checks run about once per interval, never two at once, until they are stopped', async (t) => {
  const { check, clock, outcomes, etcd } = await harness(t, names)
  check.start()
  check.start()
  await clock.advanceInTurns(149_000, 1_000)
  t.equal(outcomes.length, 0)
  await clock.advanceInTurns(30 * 300_000, 5_000)
  t.ok(outcomes.length >= 22 && outcomes.length <= 40, `${outcomes.length} in 30 intervals`)
  t.ok(outcomes.every((outcome) => outcome.kind === 'equal'))
  etcd.setStalled(true)
  await clock.advanceInTurns(500_000, 1_000)
  t.equal(outcomes.at(-1)?.kind, 'skipped')
  await check.stop()
  const { length } = outcomes
  await clock.advanceInTurns(900_000, 5_000)
  t.equal(outcomes.length, length)
  t.equal(clock.pending, 0)
})

void t.test('a check that is requested while one is running gets the next one', async (t) => {
  const { check, outcomes, etcd, clock } = await harness(t, names)
  etcd.setDelays({ readMs: 100 })
  const asked = [check.run()]
  await clock.advanceInTurns(50, 50)
  asked.push(check.run(), check.run())
  await clock.advanceInTurns(5_000, 50)
  await Promise.all(asked)
  t.equal(outcomes.length, 2)
})

void t.test('the snapshot is released even if etcd goes away in the middle', async (t) => {
  const { check, cache, held, etcd, clock } = await harness(t, names)
  let open = 0
  cache.stateAt = function* () {
    open++
    try {
      yield* held
    } finally {
      open--
    }
  }
  etcd.setDelays({ readMs: 100 })
  const outcome = check.run()
  await clock.advanceInTurns(150, 50)
  t.equal(open, 1)
  etcd.setUnavailable(true)
  await clock.advanceInTurns(500, 50)
  t.match(await outcome, { kind: 'skipped' })
  await nextTurn()
  t.equal(open, 0)
})

void t.test('an unexpected error skips a check, and the next ones take place', async (t) => {
  let broken = true
  const { check, clock, outcomes, etcd } = await harness(t, names, {
    upstream: () => {
      if (broken) throw new RangeError('1 bytes needed, but only 0 left')
      return smallPages(etcd, 2)
    },
  })
  t.match(await check.run(), { kind: 'skipped', reason: '1 bytes needed, but only 0 left', err: RangeError })
  check.start()
  clock.advance(450_000)
  await until(() => outcomes.length === 2, 'a periodic check')
  t.match(outcomes[1], { kind: 'skipped' })
  broken = false
  await nextTurn()
  clock.advance(450_000)
  await until(() => outcomes.length === 3, 'the next one')
  t.match(outcomes[2], { kind: 'equal' })
})
