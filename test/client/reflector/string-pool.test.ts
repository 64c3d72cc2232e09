import t from 'tap'
import { jsonWire } from '../../../src/client/reflector/event-stream.js'
import { StringPool } from '../../../src/client/reflector/string-pool.js'
import { treeCodec } from '../../../src/client/reflector/tree-codec.js'

void t.test('sharing strings changes no decoded value', async (t) => {
  const pool = new StringPool()
  const tree = (): unknown => ({
    a: 'registry.example/image:1.0.0',
    b: ['registry.example/image:1.0.0', 1, null, true, { uid: 'unique-unique-unique', c: 'x'.repeat(500) }, [[]]],
    empty: {},
    short: 'x',
  })
  for (let i = 0; i < 3; i++) {
    const shared = tree() as object
    pool.share(shared)
    t.same(shared, tree())
  }
  // The pool gets more strings than it holds: it forgets some, and stays correct.
  for (let i = 0; i < 10_000; i++) {
    const one = { text: `a text of its own ${i}` }
    pool.share(one)
    if (one.text !== `a text of its own ${i}`) t.fail(one.text)
  }
  t.end()
})

void t.test(
  'lines that arrive together are decoded together, and those before a bad one are still delivered',
  async (t) => {
    const event = (name: string): string =>
      `{"type":"ADDED","object":{"metadata":{"name":"${name}","resourceVersion":"7"},"text":"a,b\\n[ñ]"}}\n`
    for (const [text, names, fails] of [
      [event('a') + event('b') + event('c'), ['a', 'b', 'c'], false],
      [event('a') + '\n' + event('b'), ['a', 'b'], false],
      [event('a') + event('b') + 'nonsense\n' + event('c'), ['a', 'b'], true],
      [event('a') + '{"type":"ODD","object":{"metadata":{"resourceVersion":"1"}}}\n', ['a'], true],
      [`${event('a')}{"type":"ADDED","ob`, ['a'], false],
    ] as const) {
      for (const step of [1, 50, 100_000]) {
        const seen: string[] = []
        const stream = jsonWire.open(treeCodec(), (event) => seen.push(event.type === 'ADDED' ? event.key : event.type))
        const bytes = new TextEncoder().encode(text)
        const push = (): void => {
          for (let at = 0; at < bytes.length; at += step) stream.push(bytes.subarray(at, at + step))
        }
        if (fails) t.throws(push, { name: 'WatchFailure', kind: 'malformed' })
        else push()
        t.same(seen, names, `${text.slice(0, 20)} in steps of ${step}`)
      }
    }
  },
)
