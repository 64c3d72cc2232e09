/** Tests sets of owned fields, at sizes that a body of 3 MB can have: with a wrong algorithm they would not finish. */
import t from 'tap'
import { type Json, type JsonRecord, treeFrom } from '../../../src/kubernetes/codec/json-tree.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { compareFields, elementText, fieldsOf, FieldSet } from '../../../src/kubernetes/writes/field-set.js'
import { applyConfiguration } from '../../../src/kubernetes/writes/managed-fields.js'
import { ANY, BuiltInShapes } from '../../../src/kubernetes/writes/shape.js'

const podShape = new BuiltInShapes(kubernetesSchema()).ofKind('v1', 'Pod')!
const manager = (name: string) => ({ name, apiVersion: 'v1', subresource: '', time: '2026-01-01T00:00:00Z' })

function pod(containers: number, image: string): JsonRecord {
  const list = Array.from({ length: containers }, (_, i) => ({ name: `c${i}`, image }))
  return treeFrom({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: { containers: list } }) as JsonRecord
}

void t.test('changes are reported field by field', (t) => {
  const before = treeFrom({ a: { b: 1, gone: { x: 1 } }, same: { deep: [1] } })
  const after = treeFrom({ a: { b: 2, new: { y: 1 } }, same: { deep: [1] } })
  const { added, modified, removed } = compareFields(before, after, ANY)
  t.same([...added.paths()], ['.a.new', '.a.new.y'])
  t.same([...modified.paths()], ['.a.b'])
  t.same([...removed.paths()], ['.a.gone', '.a.gone.x'])
  t.end()
})

void t.test('items with the same key are one value, beside which others are compared item by item', (t) => {
  const withEnv = (...env: readonly (readonly [string, string])[]): Json =>
    treeFrom({ spec: { containers: [{ name: 'c', env: env.map(([name, value]) => ({ name, value })) }] } })
  const once = withEnv(['A', '1'], ['B', '1'])
  const twice = withEnv(['A', '1'], ['B', '1'], ['A', '2'])
  const changes = (before: Json, after: Json) => {
    const { added, modified, removed } = compareFields(before, after, podShape)
    const texts = (set: FieldSet) =>
      [...set.paths()].map((path) => path.replace('.spec.containers[name="c"].env', '')).sort()
    return { added: texts(added), modified: texts(modified), removed: texts(removed) }
  }
  const none = { added: [], modified: [], removed: [] }
  const whole = ['[name="A"]', '[name="A"].name', '[name="A"].value']
  t.same(changes(twice, twice), none)
  t.same(changes(twice, withEnv(['A', '1'], ['B', '2'], ['A', '2'])), { ...none, modified: ['[name="B"].value'] })
  t.same(changes(twice, withEnv(['A', '1'], ['B', '1'], ['A', '3'])), { ...none, modified: ['[name="A"]'] })
  t.same(changes(once, twice), { ...none, added: ['[name="A"]'], removed: whole })
  t.same(changes(twice, once), { ...none, added: whole, removed: ['[name="A"]'] })
  t.same(changes(twice, withEnv(['B', '1'])), { ...none, removed: ['[name="A"]'] })
  t.same(
    [...fieldsOf(twice, podShape).paths()].filter((path) => path.includes('name="A"')),
    ['.spec.containers[name="c"].env[name="A"]'],
  )
  t.end()
})

void t.test('an apply of 60,000 containers replaces as many, and back', (t) => {
  const first = applyConfiguration(null, pod(60_000, 'one'), podShape, manager('a'), false)
  const second = applyConfiguration(first, pod(60_000, 'two'), podShape, manager('a'), false)
  const containers = (second['spec'] as JsonRecord)['containers'] as Json[]
  t.equal(containers.length, 60_000)
  t.match(containers[59_999], { name: 'c59999', image: 'two' })
  t.end()
})

void t.test('conflicts are counted, and the first are named', (t) => {
  const live = applyConfiguration(null, pod(20_000, 'one'), podShape, manager('a'), false)
  try {
    applyConfiguration(live, pod(20_000, 'two'), podShape, manager('b'), false)
    t.fail('nobody was in conflict')
  } catch (error) {
    t.match(error, { code: 409, message: /^Apply failed with 20000 conflicts: conflicts with "a"/ })
    t.match(error, { message: /\n- and 19900 more$/ })
    t.equal((error as { details: { causes: unknown[] } }).details.causes.length, 100)
  }
  t.end()
})

void t.test('a path in a conflict has a limited length, however long its keys are', (t) => {
  const name = 'n'.repeat(1024 * 1024)
  const podWith = (value: string): JsonRecord => {
    const env = Array.from({ length: 100 }, (_, i) => ({ name: `v${i}`, value }))
    return treeFrom({ metadata: { name: 'p' }, spec: { containers: [{ name, env }] } }) as JsonRecord
  }
  const live = applyConfiguration(null, podWith('one'), podShape, manager('a'), false)
  t.throws(() => applyConfiguration(live, podWith('two'), podShape, manager('b'), false), {
    code: 409,
    message:
      /^Apply failed with 100 conflicts: conflicts with "a":\n- \.spec\.containers\[name="n{2000,}…\n.{0,300000}$/s,
  })
  t.end()
})

void t.test('values that differ only at a great depth are compared', (t) => {
  const nested = (bottom: unknown): Json => {
    let value = bottom
    for (let level = 0; level < 500; level++) value = { m: value }
    return treeFrom(value)
  }
  const names = Array.from({ length: 50_000 }, (_, i) => [`n${i}`, i])
  const before = nested({ ...Object.fromEntries(names), x: 1 })
  const after = nested({ ...Object.fromEntries(names), x: 2 })
  const { modified } = compareFields(before, after, ANY)
  t.equal([...modified.paths()].length, 1)
  t.end()
})

void t.test('thousands of managers are merged in one pass', (t) => {
  const sets = Array.from({ length: 10_000 }, (_, i) => fieldsOf(treeFrom({ [`f${i}`]: 1 }), ANY))
  const all = FieldSet.unionOf(sets)
  t.equal(all.children.size, 10_000)
  t.ok(all.difference(all).isEmpty)
  t.equal(all.intersection(sets[7]!).children.size, 1)
  t.end()
})

void t.test('field-set - a key of another manager is written out only if it is a map of scalars', async (t) => {
  const deep = `{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`
  for (const [key, text] of [
    ['{"name":"a","port":80}', '[name="a",port=80]'],
    ['{"a":[1]}', '[{"a":[1]}]'],
    ['{"a":{"b":1}}', '[{"a":{"b":1}}]'],
    [deep, `[${deep}]`],
    ['[1]', '[[1]]'],
    ['{', '[{]'],
  ] as const) {
    t.equal(elementText(`k:${key}`), text)
  }
})
