/** Ranges of keys, as requests name them. */
import t from 'tap'
import type { Key } from '../../src/engine/model/event.js'
import { commonPrefix, isWithin, keyRange } from '../../src/etcd-api/key-range.js'

void t.test('the common prefix is the longest prefix that has all keys of the range', async (t) => {
  let keys = ['']
  for (let i = 0; i < 3; i++) keys = ['', ...keys.flatMap((key) => ['\0', 'a', 'b', '\xff'].map((char) => key + char))]
  const wrong: unknown[] = []
  for (const start of keys) {
    const prefixes = Array.from({ length: start.length + 1 }, (_, length) => start.slice(0, length) as Key)
    for (const end of keys) {
      const range = keyRange(start as Key, end as Key)
      const longest = prefixes.findLast((prefix) => isWithin(range, prefix)) ?? ''
      if (commonPrefix(range) !== longest) wrong.push({ range, longest, found: commonPrefix(range) })
    }
  }
  t.same(wrong, [])
})

void t.test('a key as long as a request takes no time', { timeout: 60_000 }, async (t) => {
  const long = 'x'.repeat(2 * 1024 * 1024)
  const start = `/flags/${long}` as Key
  t.equal(commonPrefix(keyRange(start, '/flags0' as Key)).length, '/flags/'.length)
  t.equal(commonPrefix(keyRange(start, '' as Key)), start)
  const keys = Array.from({ length: 1_000 }, (_, i) => `/flags/${String(i).padStart(2_000, 'x')}` as Key)
  for (const key of keys) t.equal(commonPrefix(keyRange(key, `${key}\0\0` as Key)), key)
})
