/**
 * Nobody can end the process. `npm run judge -- soak --survival --minutes 60` does it for long, with other seeds.
 */
import t from 'tap'
import { testSeeds } from '../support/test-seeds.js'
import { survive } from './support/survival.js'

const MINUTES = 2

for (const seed of testSeeds(1)) {
  void t.test(`requests in every state and files with garbage never end the process (seed ${seed})`, async (t) => {
    t.setTimeout(300_000)
    const end = performance.now() + MINUTES * 60_000
    const { cases, problems } = await survive(t, t.testdir(), { seed, isEnough: () => performance.now() > end })
    t.same(problems, [])
    t.ok(cases > 100, `${cases} cases`)
  })
}
