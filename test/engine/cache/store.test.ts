import t from 'tap'
import { type ProtobufTypes, Store, type Snapshot } from '../../../src/engine/cache/store.js'
import { type Key, keyFromText } from '../../../src/engine/model/event.js'
import type { StoredObject } from '../../../src/engine/model/stored-object.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { PODS, podKey, podObject, rev } from '../../support/objects.js'

const prefixOf = (namespace: string): Key => keyFromText(`/registry/pods/${namespace}/`)
function countOf(snapshot: Snapshot, ...range: [prefix: Key, startKey?: Key]): number {
  const counting = snapshot.count(...range)
  while (true) {
    const step = counting.next()
    if (step.done) return step.value
  }
}
const names = (objects: Iterable<StoredObject>): string[] =>
  [...objects].map(({ scope: namespace, name }) => `${namespace}/${name}`)

function storeOf(...pods: [namespace: string, name: string][]): Store {
  const store = new Store()
  for (const [namespace, name] of pods) store.set(podKey(namespace, name), podObject(namespace, name, 1))
  return store
}

void t.test('a snapshot is unaffected by later changes', (t) => {
  const store = storeOf(['x', 'a'], ['x', 'b'])
  const before = store.snapshot(rev(1), 0)
  store.set(podKey('x', 'b'), podObject('x', 'b', 2))
  store.delete(podKey('x', 'a'))
  store.set(podKey('x', 'c'), podObject('x', 'c', 3))
  const after = store.snapshot(rev(3), 0)
  t.same(names(before.objects(PODS.etcdPrefix)), ['x/a', 'x/b'])
  t.equal(before.get(podKey('x', 'b'))?.modRevision, 1)
  t.same(names(after.objects(PODS.etcdPrefix)), ['x/b', 'x/c'])
  t.equal(after.get(podKey('x', 'b'))?.modRevision, 2)
  t.equal(before.size, 2)

  const rebuilt = before.toStore()
  rebuilt.delete(podKey('x', 'b'))
  t.equal(before.size, 2, 'a store made of it leaves it alone as well')
  t.equal(after.size, 2)
  t.end()
})

void t.test('a reader in the middle of a snapshot keeps reading it during writes', (t) => {
  const store = new Store()
  for (let i = 0; i < 500; i++) store.set(podKey('x', `p${i}`), podObject('x', `p${i}`, 1))
  const snapshot = store.snapshot(rev(1), 0)
  let seen = 0
  for (const object of snapshot.objects(PODS.etcdPrefix)) {
    seen++
    if (object.modRevision !== 1) t.fail(`${object.name} is of the future`)
    store.set(object.key, podObject('x', object.name, 2))
    store.delete(podKey('x', `p${(seen * 7) % 500}`))
    store.snapshot(rev(2), 0)
  }
  t.equal(seen, 500)
  t.end()
})

void t.test('the objects of a namespace do not include those of another with the same prefix', (t) => {
  const snapshot = storeOf(['a', 'p'], ['ab', 'p'], ['a-b', 'p'], ['b', 'p']).snapshot(rev(1), 0)
  t.same(names(snapshot.objects(prefixOf('a'))), ['a/p'])
  t.same(names(snapshot.objects(prefixOf('ab'))), ['ab/p'])
  t.equal(countOf(snapshot, prefixOf('a')), 1)
  t.same(names(snapshot.objects(prefixOf('none'))), [])
  t.equal(countOf(snapshot, prefixOf('none')), 0)
  t.end()
})

void t.test('keys are in byte order, as in etcd', (t) => {
  // In UTF-16 the second would come before the third; in bytes it is the last.
  const texts = ['z', 'ä', '\u{1f600}', '\uffee', 'A', '-']
  const store = new Store()
  for (const text of texts) store.set(podKey('x', text), podObject('x', text, 1))
  const inBytes = texts.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  t.same(
    [...store.snapshot(rev(1), 0).objects(PODS.etcdPrefix)].map(({ name }) => name),
    inBytes,
  )
  t.end()
})

