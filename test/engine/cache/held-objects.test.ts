import t from 'tap'
import { HeldObjects, Ingester } from '../../../src/engine/cache/held-objects.js'
import { type Ingest, isUnservable, LooseObject, type StoredObject } from '../../../src/engine/model/stored-object.js'
import { silentLogger } from '../../../src/support/log.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { PODS, ingestPod, podKey, podKeyValue, podValue, rev } from '../../support/objects.js'

const PADDING = 900
const newState = (): HeldObjects => new HeldObjects(new Ingester(ingestPod, 'pods', silentLogger))
const valueOf = (name: string, padding = PADDING): string => podValue('x', name, { padding }).toString()

const nameOf = (i: number): string => `p${String(i).padStart(4, '0')}`

function listed(count: number, padding = PADDING): HeldObjects {
  const state = newState()
  for (let i = 0; i < count; i++) state.list(podKeyValue('x', nameOf(i), i + 1, { padding }))
  state.listed()
  return state
}

const objectOf = (state: HeldObjects, i: number): StoredObject => state.store.get(podKey('x', nameOf(i)))!
const memoryOf = (objects: Iterable<StoredObject>): Set<ArrayBufferLike> =>
  new Set([...objects].map(({ bytes }) => bytes.buffer))
const memoryBytes = (memory: Iterable<ArrayBufferLike>): number =>
  [...memory].reduce((sum, { byteLength }) => sum + byteLength, 0)

void t.test('the objects of a list share memory, with little overhead', async (t) => {
  const state = listed(1_000)
  const objects = [...state.store.snapshot(rev(1_000), 0).objects(PODS.etcdPrefix)]
  t.equal(objects.length, 1_000)
  for (const { name, bytes } of objects) t.equal(bytes.toString(), valueOf(name))
  const memory = memoryOf(objects)
  t.ok(memory.size < 25, `${memory.size} pieces`)
  const bytes = objects.reduce((sum, { key, bytes: { length } }) => sum + key.length + length, 0)
  t.ok(memoryBytes(memory) < bytes + objects.length * 70, `${memoryBytes(memory)} for ${bytes}`)
})

void t.test('a short list takes no more memory than its objects', async (t) => {
  const state = listed(3)
  const { bytes, key } = objectOf(state, 1)
  t.equal(bytes.toString(), valueOf(nameOf(1)))
  t.ok(bytes.buffer.byteLength < 3 * (bytes.length + key.length + 70))
})

