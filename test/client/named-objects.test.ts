import t from 'tap'
import { NamedObjects } from '../../src/client/named-objects.js'
import { Indexer } from '../../src/client/indexer.js'
import { randomInteger, seededRandom } from '../../src/support/random.js'
import { testSeeds } from '../support/test-seeds.js'

interface Named {
  readonly metadata: { readonly namespace?: string; readonly name: string }
  readonly version: number
}

const named = (namespace: string | undefined, name: string, version: number): Named => ({
  metadata: namespace === undefined ? { name } : { namespace, name },
  version,
})
const keyOf = ({ metadata: { namespace, name } }: Named): string =>
  namespace === undefined ? name : `${namespace}/${name}`

void t.test('it matches a map, whatever is added and removed', (t) => {
  for (const seed of testSeeds(20)) {
    const random = seededRandom(seed)
    const model = new Map<string, Named>()
    const objects = new NamedObjects<Named>()
    for (let step = 0; step < 2_000; step++) {
      const namespace = [undefined, '', 'a', 'b', `n${randomInteger(random, 0, 40)}`][randomInteger(random, 0, 4)]
      const object = named(namespace, `p${randomInteger(random, 0, 30)}`, step)
      const key = keyOf(object)
      if (randomInteger(random, 0, 2) > 0) {
        model.set(key, object)
        objects.set(key, object)
      } else if (objects.delete(key) !== model.delete(key)) t.fail(`${key} was not there`)
      if (objects.get(key) !== model.get(key) || objects.has(key) !== model.has(key)) t.fail(`${key} is another`)
      if (objects.size !== model.size) t.fail(`${objects.size} objects instead of ${model.size}`)
    }
    t.same(new Map(objects.entries()), model)
    t.same(new Set(objects.keys()), new Set(model.keys()))
    t.same(new Set(objects.values()), new Set(model.values()))
    t.same(objects.toArray(), [...objects.values()])
    for (const key of model.keys()) objects.delete(key)
    t.equal(objects.size, 0)
    t.same([...objects.keys()], [])
  }
  t.end()
})

void t.test('a key is any text: the object’s name need not be part of it', (t) => {
  const objects = new NamedObjects<unknown>()
  for (const key of ['', '/', 'a/', '/a', 'a/b/c', 'a/b', 'b', 'uid-1'])
    objects.set(key, { metadata: { name: 'other' }, key })
  objects.set('null', null)
  objects.set('a/bare', 'bare')
  for (const key of ['', '/', 'a/', '/a', 'a/b/c', 'a/b', 'b', 'uid-1']) {
    t.same(objects.get(key), { metadata: { name: 'other' }, key }, key)
  }
  t.equal(objects.get('a/bare'), 'bare')
  t.equal(objects.get('other'), undefined)
  t.equal(objects.size, 10)
  t.end()
})

void t.test('the objects of a namespace are adjacent, and an index finds them', (t) => {
  const indexer = new Indexer<Named>({ indexes: { parity: ({ version }) => [version % 2 === 0 ? 'even' : 'odd'] } })
  for (const [i, namespace] of ['a', 'b', 'a', 'c', 'b'].entries()) {
    const object = named(namespace, `p${i}`, i)
    indexer.set(keyOf(object), object)
  }
  t.same([...indexer.keys()], ['a/p0', 'a/p2', 'b/p1', 'b/p4', 'c/p3'])
  t.same(indexer.keysByIndex('parity', 'even'), ['a/p0', 'a/p2', 'b/p4'])
  t.equal(indexer.delete('a/p0')?.version, 0)
  t.equal(indexer.delete('a/p0'), undefined)
  t.same(
    indexer.byIndex('parity', 'even').map(({ version }) => version),
    [2, 4],
  )
  t.equal(indexer.size, 4)
  t.end()
})