void t.test('reading starts at a key, present or not, and counts what is left', (t) => {
  const snapshot = storeOf(['x', 'a'], ['x', 'c'], ['x', 'e'], ['y', 'a']).snapshot(rev(1), 0)
  const prefix = prefixOf('x')
  const cases: [start: string, found: string[]][] = [
    ['', ['x/a', 'x/c', 'x/e']],
    ['a', ['x/a', 'x/c', 'x/e']],
    ['a\0', ['x/c', 'x/e']],
    ['b', ['x/c', 'x/e']],
    ['e', ['x/e']],
    ['e\0', []],
  ]
  for (const [start, found] of cases) {
    const startKey = (prefix + start) as Key
    t.same(names(snapshot.objects(prefix, startKey)), found, `from ${JSON.stringify(start)}`)
    t.equal(countOf(snapshot, prefix, startKey), found.length, `count from ${JSON.stringify(start)}`)
  }
  t.same(names(snapshot.objects(prefix, '/' as Key)), ['x/a', 'x/c', 'x/e'], 'a start before the prefix is its start')
  t.equal(countOf(snapshot, PODS.etcdPrefix), 4)
  t.end()
})

void t.test('objects stored as protobuf are counted by version and kind, in snapshots as well', (t) => {
  const store = new Store()
  const stored = (name: string, schemaVersion: string): StoredObject =>
    Object.assign(Object.create(podObject('x', name, 1) as object) as StoredObject, {
      encoding: 'protobuf',
      schemaVersion,
    })
  store.set(podKey('x', 'a'), stored('a', 'v1'))
  store.set(podKey('x', 'b'), stored('b', 'v2'))
  store.set(podKey('x', 'c'), podObject('x', 'c', 1))
  const before = store.snapshot(rev(1), 0)
  store.set(podKey('x', 'a'), stored('a', 'v2'))
  store.delete(podKey('x', 'c'))
  const kinds = (given: ProtobufTypes): [string, number][] => [...given].sort(([a], [b]) => (a < b ? -1 : 1))
  t.same(kinds(store.protobufTypes), [['v2 Pod', 2]])
  store.delete(podKey('x', 'b'))
  store.set(podKey('x', 'a'), podObject('x', 'a', 2))
  t.same(kinds(store.protobufTypes), [])
  t.same(kinds(before.protobufTypes), [
    ['v1 Pod', 1],
    ['v2 Pod', 1],
  ])
  t.same(kinds(before.toStore().protobufTypes), kinds(before.protobufTypes))
  t.end()
})

void t.test('a random store agrees with a plain map, and so does every snapshot of it', (t) => {
  const random = seededRandom(3)
  const store = new Store()
  const model = new Map<string, number>()
  const snapshots: { snapshot: Snapshot; model: Map<string, number> }[] = []
  for (let revision = 1; revision <= 2_000; revision++) {
    const name = `p${randomInteger(random, 0, 300)}`
    if (random.next() < 0.4) {
      store.delete(podKey('x', name))
      model.delete(name)
    } else {
      store.set(podKey('x', name), podObject('x', name, revision))
      model.set(name, revision)
    }
    if (random.next() < 0.02) snapshots.push({ snapshot: store.snapshot(rev(revision), 0), model: new Map(model) })
  }
  for (const { snapshot, model } of snapshots) {
    const found = [...snapshot.objects(PODS.etcdPrefix)].map(({ name, modRevision }) => [name, modRevision])
    const expected = [...model].sort(([a], [b]) => (a < b ? -1 : 1))
    if (JSON.stringify(found) !== JSON.stringify(expected)) t.fail(`at ${snapshot.revision}`)
    if (countOf(snapshot, PODS.etcdPrefix) !== model.size || snapshot.size !== model.size)
      t.fail(`count at ${snapshot.revision}`)
  }
  t.ok(snapshots.length > 10)
  t.end()
})
