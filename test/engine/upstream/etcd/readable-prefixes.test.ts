import t from 'tap'
import { type Key, keyFromText } from '../../../../src/engine/model/event.js'
import { ReadablePrefixes } from '../../../../src/engine/upstream/etcd/readable-prefixes.js'
import { silentLogger } from '../../../../src/support/log.js'

const prefix = (name: string): Key => keyFromText(`/${name}/`)
/** Everything that is asked about, in turn. */
function asked(readable: ReadablePrefixes, times = 5_000): Set<Key | null> {
  return new Set(Array.from({ length: times }, () => readable.next()))
}

void t.test('prefixes of deleted definitions are forgotten, and changes for new ones are reported', (t) => {
  const readable = new ReadablePrefixes(silentLogger)
  readable.allowed(prefix('first'))
  readable.watched(prefix('first'))
  for (let i = 0; i < 3_000; i++) {
    readable.allowed(prefix(`deleted${i}`))
    readable.watched(prefix(`deleted${i}`))()
  }
  readable.allowed(prefix('new'))
  readable.watched(prefix('new'))
  t.same(asked(readable), new Set([prefix('first'), prefix('new')]))
  readable.refused(prefix('new'), 'denied')
  t.match(readable.problem, 'denied')
  t.end()
})

void t.test('a refused prefix is a problem only while it is watched', (t) => {
  const readable = new ReadablePrefixes(silentLogger)
  readable.watched(prefix('a'))
  const unwatched = [readable.watched(prefix('b')), readable.watched(prefix('b'))]
  readable.refused(prefix('b'), 'denied')
  unwatched[0]!()
  t.match(readable.problem, 'denied')
  t.equal(readable.likely, prefix('a'))
  unwatched[1]!()
  t.equal(readable.problem, null)
  t.same(asked(readable), new Set([prefix('a')]))
  t.end()
})

void t.test('when all watches are lost, one prefix stays known', (t) => {
  const readable = new ReadablePrefixes(silentLogger)
  const unwatched = ['a', 'b', 'c'].map((name) => readable.watched(prefix(name)))
  for (const end of unwatched) end()
  t.equal(asked(readable).size, 1)
  t.ok(readable.likely !== null)
  t.end()
})

void t.test('prefixes that are only read are limited, and displace none that is watched', (t) => {
  const readable = new ReadablePrefixes(silentLogger)
  const watched = Array.from({ length: 300 }, (_, i) => prefix(`watched${i}`))
  for (const one of watched) readable.watched(one)
  for (let i = 0; i < 1_000; i++) readable.allowed(prefix(`read${i}`))
  const known = asked(readable)
  t.equal(known.size, 400)
  for (const one of watched) t.ok(known.has(one))
  t.ok(known.has(prefix('read999')))
  t.notOk(known.has(prefix('read0')))
  t.end()
})
