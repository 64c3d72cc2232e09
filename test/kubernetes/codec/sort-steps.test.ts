import t from 'tap'
import { sortSteps } from '../../../src/kubernetes/codec/sort-steps.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'

/** Enough comparisons to sort more than two runs at once. */
const MOST_COMPARISONS = 1_500

void t.test('it sorts like the engine, with few comparisons between two yields', async (t) => {
  const random = seededRandom(7)
  for (const length of [0, 1, 2, 127, 128, 129, 1_000, 30_000]) {
    const items = Array.from({ length }, (_, at) => ({ key: randomInteger(random, 0, length / 2), at }))
    let comparisons = 0
    let most = 0
    const steps = sortSteps(items, (a, b) => {
      comparisons++
      return a.key - b.key
    })
    let step = steps.next()
    for (; !step.done; step = steps.next()) {
      most = Math.max(most, comparisons)
      comparisons = 0
    }
    t.same(
      step.value,
      [...items].sort((a, b) => a.key - b.key),
      `${length} items, equal ones in their order`,
    )
    t.ok(Math.max(most, comparisons) < MOST_COMPARISONS, `${most} comparisons`)
  }
})
