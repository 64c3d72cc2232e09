/** Tables for the pure parts of patches: the resulting object of each kind of patch, and the owners after an apply. */
import t from 'tap'
import {
  encodeJsonTree,
  type Json,
  type JsonRecord,
  member,
  parseJsonTree,
  record,
} from '../../../src/kubernetes/codec/json-tree.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import {
  finalizerWarnings,
  metadataProblems,
  newFinalizerProblems,
} from '../../../src/kubernetes/writes/metadata-rules.js'
import { PODS } from '../../support/objects.js'
import { applyConfiguration, type Manager, recordUpdate } from '../../../src/kubernetes/writes/managed-fields.js'
import { InvalidError } from '../../../src/kubernetes/model/status.js'
import { required } from '../../../src/kubernetes/writes/field-errors.js'
import { applyJsonPatch, unknownPatchMembers } from '../../../src/kubernetes/writes/json-patch.js'
import { applyMergePatch } from '../../../src/kubernetes/writes/merge-patch.js'
import { BuiltInShapes } from '../../../src/kubernetes/writes/shape.js'
import { applyStrategicPatch } from '../../../src/kubernetes/writes/strategic-patch.js'

const tree = (text: string): Json => parseJsonTree(Buffer.from(text)).value
const object = (text: string): JsonRecord => tree(text) as JsonRecord
const text = (value: Json): string => encodeJsonTree(value).toString()
const shapes = new BuiltInShapes(kubernetesSchema())
const podShape = shapes.ofKind('v1', 'Pod')!

type Row = readonly [promise: string, before: string, patch: string, after: string]

void t.test('merge patches follow RFC 7386', (t) => {
  const rows: readonly Row[] = [
    ['a member is replaced', '{"a":1}', '{"a":2}', '{"a":2}'],
    ['null deletes', '{"a":1,"b":2}', '{"a":null}', '{"b":2}'],
    ['objects are merged', '{"a":{"b":1,"c":2}}', '{"a":{"b":3}}', '{"a":{"b":3,"c":2}}'],
    ['lists are replaced', '{"a":[1,2]}', '{"a":[3]}', '{"a":[3]}'],
    ['nulls of a new object are left out', '{}', '{"a":{"b":null,"c":1}}', '{"a":{"c":1}}'],
    ['a scalar gives way to an object', '{"a":1}', '{"a":{"b":1}}', '{"a":{"b":1}}'],
    [
      'numbers keep their digits',
      '{"a":9007199254740993,"b":1.0}',
      '{"c":1e300}',
      '{"a":9007199254740993,"b":1.0,"c":1e300}',
    ],
    ['a number replaces a number', '{"a":1.50}', '{"a":-0}', '{"a":-0}'],
    ['constructor is a member', '{}', '{"constructor":{"x":1}}', '{"constructor":{"x":1}}'],
    ['__proto__ is a member', '{}', '{"__proto__":{"x":1}}', '{"__proto__":{"x":1}}'],
  ]
  for (const [promise, before, patch, after] of rows)
    t.equal(text(applyMergePatch(object(before), tree(patch))), after, promise)
  t.equal(({} as Record<string, unknown>)['x'], undefined, 'and nobody else has it')
  t.end()
})

