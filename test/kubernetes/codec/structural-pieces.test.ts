/** A schema compiled in a thread is assembled in time slices, with the same result. */
import t from 'tap'
import { structuralFrom, structuralPieces } from '../../../src/kubernetes/codec/structural-pieces.js'
import { type OpenApiSchema, structuralOf } from '../../../src/kubernetes/codec/structural-schema.js'
import { turns } from '../../../src/support/turns.js'

const properties = (length: number, of: OpenApiSchema): OpenApiSchema =>
  Object.fromEntries(Array.from({ length }, (_, i) => [`p${i}`, of]))

const ROWS: Readonly<Record<string, OpenApiSchema>> = {
  nothing: {},
  'a few properties': { type: 'object', properties: { a: { type: 'string' }, b: { nullable: true } } },
  'all that can be said': {
    properties: {
      spec: {
        properties: {
          list: { type: 'array', items: { properties: { x: { default: { deep: [1, 'two', null] } } } } },
          map: { additionalProperties: { type: 'object', nullable: true, properties: { y: { default: 'y' } } } },
          any: { additionalProperties: true },
          kept: { 'x-kubernetes-preserve-unknown-fields': true, default: {} },
          embedded: { 'x-kubernetes-embedded-resource': true, properties: { spec: {} } },
          long: { type: 'integer', default: 12345678901234567890n },
          same: { type: 'string' },
          again: { type: 'string', description: 'of which no more is said' },
          '': { type: 'string' },
        },
      },
    },
  },
  'more properties than one record has': { properties: { spec: { properties: properties(2_501, { default: 1 }) } } },
}

for (const [name, schema] of Object.entries(ROWS)) {
  void t.test(name, async (t) => {
    const structural = structuralOf(schema)
    t.strictSame(await structuralFrom(structuralPieces(structural)), structural)
  })
}

void t.test('a large schema is rebuilt in more than one turn', async (t) => {
  const inner = properties(20, { type: 'string' })
  const many = Object.entries(properties(3_000, {})).map(([name], i) => [
    name,
    { properties: { ...inner, [`own${i}`]: {} } },
  ])
  const pieces = structuralPieces(structuralOf({ properties: Object.fromEntries(many) as OpenApiSchema }))
  t.ok(pieces.length > 50, `${pieces.length} pieces`)
  t.ok(Math.max(...pieces.map(({ length }) => length)) < 64 * 1024, 'each of them small')
  let others = 0
  const beside = (async () => {
    for (; others < 3; others++) await turns.take()
  })()
  await structuralFrom(pieces)
  t.ok(others > 0, 'others had turns')
  await beside
})
