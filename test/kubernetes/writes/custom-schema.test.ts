/** Tests a definition's schema: what it defaults, what it prunes, and what it rejects with which message. */
import t from 'tap'
import { type JsonRecord, treeFrom } from '../../../src/kubernetes/codec/json-tree.js'
import { customProblems } from '../../../src/kubernetes/writes/custom-schema.js'
import { schemaProblem } from '../../../src/kubernetes/writes/schema-keywords.js'
import { ANY, customShape } from '../../../src/kubernetes/writes/shape.js'

type Schema = Readonly<Record<string, unknown>>

const tree = (value: unknown): JsonRecord => treeFrom(value) as JsonRecord
const of = (properties: Schema, more: Schema = {}): Schema => ({ type: 'object', properties, ...more })

function causes(schema: Schema, object: unknown): readonly string[] {
  const shape = customShape(schema, ANY)
  return customProblems(tree(object), schema, shape).map(
    ({ field, message, reason }) => `${field}: ${message} (${reason})`,
  )
}

void t.test('a schema rejects invalid values', (t) => {
  const rows: readonly (readonly [schema: Schema, object: unknown, ...causes: readonly (string | RegExp)[]])[] = [
    [
      of({ a: { type: 'string' } }),
      { a: 1 },
      'a: Invalid value: "integer": a in body must be of type string: "integer" (FieldValueTypeInvalid)',
    ],
    [of({ a: { type: 'integer' } }), { a: 1.5 }, /must be of type integer: "number"/],
    [of({ a: { type: 'integer' } }), { a: 1e19 }, /must be of type integer: "number"/],
    [of({ a: { type: 'integer' } }), { a: 1e21 }, /must be of type integer: "number"/],
    [
      of({ a: of({ b: { type: 'string' } }, { required: ['b'] }) }),
      { a: {} },
      'a.b: Required value (FieldValueRequired)',
    ],
    [
      of({ a: { type: 'string', enum: ['x', 'y'] } }),
      { a: 'z' },
      'a: Unsupported value: "z": supported values: "x", "y" (FieldValueNotSupported)',
    ],
    [of({ a: { type: 'integer', minimum: 1, maximum: 3 } }), { a: 4 }, /a in body should be less than or equal to 3/],
    [
      of({ a: { type: 'integer', minimum: 1, exclusiveMinimum: true } }),
      { a: 1 },
      /a in body should be greater than 1/,
    ],
    [of({ a: { type: 'string', pattern: '^x' } }), { a: 'y' }, /a in body should match '\^x'/],
    [of({ a: { type: 'string', maxLength: 1 } }), { a: 'yy' }, /at most 1 chars long/],
    [
      of({ a: { type: 'array', maxItems: 1, items: { type: 'string' } } }),
      { a: ['1', 2] },
      /at most 1 items/,
      /a\[1\] in body must be of type string/,
    ],
    [
      of({ a: { type: 'object', additionalProperties: { type: 'string' } } }),
      { a: { k: 1 } },
      /^a\.k: .*must be of type string/,
    ],
    [of({ a: { type: 'string', format: 'date-time' } }), { a: 'soon' }, /a in body must be of type date-time/],
    [of({ a: { 'x-kubernetes-int-or-string': true } }), { a: [] }, /must be of type integer,string/],
    [
      of({ a: { oneOf: [{ required: ['x'] }, { required: ['y'] }], type: 'object' } }),
      { a: {} },
      /a\.x: Required/,
      /a\.y: Required/,
      /must validate one and only one schema/,
    ],
    [
      of({ a: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } } }),
      { a: ['x', 'x'] },
      'a[1]: Duplicate value: "x" (FieldValueDuplicate)',
    ],
    [
      of({
        a: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['k'],
          items: of({ k: { type: 'string' } }),
        },
      }),
      { a: [{ k: 'x' }, { k: 'x' }] },
      /a\[1\]: Duplicate value: \{"k":"x"\}/,
    ],
    [of({ a: { type: 'string' } }), { a: null }, /must be of type string: "null"/],
  ]
  for (const [schema, object, ...wanted] of rows) {
    const found = causes(schema, object)
    t.equal(found.length, wanted.length, JSON.stringify(found))
    wanted.forEach((want, i) => (typeof want === 'string' ? t.equal(found[i], want) : t.match(found[i], want)))
  }
  const fine: readonly (readonly [schema: Schema, object: unknown])[] = [
    [of({ a: { type: 'string', nullable: true, enum: ['x'] } }), { a: null }],
    [of({ a: { 'x-kubernetes-int-or-string': true, anyOf: [{ type: 'integer' }, { type: 'string' }] } }), { a: '50%' }],
    [of({ a: { type: 'string', format: 'nobody-knows' } }), { a: 'x' }],
    [of({ a: { type: 'string', format: 'duration' } }), { a: '1h30m' }],
    [of({ metadata: of({ name: { type: 'string', maxLength: 1 } }) }), { metadata: { name: 'long' } }],
    [of({ a: { type: 'integer', format: 'int64' } }), JSON.parse('{"a":9007199254740993}')],
  ]
  for (const [schema, object] of fine) t.same(causes(schema, object), [], JSON.stringify(schema))
  t.match(schemaProblem(of({ a: { type: 'string', pattern: '(' } })), /regular expression|pattern/i)
  t.equal(schemaProblem(of({ a: { type: 'string' } })), null)
  t.end()
})

