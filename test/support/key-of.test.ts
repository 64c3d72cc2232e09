import t from 'tap'
import { type KeyParts, keyOf } from '../../src/support/key-of.js'

interface Selection {
  readonly namespace: string
  readonly limit: number | null
}

const parts: KeyParts<Selection> = { namespace: (name) => name, limit: (limit) => limit }

void t.test('records that differ in any member have different keys', (t) => {
  const keys = [
    { namespace: 'a', limit: null },
    { namespace: 'a', limit: 1 },
    { namespace: 'ab', limit: null },
    { namespace: '', limit: 1 },
  ].map((record) => keyOf(parts, record))
  t.equal(new Set(keys).size, keys.length)
  t.end()
})

void t.test('text from a client cannot move the boundary between two members', (t) => {
  const texts: KeyParts<{ a: string; b: string }> = { a: (text) => text, b: (text) => text }
  for (const mark of ['\n', ',', '"', '","', '\\', '\0']) {
    t.not(keyOf(texts, { a: `x${mark}y`, b: 'z' }), keyOf(texts, { a: 'x', b: `y${mark}z` }), JSON.stringify(mark))
  }
  t.end()
})

void t.test('the order in which a record was written does not matter', (t) => {
  t.equal(keyOf(parts, { namespace: 'a', limit: 2 }), keyOf(parts, { limit: 2, namespace: 'a' }))
  t.end()
})

void t.test('a key without one of the members does not compile', (t) => {
  // @ts-expect-error `limit` is missing
  const incomplete: KeyParts<Selection> = { namespace: (name) => name }
  t.ok(incomplete)
  t.end()
})
