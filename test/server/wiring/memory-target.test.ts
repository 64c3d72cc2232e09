import t from 'tap'
import { defaultMemoryTarget } from '../../../src/server/wiring/memory-target.js'

const GIB = 1024 ** 3

void t.test('without --memory-target each process may take its share of 85 % of the container', (t) => {
  t.equal(defaultMemoryTarget(1, 2 * GIB, 16 * GIB), Math.floor(1.7 * GIB))
  t.equal(defaultMemoryTarget(5, 2 * GIB, 16 * GIB), Math.floor((1.7 * GIB) / 5), 'four workers and their primary')
  t.end()
})

void t.test('there is no limit if the container has none, or if too little would be left', (t) => {
  t.equal(defaultMemoryTarget(1, 0, 16 * GIB), null)
  t.equal(defaultMemoryTarget(1, 2 ** 63, 16 * GIB), null)
  t.equal(defaultMemoryTarget(1, 16 * GIB, 16 * GIB), null)
  t.equal(defaultMemoryTarget(1, 64 * 1024 ** 2, 16 * GIB), null)
  t.equal(defaultMemoryTarget(9, GIB, 16 * GIB), null)
  t.end()
})
