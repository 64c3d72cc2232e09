import t from 'tap'
import { HeldObjects, Ingester } from '../../../src/engine/cache/held-objects.js'
import type { StoredObject } from '../../../src/engine/model/stored-object.js'
import { silentLogger } from '../../../src/support/log.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { PODS, ingestPod, podKey, podKeyValue, podValue, rev } from '../../support/objects.js'

const PADDING = 900
const newState = (): HeldObjects => new HeldObjects(new Ingester(ingestPod, 'pods', silentLogger))
const valueOf = (name: string, padding = PADDING): string => podValue('x', name, { padding }).toString()

function listed(count: number, padding = PADDING): HeldObjects {
  const state = newState()
  for (let i = 0; i < count; i++) state.list(podKeyValue('x', `p${i}`, i + 1, { padding }))
  state.listed()
  return state
}

const objectOf = (state: HeldObjects, i: number): StoredObject => state.store.get(podKey('x', `p${i}`))!
const memoryOf = (objects: Iterable<StoredObject>): Set<ArrayBufferLike> =>
  new Set([...objects].map(({ bytes }) => bytes.buffer))
const memoryBytes = (memory: Iterable<ArrayBufferLike>): number =>
  [...memory].reduce((sum, { byteLength }) => sum + byteLength, 0)

void t.test('the values of a list share memory, with little overhead', async (t) => {
  const state = listed(1_000)
  const objects = [...state.store.snapshot(rev(1_000), 0).objects(PODS.etcdPrefix)]
  t.equal(objects.length, 1_000)
  for (const { name, bytes } of objects) t.equal(bytes.toString(), valueOf(name))
  const memory = memoryOf(objects)
  t.ok(memory.size < 25, `${memory.size} pieces`)
  const bytes = objects.reduce((sum, object) => sum + object.bytes.length, 0)
  t.ok(memoryBytes(memory) < bytes * 1.05, `${memoryBytes(memory)} for ${bytes}`)
})

void t.test('a short list takes no more memory than its values', async (t) => {
  const state = listed(3)
  const { bytes } = objectOf(state, 1)
  t.equal(bytes.toString(), valueOf('p1'))
  t.equal(bytes.buffer.byteLength, 3 * bytes.length)
})

void t.test('a large value has separate memory', async (t) => {
  const { bytes } = objectOf(listed(3, 20_000), 1)
  t.equal(bytes.buffer.byteLength, bytes.length)
})

void t.test('an event has separate memory, and no slab is kept for a few objects', async (t) => {
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
  t.equal(own.toString(), valueOf('p0', 10))
  t.equal(last!.bytes.buffer.byteLength, last!.bytes.length, 'the one that is left has left the slab')
  t.equal(last!.bytes.toString(), valueOf(last!.name))
  t.equal(view.toString(), valueOf(last!.name), 'what a reader holds is as it was')
  t.equal(view.buffer, memory)
})

void t.test('whatever changes, all bytes are right, and slabs are at least a quarter used', async (t) => {
  const random = seededRandom(7)
  const count = 600
  const state = listed(count)
  const want = new Map(Array.from({ length: count }, (_, i) => [`p${i}`, valueOf(`p${i}`)]))
  const before = state.store.snapshot(rev(count), 0)
  const views = [...before.objects(PODS.etcdPrefix)].map(({ name, bytes }) => ({ name, bytes }))
  for (let step = 0; step < 3_000; step++) {
    const name = `p${randomInteger(random, 0, count - 1)}`
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
    t.ok(memoryBytes(memoryOf(objects)) <= held * 4 + 64 * 1024)
  }
  for (const { name, bytes } of views) t.equal(bytes.toString(), valueOf(name))
  for (const { name, bytes } of before.objects(PODS.etcdPrefix)) t.equal(bytes.toString(), valueOf(name))
})
