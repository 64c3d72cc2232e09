/** Maps of the most recently used entries. */
import t from 'tap'
import { recentEntries } from '../../src/support/recent-entries.js'

void t.test('one more entry evicts the least recently used', async (t) => {
  const entries = recentEntries<string, number>(3)
  for (const [index, key] of ['a', 'b', 'c'].entries()) entries.set(key, index)
  t.equal(entries.get('a'), 0)
  entries.set('d', 3)
  t.same([...entries.keys()], ['d', 'a', 'c'])
  entries.set('c', 4)
  t.same(
    [...entries.entries()],
    [
      ['c', 4],
      ['d', 3],
      ['a', 0],
    ],
  )
})

void t.test('it never exceeds its limit', async (t) => {
  const entries = recentEntries<number, number>(1)
  for (let i = 0; i < 100; i++) {
    entries.set(i, i)
    t.equal(entries.size, 1)
  }
  t.same([...entries.keys()], [99])
})

void t.test('a large limit takes no memory before there are entries', async (t) => {
  const before = process.memoryUsage().heapUsed
  const maps = Array.from({ length: 100 }, () => recentEntries<string, number>(65_536))
  // Arrays of that length would be 100 MB.
  t.ok(process.memoryUsage().heapUsed - before < 10e6)
  t.equal(maps.length, 100)
})