void t.test('JSON patches follow RFC 6902, and the API server’s additions', (t) => {
  const rows: readonly Row[] = [
    [
      'add',
      '{"a":[1,3]}',
      '[{"op":"add","path":"/a/1","value":2},{"op":"add","path":"/a/-","value":4}]',
      '{"a":[1,2,3,4]}',
    ],
    [
      'copy and move',
      '{"a":{"b":1}}',
      '[{"op":"copy","from":"/a","path":"/c"},{"op":"move","from":"/a/b","path":"/d"}]',
      '{"a":{},"c":{"b":1},"d":1}',
    ],
    ['escapes', '{"a/b":{"~":1}}', '[{"op":"replace","path":"/a~1b/~0","value":2}]', '{"a/b":{"~":2}}'],
    [
      'digits through every operation',
      '{"a":9007199254740993,"b":{"c":1.0}}',
      '[{"op":"test","path":"/a","value":9007199254740993},{"op":"copy","from":"/b","path":"/d"},{"op":"add","path":"/e","value":1e3}]',
      '{"a":9007199254740993,"b":{"c":1.0},"d":{"c":1.0},"e":1e3}',
    ],
    [
      'an index that counts from the end',
      '{"a":[1,2,3]}',
      '[{"op":"remove","path":"/a/-1"},{"op":"replace","path":"/a/-2","value":9},{"op":"add","path":"/a/-1","value":4}]',
      '{"a":[9,2,4]}',
    ],
    [
      'the whole object',
      '{"a":{"b":1},"c":2}',
      '[{"op":"test","path":"","value":{"c":2,"a":{"b":1}}},{"op":"replace","path":"","value":{"d":[1]}},{"op":"copy","from":"/d","path":"/e"}]',
      '{"d":[1],"e":[1]}',
    ],
    [
      'a move within an array',
      '{"a":[1,2,3]}',
      '[{"op":"move","from":"/a/0","path":"/a/2"},{"op":"move","from":"/a/0","path":"/a/-"}]',
      '{"a":[3,1,2]}',
    ],
    ['__proto__ is a member', '{}', '[{"op":"add","path":"/__proto__","value":{"x":1}}]', '{"__proto__":{"x":1}}'],
    [
      'a missing member reads as null, and what is tested is then added (istiod allocates addresses so)',
      '{"status":{}}',
      '[{"op":"test","path":"/status/addresses","value":null},{"op":"replace","path":"/status/addresses","value":["a"]}]',
      '{"status":{"addresses":["a"]}}',
    ],
    [
      'a copy of nothing, and a missing value, are null',
      '{"__proto__":{"x":1}}',
      '[{"op":"copy","from":"/constructor","path":"/a"},{"op":"add","path":"/b"},{"op":"test","path":"/c"}]',
      '{"__proto__":{"x":1},"a":null,"b":null}',
    ],
    [
      'a value that was added and then changed',
      '{}',
      '[{"op":"add","path":"/a","value":{}},{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/a/x","value":1}]',
      '{"a":{"x":1},"b":{}}',
    ],
  ]
  for (const [promise, before, patch, after] of rows) {
    const [given, operations] = [object(before), tree(patch)]
    t.equal(text(applyJsonPatch(given, operations)), after, promise)
    t.equal(text(given), text(object(before)), `${promise}: the object stays as it was`)
    t.equal(text(applyJsonPatch(given, operations)), after, `${promise}, when it is tried again`)
  }
  const refused: readonly (readonly [patch: string, code: number])[] = [
    ['{}', 400],
    ['[1]', 400],
    ['[{"op":"add","path":"a","value":1}]', 422],
    ['[{"op":"add","path":"","value":{}}]', 422],
    ['[{"op":"copy","from":"","path":"/x"}]', 422],
    ['[{"op":"copy","path":"/a"}]', 422],
    ['[{"op":"remove","path":"/none"}]', 422],
    ['[{"op":"add","path":"/list/9","value":1}]', 422],
    ['[{"op":"add","path":"/list/0x1","value":1}]', 422],
    ['[{"op":"test","path":"/n","value":2}]', 422],
    ['[{"op":"add","path":"/__proto__/x","value":1}]', 422],
    ['[{"op":"copy","from":"/__proto__/x","path":"/x"}]', 422],
    ['[{"op":"test","path":"/constructor","value":{}}]', 422],
    ['[{"op":"remove","path":""}]', 422],
    ['[{"op":"replace","path":"","value":[]}]', 422],
    ['[{"op":"remove","path":"/list/-2"}]', 422],
    ['[{"op":"remove","path":"/list/-"}]', 422],
    ['[{"op":"add","path":"/list/length","value":1}]', 422],
    ['[{"op":"add","path":"/n/x","value":1}]', 422],
    ['[{"op":"add","path":"/list/0/x","value":1}]', 422],
    ['[{"op":"move","from":"/list","path":"/list/0"}]', 422],
    ['[{"op":"test","path":"/none","value":1}]', 422],
    ['[{"op":"test","path":"/list","value":{"0":1}}]', 422],
    ['[{"op":"test","path":"/list","value":[1.0]}]', 422],
    ['[{"op":"test","path":"/list","value":[1,2]}]', 422],
    ['[{"op":"Add","path":"/a","value":1}]', 422],
  ]
  for (const [patch, code] of refused) {
    t.throws(() => applyJsonPatch(object('{"n":1.5,"list":[1]}'), tree(patch)), { code }, patch)
  }
  const doubling = Array.from({ length: 40 }, (_, i) => `{"op":"copy","from":"","path":"/a${i}"}`).join(',')
  t.throws(
    () => applyJsonPatch(object('{"a":"xxxxxxxxxxxxxxxx"}'), tree(`[${doubling}]`)),
    { code: 422 },
    'a patch that doubles',
  )
  const many = Array.from({ length: 10_001 }, () => '{"op":"test","path":"/a","value":1}').join(',')
  t.throws(() => applyJsonPatch(object('{"a":1}'), tree(`[${many}]`)), { code: 413 }, 'more than 10,000 operations')
  t.end()
})

