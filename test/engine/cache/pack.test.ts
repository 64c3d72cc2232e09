import t from 'tap'
import { canPack, loosened, packOf, Packer } from '../../../src/engine/cache/pack.js'
import { type Key, keyFromText } from '../../../src/engine/model/event.js'
import { LooseObject, type StoredObject } from '../../../src/engine/model/stored-object.js'
import { podKey, podObject, rev } from '../../support/objects.js'

function packed(objects: readonly StoredObject[]): StoredObject[] {
  const packer = new Packer()
  for (const object of objects) t.ok(packer.add(object))
  const { pack, from, to } = packer.take()!
  return Array.from({ length: to - from }, (_, i) => pack.object(from + i))
}

function contentOf(object: StoredObject): unknown {
  const { key, scope: namespace, name, createRevision, modRevision, version, leaseId } = object
  const { encoding, schemaVersion: apiVersion, typeName: kind, revisionOffset, size, bytes } = object
  const identity = { key, namespace, name, createRevision, modRevision, version, leaseId }
  return { ...identity, encoding, apiVersion, kind, revisionOffset, size, bytes: bytes.toString('latin1') }
}

const NAMES = ['a', 'b', 'a-b', 'A', 'z'.repeat(253)].sort((a, b) => (podKey('x', a) < podKey('x', b) ? -1 : 1))

void t.test('an object reads the same in a pack, and after it was taken out', async (t) => {
  const binary = Buffer.from([0, 0xff, 0x6b, 0x38, 0x73])
  const key = keyFromText('/registry/pods/ÿ/\u00ff')
  const odd = new LooseObject({
    key,
    scope: 'ÿ',
    name: '',
    createRevision: rev(2 ** 40),
    modRevision: rev(2 ** 53 - 1),
    version: 2 ** 35,
    leaseId: '-9223372036854775808',
    encoding: 'protobuf',
    schemaVersion: '',
    typeName: '',
    bytes: binary,
    revisionOffset: -1,
  })
  const objects = [...NAMES.map((name, i) => podObject('x', name, i + 1)), odd]
  const found = packed(objects)
  t.same(found.map(contentOf), objects.map(contentOf))
  t.same(found.map(loosened).map(contentOf), objects.map(contentOf))
  t.not(packOf(found[0]!), null)
  t.equal(packOf(found[0]!), packOf(found.at(-1)!))
  t.equal(packOf(loosened(found[0]!)), null)
})

void t.test('facts about an object stay known at every reading, and after it was taken out', async (t) => {
  const [object] = packed([podObject('x', 'a', 1), podObject('x', 'b', 1)])
  const again = packOf(object!)!.object(0)
  object!.notes.facts = NAMES
  object!.notes.identityHead = 7
  t.equal(again.notes, object!.notes)
  t.equal(packOf(object!)!.object(1).notes.facts, null)
  const loose = loosened(again)
  t.equal(loose.notes.facts, NAMES)
  t.equal(loose.notes.identityHead, 7)
  t.equal(loose.notes.conformsTo, null)
})

void t.test('an object in a pack is found by its key, in byte order', async (t) => {
  const packer = new Packer()
  for (const name of NAMES) packer.add(podObject('x', name, 1))
  const run = packer.take()!
  const keys = NAMES.map((name) => podKey('x', name))
  for (const key of [...keys, '' as Key, podKey('w', 'z'), podKey('x', ''), podKey('x', 'aa'), podKey('y', '')]) {
    t.equal(run.placeOf(key), keys.filter((one) => one < key).length, key)
    t.equal(
      run.get(key)?.key,
      keys.find((one) => one === key),
    )
  }
  t.same([run.firstKey, run.lastKey, run.size], [keys[0], keys.at(-1), keys.length])
})

void t.test('a full pack takes no more, and neither does one of very small objects', async (t) => {
  const added = (padding: number): number => {
    const packer = new Packer()
    let count = 0
    while (packer.add(podObject('x', `p${String(count).padStart(4, '0')}`, 1, { padding }))) count++
    t.equal(packer.take()!.size, count)
    t.equal(packer.take(), null)
    return count
  }
  t.ok(added(5_000) > 10)
  t.equal(added(0), 128)
})

void t.test('a name that its key spells differently, a large value and a long key are not packed', async (t) => {
  const named = (name: string, bytes: number, namespace = 'x'): StoredObject =>
    new LooseObject({
      key: podKey(namespace, 'a'),
      scope: namespace,
      name,
      createRevision: rev(1),
      modRevision: rev(1),
      version: 1,
      leaseId: '0',
      encoding: 'json',
      schemaVersion: 'v1',
      typeName: 'Pod',
      bytes: Buffer.alloc(bytes),
      revisionOffset: 1,
    })
  t.ok(canPack(named('a', 16 * 1024)))
  t.notOk(canPack(named('a', 16 * 1024 + 1)))
  t.notOk(canPack(named('b', 10)))
  const long = named('a', 10, 'n'.repeat(64 * 1024))
  t.notOk(new Packer().add(long), 'no pack has room for it')
  t.notOk(canPack(long))
})
