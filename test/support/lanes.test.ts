/** Which tests run side by side. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { splitLanes, WAITING } from './lanes.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

void t.test('tests that mostly wait have a lane of their own, and no test is in two lanes or in none', (t) => {
  const files = ['fault/age', 'feed/feed/etcd', 'feed/feed-state', 'cache/store', 'fleet/nats', 'fleet/nats-feeds'].map(
    (name) => join('.build', 'test', `${name}.test.js`),
  )
  const [age, etcd, state, store, nats, feeds] = files
  t.strictSame(splitLanes(files, 2), [
    { groups: [[state, store, feeds]], jobs: 3 },
    { groups: [[age, etcd, nats]], jobs: 3 },
  ])
  t.end()
})

void t.test('a lane without files is none', (t) => {
  const busy = join('.build', 'test', 'cache', 'store.test.js')
  const waiting = join('.build', 'test', 'fault', 'age.test.js')
  t.strictSame(splitLanes([busy], 4), [{ groups: [[busy]], jobs: 5 }])
  t.strictSame(splitLanes([waiting], 1), [{ groups: [[waiting]], jobs: 2 }])
  t.strictSame(splitLanes([], 1), [])
  t.end()
})

void t.test('every place of a lane exists', (t) => {
  for (const source of WAITING) t.ok(existsSync(join(root, source)), source)
  t.end()
})