void t.test('items that must be unique may be objects, and many', (t) => {
  const schema = of({ list: { type: 'array', uniqueItems: true } })
  const objects = Array.from({ length: 60_000 }, (_, i) => ({ name: `n${i}`, at: [i] }))
  t.same(causes(schema, { list: objects }), [], 'all of them differ')
  const repeated = causes(schema, { list: [...objects, { at: [7], name: 'n7' }] })
  t.equal(repeated.length, 1)
  t.match(repeated[0], /^list: .*list in body shouldn't contain duplicates \(FieldValueInvalid\)$/)
  t.same(causes(schema, { list: [1, '1', true, null, {}, []] }), [], 'what is only written alike differs')
  t.end()
})

void t.test('the number of wrong items in an answer is bounded', (t) => {
  const schema = of({ list: { type: 'array', items: { type: 'string' } } })
  const found = causes(schema, { list: Array.from({ length: 200_000 }, (_, i) => i) })
  t.equal(found.length, 64)
  t.match(found[63], /^list\[63\]: /)
  t.end()
})

void t.test('a pattern takes linear time, and an unusable one allows everything', (t) => {
  t.match(causes(of({ a: { type: 'string', pattern: '^([a-z0-9]+-?)+$' } }), { a: `${'a'.repeat(35)}!` }), [
    /should match/,
  ])
  const unusable: string[] = []
  const stored = of({ a: { type: 'string', pattern: '(?=x)y' } })
  const told = customProblems(tree({ a: 'z' }), stored, customShape(stored, ANY), (problem) => unusable.push(problem))
  t.same(told, [])
  t.match(unusable, [/parsing regular expression/])
  t.match(schemaProblem(stored), /parsing regular expression/)
  t.end()
})

void t.test('the largest schemas and objects are handled in time', (t) => {
  const many = of(
    Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`p${i}`, { type: 'string', pattern: 'x' }])),
  )
  t.equal(schemaProblem(many), null)
  t.match(causes(many, { p7: 1, p19999: 'y' }), [/^p7: /, /^p19999: /])

  const wrong = { list: Array.from({ length: 40_000 }, () => ({ a: 1 })) }
  const list = of({ list: { type: 'array', items: of({ a: { type: 'string' } }) } })
  t.equal(causes(list, wrong).length, 64, 'an answer names the first of them')

  const allowed = Array.from({ length: 5_000 }, (_, i) => ({ kind: 'k', n: i }))
  const enumerated = of({ list: { type: 'array', items: { type: 'object', enum: allowed } } })
  t.same(
    causes(enumerated, { list: allowed.map(({ kind, n }) => ({ n, kind })) }),
    [],
    'by value, whatever their order',
  )
  t.match(causes(enumerated, { list: [{ n: -1 }] }), [/^list\[0\]: Unsupported value: \{"n":-1\}/])

  const equal = { list: Array.from({ length: 20_000 }, () => ({ k: 'x' })) }
  const keyed = of({
    list: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['k'],
      items: of({ k: { type: 'string' } }),
    },
  })
  t.equal(causes(keyed, equal).length, 64, 'equal items')
  t.end()
})

void t.test('formats are checked as in the API server', (t) => {
  const rows: readonly (readonly [format: string, fine: readonly string[], wrong: readonly string[]])[] = [
    ['date', ['2024-02-29'], ['2023-02-29', '2024-13-01', '2024-1-1', 'x']],
    ['date-time', ['2024-01-01T00:00:00Z', '2024-01-01t23:59:60.5+01:00'], ['2024-01-01', '2024-01-01T24:00:00Z']],
    ['email', ['a.b@example.com', 'a@localhost'], ['a', '@b', 'a..b@c', 'a@b c', `${'a'.repeat(400)}@b`]],
    ['hostname', ['a.b', 'a'], ['-a', 'a..b', '', `${'a.'.repeat(200)}b`]],
    ['ipv4', ['10.0.0.1'], ['10.0.0.256', '::1']],
    ['ipv6', ['::1'], ['10.0.0.1', ':::']],
    ['uri', ['https://a/b?c#d', 'urn:a'], ['a', '/a', 'http://a b']],
    ['uuid', ['00000000-0000-0000-0000-000000000000'], ['0']],
    ['byte', ['YQ==', ''], ['YQ=', '?']],
    ['duration', ['1h30m', '0', '-1.5s'], ['1', 'P1D', '']],
    ['cidr', ['10.0.0.0/8'], ['10.0.0.0']],
  ]
  for (const [format, fine, wrong] of rows) {
    const schema = of({ a: { type: 'string', format } })
    for (const text of fine) t.same(causes(schema, { a: text }), [], `${format} ${text}`)
    for (const text of wrong) t.equal(causes(schema, { a: text }).length, 1, `${format} ${text}`)
  }
  t.end()
})
