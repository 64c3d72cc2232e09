import t from 'tap'
import { encodeJsonTree, type Json, parseJsonTree } from '../../../src/kubernetes/codec/json-tree.js'
import { fillDefaults, pruneNulls, pruneUnknown } from '../../../src/kubernetes/codec/structural-change.js'
import { type OpenApiSchema, structuralOf } from '../../../src/kubernetes/codec/structural-schema.js'

const of = (properties: object, more: object = {}): OpenApiSchema => ({ type: 'object', properties, ...more })
const text = { type: 'string' }
const keeps = { 'x-kubernetes-preserve-unknown-fields': true }

const tree = (value: unknown): Json => parseJsonTree(Buffer.from(JSON.stringify(value))).value
const plain = (value: Json): unknown => JSON.parse(encodeJsonTree(value).toString())

void t.test('defaults are filled in where a value is absent, or is a null that is not allowed', (t) => {
  const schema = of({
    a: { type: 'integer', default: 1 },
    nested: of({ b: { ...text, default: 'x' } }),
    made: of({ c: { type: 'boolean', default: true } }, { default: {} }),
    items: { type: 'array', items: of({ d: { ...text, default: 'y' } }) },
    list: { type: 'array', items: { type: 'integer', default: 7 } },
    map: { type: 'object', additionalProperties: of({ e: { type: 'integer', default: 2 } }) },
    numbers: { type: 'object', additionalProperties: { type: 'integer', default: 3 } },
    nullable: { ...text, nullable: true, default: 'z' },
  })
  const object = tree({ items: [{}], list: [1, null], map: { k: {} }, numbers: { n: null }, nullable: null, a: null })
  t.equal(fillDefaults(object, structuralOf(schema)), true)
  t.same(plain(object), {
    items: [{ d: 'y' }],
    list: [1, 7],
    map: { k: { e: 2 } },
    numbers: { n: 3 },
    nullable: null,
    a: 1,
    made: { c: true },
  })
  t.equal(fillDefaults(object, structuralOf(schema)), false, 'and once is enough')
  t.end()
})

void t.test('a default is itself pruned, and shared with no object', (t) => {
  const schema = structuralOf(of({ a: of({ b: { type: 'integer' } }, { default: { b: 9, gone: 1 } }) }))
  const [first, second] = [tree({}), tree({})]
  fillDefaults(first, schema)
  ;(first as { a: { b: Json } }).a.b = 1
  fillDefaults(second, schema)
  t.same(plain(second), { a: { b: 9 } })
  t.end()
})

const PRUNED: readonly (readonly [what: string, schema: OpenApiSchema, before: unknown, after: unknown])[] = [
  ['what is not declared', of({ a: text }), { a: 'x', b: 1 }, { a: 'x' }],
  ['type and metadata stay', of({}), { apiVersion: 'v1', kind: 'K', metadata: { name: 'a' }, x: 1 }, { apiVersion: 'v1', kind: 'K', metadata: { name: 'a' } }],
  ['inside the items of a list', of({ l: { type: 'array', items: of({ a: text }) } }), { l: [{ a: '', b: 1 }, 2] }, { l: [{ a: '' }, 2] }],
  ['inside the members of a map', of({ m: { type: 'object', additionalProperties: of({ a: text }) } }), { m: { k: { a: '', b: 1 } } }, { m: { k: { a: '' } } }],
  ['what is kept on purpose', of({ a: { type: 'object', ...keeps } }), { a: { any: { thing: [1] } } }, { a: { any: { thing: [1] } } }],
  ['declared within what is kept', of({ a: of({ b: of({ c: text }) }, keeps) }), { a: { x: { y: 1 }, b: { c: '', d: 1 } } }, { a: { x: { y: 1 }, b: { c: '' } } }],
  ['an object where none is declared is emptied', of({ a: text }), { a: { b: { c: 1 } } }, { a: {} }],
  ['a map of anything keeps what is not an object', of({ m: { type: 'object', additionalProperties: true } }), { m: { n: 1, o: { p: 1 } } }, { m: { n: 1, o: {} } }],
  ['an embedded object keeps its type and metadata', of({ e: of({ spec: of({}) }, { 'x-kubernetes-embedded-resource': true }) }), { e: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, more: 1, spec: { x: 1 } } }, { e: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'p' }, spec: {} } }],
  ['members named like those of every object', of({ a: text }), { a: '', toString: 1, ['__proto__']: 1 }, { a: '' }],
] // prettier-ignore

for (const [what, schema, before, after] of PRUNED) {
  void t.test(`pruning: ${what}`, (t) => {
    const object = tree(before)
    const isChanged = pruneUnknown(object, structuralOf(schema), true)
    t.same(plain(object), after)
    t.equal(isChanged, JSON.stringify(before) !== JSON.stringify(after))
    t.end()
  })
}

void t.test('the paths of pruned members are reported, up to a limit', (t) => {
  const schema = structuralOf(of({ l: { type: 'array', items: of({ a: text }) } }))
  const unknown = { path: [], found: [] as string[] }
  pruneUnknown(tree({ x: 1, l: [{ a: '' }, { b: 1 }] }), schema, true, unknown)
  t.same(unknown.found, ['x', 'l[1].b'])
  const many = { path: [], found: [] as string[] }
  pruneUnknown(tree(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`n${i}`, i]))), schema, true, many)
  t.equal(many.found.length, 64)
  t.end()
})

void t.test('a null that is not allowed is dropped where there is no default', (t) => {
  const schema = structuralOf(
    of({
      a: text,
      b: { ...text, nullable: true },
      c: { ...text, default: 'x' },
      d: of({ e: text }),
      list: { type: 'array', items: text },
      map: { type: 'object', additionalProperties: text },
      any: { type: 'object', additionalProperties: true },
    }),
  )
  const nulls = { a: null, b: null, c: null, d: { e: null }, list: [null], map: { k: null }, any: { k: null }, z: null }
  const object = tree(nulls)
  t.equal(pruneNulls(object, schema), true)
  t.same(plain(object), { b: null, c: null, d: {}, list: [null], map: {}, any: { k: null }, z: null })
  t.equal(pruneNulls(object, schema), false)
  t.end()
})
