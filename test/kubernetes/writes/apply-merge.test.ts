/** Tests applies over live lists in which a key occurs twice, which an API server stores for most built-in kinds. */
import t from 'tap'
import { type Json, type JsonRecord, member, treeFrom } from '../../../src/kubernetes/codec/json-tree.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { applyConfiguration, recordUpdate } from '../../../src/kubernetes/writes/managed-fields.js'
import { BuiltInShapes } from '../../../src/kubernetes/writes/shape.js'

const shape = new BuiltInShapes(kubernetesSchema()).ofKind('v1', 'Pod')!
const manager = (name: string) => ({ name, apiVersion: 'v1', subresource: '', time: '2026-01-01T00:00:00Z' })

type Env = readonly (readonly [name: string, value: string])[]

function pod(env: Env, finalizers: readonly string[] = []): JsonRecord {
  const list = env.map(([name, value]) => ({ name, value }))
  return treeFrom({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', finalizers },
    spec: { containers: [{ name: 'c', env: list }] },
  }) as JsonRecord
}

function envOf(object: JsonRecord): Json {
  const [container] = member(object, 'spec', 'containers') as readonly JsonRecord[]
  return (container!['env'] as readonly JsonRecord[]).map(({ name, value }) => [name!, value!])
}

const apply = (live: JsonRecord, env: Env, name: string, { force = false, finalizers = [] as string[] } = {}) =>
  applyConfiguration(live, pod(env, finalizers), shape, manager(name), force)

/** Created by `creator`. */
function stored(env: Env, finalizers: readonly string[] = []): JsonRecord {
  const live = pod(env, finalizers)
  recordUpdate(null, live, shape, manager('creator'))
  return live
}

const TWICE: Env = [
  ['A', '1'],
  ['B', '1'],
  ['A', '2'],
  ['C', '1'],
]

void t.test('an apply keeps the repeated items that it does not name', (t) => {
  const live = stored(TWICE, ['x/a', 'x/b', 'x/a'])
  const applied = apply(live, [['D', '1']], 'one', { finalizers: ['x/c'] })
  t.same(envOf(applied), [...TWICE, ['D', '1']])
  t.same(member(applied, 'metadata', 'finalizers'), ['x/a', 'x/b', 'x/a', 'x/c'])
  const dropped = apply(applied, [], 'one')
  t.same(envOf(dropped), TWICE, 'what it no longer applies is removed, and nothing else')
  t.same(member(dropped, 'metadata', 'finalizers'), ['x/a', 'x/b', 'x/a'])
  t.same(envOf(apply(applied, [['B', '2']], 'two', { force: true })), [
    ['A', '1'],
    ['B', '2'],
    ['A', '2'],
    ['C', '1'],
    ['D', '1'],
  ])
  t.throws(() => apply(applied, [['B', '2']], 'two'), { message: /1 conflict: .*env\[name="B"\]\.value$/ })
  t.end()
})

void t.test('an applied item replaces all with its key', (t) => {
  const live = stored(TWICE)
  t.throws(() => apply(live, [['A', '3']], 'one'), { message: /1 conflict: .*env\[name="A"\]$/ })
  const forced = apply(live, [['A', '3']], 'one', { force: true })
  t.same(envOf(forced), [
    ['A', '3'],
    ['B', '1'],
    ['C', '1'],
  ])
  t.same(envOf(apply(forced, [], 'one')), [
    ['B', '1'],
    ['C', '1'],
  ])
  t.end()
})

void t.test('an item that is repeated later is no longer its applier’s', (t) => {
  const applied = apply(stored([['B', '1']]), [['A', '1']], 'one')
  const updated = pod([
    ['B', '1'],
    ['A', '1'],
    ['A', '2'],
  ])
  recordUpdate(applied, updated, shape, manager('editor'))
  t.same(envOf(apply(updated, [], 'one')), [
    ['B', '1'],
    ['A', '1'],
    ['A', '2'],
  ])
  t.end()
})