void t.test('a JSON patch reports a hundred unknown members', (t) => {
  const operation = record(Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`m${i}`, 1])))
  const unknown = unknownPatchMembers([operation])
  t.equal(unknown.length, 100)
  t.equal(unknown[99], '[0].m99')
  t.throws(() => unknownPatchMembers([operation, record({ op: 1 })]), { code: 400 }, 'members after them are checked')
  t.end()
})

void t.test('the cost of a JSON patch is bounded', (t) => {
  const numbers = (length: number, first: number): string => JSON.stringify(Array.from({ length }, (_, i) => first + i))
  const patchOf = (length: number, operation: (i: number) => object): Json =>
    tree(JSON.stringify(Array.from({ length }, (_, i) => operation(i))))

  void t.test('a test visits each value once, whatever differs', (t) => {
    const items = 3_000
    const before = object(`{"a":${numbers(items, 0)}}`)
    const shifted = tree(`[{"op":"test","path":"/a","value":${numbers(items, 1)}}]`)
    t.throws(() => applyJsonPatch(before, shifted, 10), { code: 422 }, 'it ends at the first difference')
    const same = tree(`[{"op":"test","path":"/a","value":${numbers(items, 0)}}]`)
    t.ok(applyJsonPatch(before, same, items + 1), 'and visits as many values as there are')
    t.throws(() => applyJsonPatch(before, same, items), { code: 413 })
    t.end()
  })
  void t.test('moves in a large array are bounded', (t) => {
    const before = object(`{"a":${numbers(300_000, 0)}}`)
    const moves = patchOf(9_000, () => ({ op: 'move', from: '/a/299999', path: '/a/0' }))
    t.throws(() => applyJsonPatch(before, moves), { code: 413 })
    const removes = patchOf(9_000, () => ({ op: 'remove', path: '/a/0' }))
    t.throws(() => applyJsonPatch(before, removes), { code: 413 })
    t.ok(applyJsonPatch(object(`{"a":${numbers(9_000, 0)}}`), removes), 'those in an array of usual size are not')
    t.end()
  })
  void t.test('a result too deep to be read back is rejected, and no stack overflows', (t) => {
    const chain = (levels: number): string => `${'{"a":'.repeat(levels)}{}${'}'.repeat(levels)}`
    // Each step moves the whole object four hundred levels down.
    const steps = Array.from(
      { length: 60 },
      () => `{"op":"add","path":"/y","value":${chain(400)}},{"op":"move","from":"/x","path":"/y${'/a'.repeat(400)}/b"},
      {"op":"move","from":"/y","path":"/x"}`,
    )
    const nesting = `[${steps.join(',')},{"op":"copy","from":"/x","path":"/z"}]`
    t.throws(() => applyJsonPatch(object('{"x":{}}'), tree(nesting)), { code: 422 }, 'copied')
    t.throws(() => applyJsonPatch(object('{"x":{}}'), tree(`[${steps.join(',')}]`)), { code: 422 }, 'left behind')
    const tested = `[${steps.join(',')},{"op":"test","path":"/x","value":${chain(400)}}]`
    t.throws(() => applyJsonPatch(object('{"x":{}}'), tree(tested)), { code: 422 }, 'tested')
    t.end()
  })
  t.end()
})

