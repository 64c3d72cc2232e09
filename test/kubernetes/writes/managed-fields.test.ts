/** Tests whose fields are whose after an update or an apply that other tests do not cover: entries given by a client. */
import t from 'tap'
import { type Json, type JsonRecord, member, treeFrom } from '../../../src/kubernetes/codec/json-tree.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { applyConfiguration, type Manager, recordUpdate } from '../../../src/kubernetes/writes/managed-fields.js'
import { BuiltInShapes } from '../../../src/kubernetes/writes/shape.js'

const shape = new BuiltInShapes(kubernetesSchema()).ofKind('v1', 'ConfigMap')!
const manager = (name: string, more: Partial<Manager> = {}): Manager => ({
  name,
  apiVersion: 'v1',
  subresource: '',
  time: '2026-01-01T00:00:00Z',
  ...more,
})
const configMap = (data: Readonly<Record<string, string>>, managedFields?: unknown): JsonRecord =>
  treeFrom({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'c', ...(managedFields === undefined ? {} : { managedFields }) },
    data,
  }) as JsonRecord
const entriesOf = (object: JsonRecord): readonly JsonRecord[] =>
  (member(object, 'metadata', 'managedFields') ?? []) as readonly JsonRecord[]
const ownersOf = (object: JsonRecord): readonly (readonly [Json, Json])[] =>
  entriesOf(object).map((entry) => [entry['manager']!, entry['operation']!])

const given = (name: string, more: object = {}): object => ({
  manager: name,
  operation: 'Apply',
  apiVersion: 'v1',
  fieldsType: 'FieldsV1',
  fieldsV1: { 'f:data': { 'f:a': {} } },
  ...more,
})

void t.test('an update sets the owners that it contains, as kubectl does after client-side apply', (t) => {
  const live = configMap({ a: '1', b: '1' })
  recordUpdate(null, live, shape, manager('kubectl-client-side-apply'))
  t.same(ownersOf(live), [['kubectl-client-side-apply', 'Update']])
  const updated = (managedFields: unknown, data = { a: '1', b: '1' }, by = manager('editor')): JsonRecord => {
    const after = configMap(data, managedFields)
    recordUpdate(live, after, shape, by)
    return after
  }
  t.same(ownersOf(updated([given('kubectl')])), [['kubectl', 'Apply']])
  const changed = updated([given('kubectl'), given('other', { operation: 'Update' })], { a: '2', b: '1' })
  t.same(ownersOf(changed), [['editor', 'Update']], 'a changed field is the editor’s')
  t.same(ownersOf(updated([])), [], 'a reset')
  t.same(ownersOf(updated([{}])), [])
  const status = manager('editor', { subresource: 'status' })
  for (const list of [undefined, [given('kubectl')], []]) {
    t.same(entriesOf(updated(list, undefined, status)), entriesOf(live), 'a subresource keeps them')
  }
  t.equal(ownersOf(updated(Array.from({ length: 20 }, (_, i) => given(`m${i}`, { operation: 'Update' })))).length, 10)

  const unreadable = [
    { operation: 'Patch' },
    { operation: undefined },
    { apiVersion: '' },
    { fieldsType: 'FieldsV2' },
    { fieldsType: undefined },
    { fieldsV1: [] },
    { fieldsV1: { data: {} } },
    { fieldsV1: { f: {} } },
    { fieldsV1: { 'f:data': 1 } },
    { fieldsV1: { 'f:data': { 'k:{': {} } } },
    { fieldsV1: { 'f:data': { 'k:1': {} } } },
    { fieldsV1: { 'f:data': { 'v:': {} } } },
    { fieldsV1: { 'f:data': { 'i:x': {} } } },
  ]
  for (const wrong of unreadable) {
    const text = JSON.stringify(wrong)
    t.same(entriesOf(updated([given('kubectl'), given('x', wrong)])), entriesOf(live), `${text} keeps the live ones`)
  }
  t.same(entriesOf(updated([{}, {}])), entriesOf(live))
  const keys = { 'f:data': { 'k:{"a":1}': {}, 'v:"x"': {}, 'i:0': {}, 'x:later': {}, 'f:a': { '.': {} } } }
  t.same(ownersOf(updated([given('kubectl', { fieldsV1: keys })])), [['kubectl', 'Apply']])
  t.same(ownersOf(updated([given('kubectl', { fieldsV1: null })])), [], 'an entry without fields owns nothing')
  t.end()
})

void t.test('a create owns all of its fields, whatever its managedFields', (t) => {
  const object = configMap({ a: '1' }, [given('m'), given('n', { fieldsV1: { 'f:data': { 'f:z': {} } } })])
  recordUpdate(null, object, shape, manager('creator'))
  t.same(ownersOf(object), [
    ['n', 'Apply'],
    ['creator', 'Update'],
  ])
  t.end()
})

void t.test('a manager that applies in another version of the kind is the same manager', (t) => {
  const apply = (live: JsonRecord | null, data: Record<string, string>, apiVersion: string, time: string): JsonRecord =>
    applyConfiguration(live, configMap(data), shape, manager('m', { apiVersion, time }), false)
  const old = apply(null, { a: '1', b: '1' }, 'v1beta1', '2026-01-01T00:00:00Z')
  const same = apply(old, { a: '1', b: '1' }, 'v1', '2026-01-02T00:00:00Z')
  t.match(entriesOf(same), [{ manager: 'm', apiVersion: 'v1', time: '2026-01-02T00:00:00Z' }])
  t.equal(entriesOf(same).length, 1)
  t.same(apply(same, { a: '1', b: '1' }, 'v1', '2026-01-03T00:00:00Z'), same, 'nothing changes')
  const changed = apply(old, { a: '2' }, 'v1', '2026-01-02T00:00:00Z')
  t.same(changed['data'], { a: '2' }, 'it conflicts with nothing, and what it no longer applies is removed')

  // Earlier releases stored an entry for each version.
  const twice = configMap({ a: '1', b: '1' }, [
    given('m', { apiVersion: 'v1beta1', fieldsV1: { 'f:data': { 'f:b': {} } } }),
    given('m'),
  ])
  const merged = apply(twice, { a: '1' }, 'v1', '2026-01-02T00:00:00Z')
  t.same(merged['data'], { a: '1' })
  t.same(ownersOf(merged), [['m', 'Apply']])
  const [beta, stable] = [manager('m', { apiVersion: 'v1beta1' }), manager('m')]
  const updated = configMap({ a: '1' })
  recordUpdate(null, updated, shape, beta)
  const again = configMap({ a: '1', b: '1' })
  recordUpdate(updated, again, shape, stable)
  t.equal(entriesOf(again).length, 2, 'one that updates has an entry for each version')
  t.end()
})
