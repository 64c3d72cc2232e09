import t from 'tap'
import { sourcesOf } from './imports.js'
import { isRandom, SEED_VARIABLE, testSeed, testSeeds } from './test-seeds.js'

void t.test('seeds are fixed, and follow the round if there is one', (t) => {
  const before = process.env[SEED_VARIABLE]
  t.teardown(() => {
    if (before === undefined) delete process.env[SEED_VARIABLE]
    else process.env[SEED_VARIABLE] = before
  })
  delete process.env[SEED_VARIABLE]
  t.equal(testSeed(7), 7)
  t.same(testSeeds(3), [1, 2, 3])
  process.env[SEED_VARIABLE] = '500'
  t.equal(testSeed(7), 500)
  t.same(testSeeds(3), [500, 501, 502])
  t.end()
})

void t.test('random tests are known by their imports', (t) => {
  t.ok(isRandom(sourcesOf(['test/guarantees/live.test.ts'])))
  t.notOk(isRandom(sourcesOf(['test/engine/broadcast/cursor.test.ts'])))
  t.end()
})