void t.test('strategic merge patches give the API server’s results', (t) => {
  const containers =
    '{"spec":{"containers":[{"name":"a","image":"a:1","env":[{"name":"X","value":"1"}]},{"name":"b","image":"b:1"}]}}'
  const rows: readonly Row[] = [
    [
      'an item by its key',
      containers,
      '{"spec":{"containers":[{"name":"b","image":"b:2"}]}}',
      '{"spec":{"containers":[{"name":"a","image":"a:1","env":[{"name":"X","value":"1"}]},{"name":"b","image":"b:2"}]}}',
    ],
    [
      'a new item comes first',
      '{"spec":{"containers":[{"name":"a"}]}}',
      '{"spec":{"containers":[{"name":"c"}]}}',
      '{"spec":{"containers":[{"name":"c"},{"name":"a"}]}}',
    ],
    [
      'a list in an item',
      containers,
      '{"spec":{"containers":[{"name":"a","env":[{"name":"Y","value":"2"}]}]}}',
      '{"spec":{"containers":[{"name":"a","image":"a:1","env":[{"name":"Y","value":"2"},{"name":"X","value":"1"}]},{"name":"b","image":"b:1"}]}}',
    ],
    [
      '$patch: delete',
      containers,
      '{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}',
      '{"spec":{"containers":[{"name":"b","image":"b:1"}]}}',
    ],
    [
      '$patch: replace of a list',
      containers,
      '{"spec":{"containers":[{"name":"c"},{"$patch":"replace"}]}}',
      '{"spec":{"containers":[{"name":"c"}]}}',
    ],
    [
      '$patch: replace of an object',
      '{"metadata":{"labels":{"a":"1"}}}',
      '{"metadata":{"labels":{"$patch":"replace","b":"2"}}}',
      '{"metadata":{"labels":{"b":"2"}}}',
    ],
    [
      'a set is united',
      '{"metadata":{"finalizers":["a/a"]}}',
      '{"metadata":{"finalizers":["b/b","a/a"]}}',
      '{"metadata":{"finalizers":["a/a","b/b"]}}',
    ],
    [
      '$deleteFromPrimitiveList',
      '{"metadata":{"finalizers":["a/a","b/b"]}}',
      '{"metadata":{"$deleteFromPrimitiveList/finalizers":["a/a"]}}',
      '{"metadata":{"finalizers":["b/b"]}}',
    ],
    [
      '$setElementOrder',
      '{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}',
      '{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","image":"x"}]}}',
      '{"spec":{"containers":[{"name":"b"},{"name":"a","image":"x"}]}}',
    ],
    [
      '$retainKeys',
      '{"spec":{"volumes":[{"name":"v","emptyDir":{}}]}}',
      '{"spec":{"volumes":[{"$retainKeys":["name","hostPath"],"name":"v","hostPath":{"path":"/"}}]}}',
      '{"spec":{"volumes":[{"name":"v","hostPath":{"path":"/"}}]}}',
    ],
    [
      'an atomic list is replaced',
      '{"spec":{"containers":[{"name":"a","args":["1"]}]}}',
      '{"spec":{"containers":[{"name":"a","args":["2"]}]}}',
      '{"spec":{"containers":[{"name":"a","args":["2"]}]}}',
    ],
    [
      'null deletes',
      '{"spec":{"nodeName":"n","hostname":"h"}}',
      '{"spec":{"nodeName":null}}',
      '{"spec":{"hostname":"h"}}',
    ],
  ]
  for (const [promise, before, patch, after] of rows) {
    t.equal(text(applyStrategicPatch(object(before), tree(patch), podShape)), after, promise)
  }
  for (const patch of ['[]', '{"$patch":"delete"}', '{"$patch":"mend"}', '{"spec":{"containers":[{"image":"x"}]}}']) {
    t.throws(() => applyStrategicPatch(object(containers), tree(patch), podShape), { code: 400 }, patch)
  }
  t.end()
})

