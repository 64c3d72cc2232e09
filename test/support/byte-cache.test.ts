import t from 'tap'
import { ByteCache } from '../../src/support/byte-cache.js'

const cacheOf = (maxBytes: number, entryShare = 1): ByteCache<string, Buffer> =>
  new ByteCache({ maxBytes, entryShare, sizeOf: (value) => value.length })

const kept = (cache: ByteCache<string, Buffer>): string =>
  ['a', 'b', 'c', 'd'].filter((key) => cache.get(key) !== undefined).join('')

void t.test('a smaller limit evicts the least recently used at once, and a larger one admits more', (t) => {
  const cache = cacheOf(100)
  for (const key of ['a', 'b', 'c', 'd']) t.ok(cache.set(key, Buffer.alloc(25)))
  cache.get('a')
  cache.resize(50)
  t.equal(cache.bytes, 50)
  t.equal(kept(cache), 'ad')
  cache.set('b', Buffer.alloc(25))
  t.equal(cache.bytes, 50, 'the bound holds for what comes later')
  cache.resize(75)
  t.equal(cache.bytes, 50, 'nothing is lost')
  cache.set('c', Buffer.alloc(25))
  t.equal(cache.bytes, 75)
  t.end()
})

void t.test('an entry beyond its share is not kept, even after the limit has changed', (t) => {
  const cache = cacheOf(100, 1 / 2)
  t.notOk(cache.set('a', Buffer.alloc(51)))
  t.ok(cache.set('b', Buffer.alloc(50)))
  cache.resize(80)
  t.equal(kept(cache), '', 'what was within the share before')
  t.notOk(cache.set('b', Buffer.alloc(50)))
  t.ok(cache.set('c', Buffer.alloc(40)))
  t.end()
})

void t.test('with a limit of 0, from the start or later, no entry is kept', (t) => {
  const none = cacheOf(0)
  t.notOk(none.set('a', Buffer.alloc(2)))
  t.equal(none.bytes, 0)
  const some = cacheOf(100)
  some.set('a', Buffer.alloc(2))
  some.resize(0)
  t.equal(some.bytes, 0)
  t.notOk(some.set('b', Buffer.alloc(2)))
  some.resize(10)
  t.ok(some.set('b', Buffer.alloc(2)))
  t.end()
})
