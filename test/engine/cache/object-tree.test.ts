import t from 'tap'
import { ObjectTree } from '../../../src/engine/cache/object-tree.js'
import { type Pack, packOf, Packer } from '../../../src/engine/cache/pack.js'
import type { Key } from '../../../src/engine/model/event.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { podKey, podObject } from '../../support/objects.js'

const PACKED = 10
const nameOf = (i: number): string => `p${String(i).padStart(3, '0')}`

/** Every second name from `p000` on, in packs of ten. */
function treeOf(count: number): { tree: ObjectTree; packs: readonly Pack[] } {
  const tree = new ObjectTree()
  const packs: Pack[] = []
  const packer = new Packer()
  for (let i = 0; i < count; i++) {
    packer.add(podObject('x', nameOf(2 * i), 1))
    if ((i + 1) % PACKED !== 0) continue
    const run = packer.take()!
    packs.push(run.pack)
    tree.append(run)
  }
  return { tree, packs }
}

function contentOf(tree: ObjectTree, start = '' as Key, end: Key | null = null): [string, number][] {
  return [...tree.objects(start, end)].map(({ name, modRevision }) => [name, modRevision])
}

void t.test('an object that changes leaves its run, and the others stay packed', async (t) => {
  const { tree, packs } = treeOf(PACKED)
  const before = tree.clone()
  tree.set(podKey('x', nameOf(8)), podObject('x', nameOf(8), 2))
  tree.set(podKey('x', nameOf(13)), podObject('x', nameOf(13), 3))
  tree.delete(podKey('x', nameOf(0)))
  tree.delete(podKey('x', nameOf(18)))
  tree.delete(podKey('x', nameOf(99)))
  t.same(contentOf(tree), [
    ...[nameOf(2), nameOf(4), nameOf(6)].map((name) => [name, 1]),
    [nameOf(8), 2],
    ...[nameOf(10), nameOf(12)].map((name) => [name, 1]),
    [nameOf(13), 3],
    ...[nameOf(14), nameOf(16)].map((name) => [name, 1]),
  ])
  t.equal(tree.size, 9)
  t.same([tree.firstKey, tree.lastKey], [podKey('x', nameOf(2)), podKey('x', nameOf(16))])
  t.equal([...tree.objects('' as Key, null)].filter((object) => packOf(object) === packs[0]).length, 7)
  t.equal(before.size, PACKED)
  t.equal(contentOf(before).length, PACKED, 'a clone is as it was')
})

void t.test('a pack that is given up leaves its objects loose, and no other', async (t) => {
  const { tree, packs } = treeOf(3 * PACKED)
  tree.set(podKey('x', nameOf(25)), podObject('x', nameOf(25), 2))
  const content = contentOf(tree)
  tree.unpack(packs[1]!)
  t.same(contentOf(tree), content)
  t.equal(tree.size, 3 * PACKED + 1)
  const left = [...tree.objects('' as Key, null)].map(packOf)
  t.equal(left.filter((pack) => pack === null).length, PACKED + 1)
  t.notOk(left.includes(packs[1]!))
})

void t.test('a random tree agrees with a map, in every range, and so does every clone of it', async (t) => {
  const random = seededRandom(5)
  const { tree, packs } = treeOf(20 * PACKED)
  const model = new Map(contentOf(tree))
  const clones: { tree: ObjectTree; model: Map<string, number> }[] = []
  const anyKey = (): Key => podKey('x', nameOf(randomInteger(random, 0, 420)))
  for (let revision = 2; revision < 1_500; revision++) {
    const key = anyKey()
    const name = key.slice(podKey('x', '').length)
    t.equal(tree.get(key)?.modRevision, model.get(name))
    if (random.next() < 0.4) {
      tree.delete(key)
      model.delete(name)
    } else {
      tree.set(key, podObject('x', name, revision))
      model.set(name, revision)
    }
    if (random.next() < 0.01) tree.unpack(packs[randomInteger(random, 0, packs.length - 1)]!)
    if (random.next() < 0.02) clones.push({ tree: tree.clone(), model: new Map(model) })
  }
  t.ok(clones.length > 10)
  for (const { tree: clone, model: at } of [...clones, { tree, model }]) {
    const sorted = [...at].sort(([a], [b]) => (a < b ? -1 : 1))
    t.equal(clone.size, at.size)
    t.same(contentOf(clone), sorted)
    for (let i = 0; i < 20; i++) {
      const [start, end] = [anyKey(), random.next() < 0.2 ? null : anyKey()]
      const expected = sorted.filter(
        ([name]) => podKey('x', name) >= start && (end === null || podKey('x', name) < end),
      )
      t.same(contentOf(clone, start, end), expected)
      t.equal(
        [...clone.counts(start, end)].reduce((sum, count) => sum + count, 0),
        expected.length,
      )
    }
  }
})
