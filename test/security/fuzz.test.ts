/**
 * Mutated connections on every port, beside honest clients. `npm run judge -- soak --fuzz --minutes 60` does it for
 * long.
 */
import t from 'tap'
import { testSeeds } from '../support/test-seeds.js'
import { fuzz } from './support/fuzz.js'

const CONNECTIONS = 3_000

for (const seed of testSeeds(1)) {
  void t.test(`${CONNECTIONS} mutated connections do not affect other clients (seed ${seed})`, async (t) => {
    t.setTimeout(300_000)
    const { connections, answers, problems, peakMiB } = await fuzz(t, {
      seed,
      isEnough: (begun) => begun >= CONNECTIONS,
    })
    t.same(problems, [])
    t.equal(connections, CONNECTIONS)
    t.comment(
      `${peakMiB} MiB; ${[...answers]
        .sort(([a], [b]) => a - b)
        .map(([code, times]) => `${code} ×${times}`)
        .join(', ')}`,
    )
    for (const code of [101, 200, 400, 401]) t.ok(answers.has(code), `some were answered with ${code}`)
  })
}