void t.test('a large value has separate memory, and so has one whose key is out of order', async (t) => {
  const state = newState()
  const memory = (name: string): number => state.store.get(podKey('x', name))!.bytes.buffer.byteLength
  for (const name of ['a', 'b']) state.list(podKeyValue('x', name, 1))
  state.list(podKeyValue('x', 'c', 1, { padding: 20_000 }))
  for (const name of ['f', 'e', 'd', 'g', 'h']) state.list(podKeyValue('x', name, 1))
  state.listed()
  const names = [...state.store.snapshot(rev(1), 0).objects(PODS.etcdPrefix)].map(({ name }) => name)
  t.same(names, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'])
  for (const name of ['c', 'd', 'e']) t.equal(memory(name), state.store.get(podKey('x', name))!.size, name)
  t.equal(state.store.get(podKey('x', 'a'))!.bytes.buffer, state.store.get(podKey('x', 'b'))!.bytes.buffer)
})

void t.test('a key that is listed twice holds the second value', async (t) => {
  const state = newState()
  for (const [name, revision] of Object.entries({ a: 1, b: 2 })) state.list(podKeyValue('x', name, revision))
  state.list(podKeyValue('x', 'a', 3))
  state.listed()
  t.equal(state.store.size, 2)
  t.equal(state.store.get(podKey('x', 'a'))?.modRevision, 3)
})

void t.test('an event has separate memory, and no pack is kept for a few objects', async (t) => {
  const state = listed(1_000)
  const memory = objectOf(state, 0).bytes.buffer
  const neighbours = Array.from({ length: 1_000 }, (_, i) => objectOf(state, i)).filter(
    ({ bytes }) => bytes.buffer === memory,
  )
  const [last] = neighbours.slice(-1)
  const view = last!.bytes
  for (const [i, { name, key }] of neighbours.slice(0, -1).entries()) {
    if (i % 2 === 0) state.put(podKeyValue('x', name, 2_000 + i, { padding: 10 }))
    else state.delete(key)
  }
  const own = objectOf(state, 0).bytes
  t.equal(own.buffer.byteLength, own.length)
  t.equal(own.toString(), valueOf(nameOf(0), 10))
  t.equal(
    objectOf(state, Number(last!.name.slice(1))).bytes.buffer.byteLength,
    last!.size,
    'the one that is left has left the pack',
  )
  t.equal(last!.bytes.toString(), valueOf(last!.name))
  t.equal(view.toString(), valueOf(last!.name), 'what a reader holds is as it was')
  t.equal(view.buffer, memory)
})

void t.test('whatever changes, all bytes are right, and packs are at least a quarter used', async (t) => {
  const random = seededRandom(7)
  const count = 600
  const state = listed(count)
  const want = new Map(Array.from({ length: count }, (_, i) => [nameOf(i), valueOf(nameOf(i))]))
  const before = state.store.snapshot(rev(count), 0)
  const views = [...before.objects(PODS.etcdPrefix)].map(({ name, bytes }) => ({ name, bytes }))
  for (let step = 0; step < 3_000; step++) {
    const name = nameOf(randomInteger(random, 0, count - 1))
    const padding = randomInteger(random, 0, 2_000)
    const deletes = randomInteger(random, 0, 2) === 0
    if (deletes) {
      state.delete(podKey('x', name))
      want.delete(name)
    } else {
      state.put(podKeyValue('x', name, 1_000 + step, { padding }))
      want.set(name, valueOf(name, padding))
    }
    if (step % 500 !== 0) continue
    const objects = [...state.store.snapshot(rev(1_000 + step), 0).objects(PODS.etcdPrefix)]
    t.same(new Map(objects.map(({ name: of, bytes }) => [of, bytes.toString()])), want)
    const held = objects.reduce((sum, { bytes }) => sum + bytes.length, 0)
    t.ok(memoryBytes(memoryOf(objects)) <= (held + objects.length * 100) * 4 + 64 * 1024)
  }
  for (const { name, bytes } of views) t.equal(bytes.toString(), valueOf(name))
  for (const { name, bytes } of before.objects(PODS.etcdPrefix)) t.equal(bytes.toString(), valueOf(name))
})

void t.test('values that are also kept as stored are counted, and never packed', async (t) => {
  const ingest: Ingest = (keyValue) => {
    const object = ingestPod(keyValue)
    return isUnservable(object) ? object : new LooseObject({ ...looseFields(object), raw: keyValue.value })
  }
  const state = new HeldObjects(new Ingester(ingest, 'pods', silentLogger))
  for (let i = 0; i < 10; i++) state.list(podKeyValue('x', nameOf(i), i + 1))
  state.listed()
  const { length } = objectOf(state, 1).raw!
  t.equal(state.rawBytes, 10 * length)
  state.put(podKeyValue('x', nameOf(1), 20))
  t.equal(state.rawBytes, 10 * length)
  state.delete(podKey('x', nameOf(1)))
  t.equal(state.rawBytes, 9 * length)
})

function looseFields(object: StoredObject): StoredObject {
  const { key, scope, name, createRevision, modRevision, version, leaseId, size, notes } = object
  const { encoding, schemaVersion, typeName, bytes, revisionOffset, wholeChecksum } = object
  const identity = { key, scope, name, createRevision, modRevision, version, leaseId, size, notes }
  return { ...identity, encoding, schemaVersion, typeName, bytes, revisionOffset, wholeChecksum }
}
