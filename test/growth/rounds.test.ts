import { writeHeapSnapshot } from 'node:v8'
import t from 'tap'
import type { Subject } from './activity.js'
import { Rounds } from './rounds.js'

/** Kept by the activity below, so that a snapshot has a way to it. */
class Forgotten {
  readonly at: number
  constructor(at: number) {
    this.at = at
  }
}
const forgotten: Forgotten[] = []

/** Counts what the activities say, without a process. */
function subject(counts: Record<string, number>, snapshot: Subject['snapshot'] = null): Subject {
  return { count: async () => ({ ...counts }), snapshot }
}

void t.test('growth with each repetition, or with some, is reported; growth up to a limit is not', async (t) => {
  const counts: Record<string, number> = { Leak: 0, Rare: 0, Cache: 0, Noise: 10 }
  const { growths } = await new Rounds(subject(counts)).judge({
    name: 'four kinds of things',
    times: 20,
    async once(_, i) {
      counts['Leak']!++
      if (i % 4 === 0) counts['Rare']!++
      counts['Cache'] = Math.min(counts['Cache']! + 1, 50)
      counts['Noise'] = 10 + (i % 7)
    },
  })
  t.same(
    growths.map(({ kind }) => kind),
    ['Leak', 'Rare'],
  )
  t.same(growths[0]!.counts, [20, 40, 60, 80, 100, 120], 'after N, 2N, 3N repetitions, and three rounds more')
})

void t.test('a failure names the way that keeps what grew', async (t) => {
  const counts: Record<string, number> = { Forgotten: 0 }
  const { paths } = await new Rounds(subject(counts, async (path) => void writeHeapSnapshot(path))).judge({
    name: 'something is kept',
    times: 20,
    async once(_, i) {
      forgotten.push(new Forgotten(i))
      counts['Forgotten'] = forgotten.length
    },
  })
  t.match(paths[0], /^20 more Forgotten: .* → \.forgotten Array → \[…\] Forgotten$/)
})

void t.test('a repetition that fails is tried again, and fails the activity in the end', async (t) => {
  let attempts = 0
  const once = (failures: number) => async (): Promise<void> => {
    if (++attempts <= failures) throw new Error('busy')
  }
  const activity = { name: 'busy', times: 2, atOnce: 1 }
  t.same((await new Rounds(subject({})).judge({ ...activity, once: once(2) })).growths, [])
  attempts = 0
  await t.rejects(new Rounds(subject({})).judge({ ...activity, once: once(3) }), { message: 'busy' })
})