const manager = (name: string): Manager => ({ name, apiVersion: 'v1', subresource: '', time: '2026-01-01T00:00:00Z' })
const pod = (spec: string): JsonRecord =>
  object(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":${spec}}`)

void t.test('an apply owns the fields that it contains, and releases those that it no longer contains', (t) => {
  const apply = (live: JsonRecord | null, spec: string, name: string, force = false): JsonRecord =>
    applyConfiguration(live, pod(spec), podShape, manager(name), force)
  const first = apply(
    null,
    '{"containers":[{"name":"a","image":"1","ports":[{"containerPort":80}]}],"nodeName":"n"}',
    'one',
  )
  t.match(
    text(first['metadata']!),
    /"f:containers":\{"k:\{\\?"name\\?":\\?"a\\?"\}":\{"\.":\{\},"f:image":\{\},"f:name":\{\},"f:ports":\{"k:\{\\?"containerPort\\?":80,\\?"protocol\\?":\\?"TCP\\?"\}"/,
  )
  const second = apply(first, '{"containers":[{"name":"b","image":"1"}]}', 'two')
  t.match(second['spec'], { containers: [{ name: 'a' }, { name: 'b' }], nodeName: 'n' }, 'items of two managers')
  const third = apply(second, '{"containers":[{"name":"a","image":"2"}]}', 'one')
  t.same(
    text(third['spec']!),
    '{"containers":[{"name":"a","image":"2"},{"name":"b","image":"1"}]}',
    'ports and nodeName are gone',
  )
  t.throws(() => apply(third, '{"containers":[{"name":"a","image":"3"}]}', 'two'), {
    code: 409,
    message: 'Apply failed with 1 conflict: conflict with "one": .spec.containers[name="a"].image',
    details: { causes: [{ reason: 'FieldManagerConflict', field: '.spec.containers[name="a"].image' }] },
  })
  const forced = apply(third, '{"containers":[{"name":"a","image":"3"},{"name":"b","image":"1"}]}', 'two', true)
  const after = apply(forced, '{"containers":[]}', 'one')
  t.same(
    text(after['spec']!),
    '{"containers":[{"name":"a","image":"3"},{"name":"b","image":"1"}]}',
    'two owns the item now',
  )
  const shared = apply(apply(null, '{"nodeName":"n"}', 'one'), '{"nodeName":"n"}', 'two')
  t.match(apply(shared, '{}', 'one')['spec'], { nodeName: 'n' }, 'what another owns too stays')
  t.end()
})

void t.test('kubectl’s annotation of the last apply is updated, or deleted if it would be too long', (t) => {
  const name = 'kubectl.kubernetes.io/last-applied-configuration'
  const live = object(JSON.stringify({ metadata: { name: 'p', annotations: { [name]: '{}', other: 'a' } } }))
  const annotationsAfter = (length: number): Json | undefined => {
    const config = pod(JSON.stringify({ nodeName: 'n'.repeat(length) }))
    return member(applyConfiguration(live, config, podShape, manager('kubectl'), true), 'metadata', 'annotations')
  }
  t.match(annotationsAfter(1_000), { [name]: /"nodeName":"n+"\}\}\n$/, other: 'a' })
  t.same(annotationsAfter(256 * 1024), { other: 'a' })
  t.end()
})

void t.test('an update takes ownership of the fields that it changes', (t) => {
  const applied = applyConfiguration(null, pod('{"nodeName":"n","hostname":"h"}'), podShape, manager('one'), false)
  const updated = pod('{"nodeName":"m","hostname":"h"}')
  recordUpdate(applied, updated, podShape, manager('editor'))
  const entries = (updated['metadata'] as { managedFields: { manager: string; operation: string; fieldsV1: object }[] })
    .managedFields
  t.match(entries, [
    { manager: 'one', operation: 'Apply', fieldsV1: { 'f:spec': { 'f:hostname': {} } } },
    { manager: 'editor', operation: 'Update', fieldsV1: { 'f:spec': { 'f:nodeName': {} } } },
  ])
  t.notOk('f:nodeName' in ((entries[0]!.fieldsV1 as Record<string, object>)['f:spec'] ?? {}))
  t.throws(() => applyConfiguration(updated, pod('{"nodeName":"n"}'), podShape, manager('one'), false), { code: 409 })
  for (let i = 0; i < 30; i++) {
    const before = object(text(updated))
    ;(updated['spec'] as JsonRecord)['nodeName'] = `n${i}`
    recordUpdate(before, updated, podShape, manager(`m${i}`))
  }
  t.ok((updated['metadata'] as { managedFields: unknown[] }).managedFields.length <= 12, 'entries are bounded')
  t.end()
})

void t.test('webhooks, whose list has a capital in protobuf, are merged by their names', (t) => {
  const shape = shapes.ofKind('admissionregistration.k8s.io/v1', 'MutatingWebhookConfiguration')!
  const before = '{"webhooks":[{"name":"a","timeoutSeconds":1},{"name":"b"}]}'
  const patch = '{"webhooks":[{"name":"a","timeoutSeconds":2}]}'
  const merged = applyStrategicPatch(object(before), object(patch), shape)
  t.equal(text(merged), '{"webhooks":[{"name":"a","timeoutSeconds":2},{"name":"b"}]}')
  t.end()
})

void t.test('the cost of a list in a strategic merge patch grows only with its length', (t) => {
  // With this many items, comparing every pair would take minutes.
  const count = 60_000
  const podOf = (first: number, extra: object = {}): JsonRecord => {
    const containers = Array.from({ length: count }, (_, i) => ({ name: `c${first + i}` }))
    const finalizers = Array.from({ length: count }, (_, i) => `x.io/f${first + i}`)
    return object(JSON.stringify({ metadata: { finalizers, ...extra }, spec: { containers } }))
  }
  const names = (list: Json | undefined): readonly Json[] => list as Json[]
  const merged = applyStrategicPatch(podOf(0), podOf(count / 2), podShape)
  t.equal(names((merged['spec'] as JsonRecord)['containers']).length, count * 1.5, 'items by their keys')
  const { finalizers } = merged['metadata'] as JsonRecord
  t.equal(names(finalizers).length, count * 1.5, 'a set')
  const reversed = Array.from({ length: count }, (_, i) => `x.io/f${count - 1 - i}`)
  const shrunk = applyStrategicPatch(
    podOf(0),
    object(
      JSON.stringify({
        metadata: {
          '$deleteFromPrimitiveList/finalizers': reversed.slice(0, count / 2),
          '$setElementOrder/finalizers': reversed,
        },
        spec: { containers: Array.from({ length: count }, (_, i) => ({ name: `c${i}`, $patch: 'delete' })) },
      }),
    ),
    podShape,
  )
  t.same((shrunk['metadata'] as JsonRecord)['finalizers'], reversed.slice(count / 2), 'deleted and put in order')
  t.same((shrunk['spec'] as JsonRecord)['containers'], [])
  t.end()
})

void t.test('finalizers are checked once each', (t) => {
  const finalizers = Array.from({ length: 150_000 }, (_, i) => `x.io/f${i}`)
  const metadata = record({ name: 'a', finalizers: [...finalizers, 'x.io/f7'] })
  const resource = PODS
  t.same(metadataProblems(resource, metadata, false), [], 'one may be there twice, as in the API server')
  t.same(newFinalizerProblems(record({ finalizers, deletionTimestamp: 'now' }), record({ finalizers })), [])
  t.same(finalizerWarnings(record({ finalizers }), record({ finalizers })), [])
  t.end()
})

void t.test('an answer lists a hundred problems, and how many more there are', (t) => {
  const causes = Array.from({ length: 200_000 }, (_, i) => required(`spec.items[${i}].name`))
  const error = InvalidError.forFields('Pod', '', 'a', causes)
  t.equal(error.toStatus().details?.causes?.length, 100)
  t.match(error.message, /spec\.items\[99\]\.name: Required value, and 199900 more\]$/)
  t.end()
})
