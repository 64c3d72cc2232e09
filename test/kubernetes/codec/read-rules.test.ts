/**
 * How reading a custom object through its schema treats its numbers and nulls, and when its bytes are kept unchanged.
 */
import t from 'tap'
import { DefinedSchema } from '../../../src/kubernetes/codec/defined-schema.js'
import { ReadRules } from '../../../src/kubernetes/codec/read-rules.js'

const schema = DefinedSchema.of({
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        numbers: { type: 'array', items: { type: 'number' } },
        none: { type: 'string' },
        ratio: { type: 'number' },
        kind: { type: 'string', default: 'usual' },
      },
    },
  },
})
const options = { group: 'example.com', kind: 'Thing', schemas: { v1: schema }, preservesUnknownFields: false }
const rules = new ReadRules(options)

function read(spec: string): string | null {
  const json = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","generation":1},"spec":${spec}}`
  const bytes = rules.readJson(Buffer.from(json), 'example.com/v1', 'example.com/v1')?.bytes.toString() ?? null
  return bytes === null ? null : bytes.slice(bytes.indexOf('"spec":') + '"spec":'.length, -1)
}

void t.test('an unchanged object keeps its bytes', async (t) => {
  t.equal(read('{"kind":"x","ratio":1.50}'), null)
})

void t.test('numbers are exact after a default is filled in, whatever is next to them', async (t) => {
  const exact = ['1.5', '-0.25', '0', '12', '9007199254740993', '9223372036854775807', '-9223372036854775808', '1e-7']
  for (const number of exact) {
    t.equal(read(`{"ratio":${number}}`), `{"ratio":${number},"kind":"usual"}`, number)
    t.equal(read(`{"ratio": ${number} }`), `{"ratio":${number},"kind":"usual"}`, `${number} after a space`)
    t.equal(read(`{"numbers":[1,${number}]}`), `{"numbers":[1,${number}],"kind":"usual"}`, `${number} in a list`)
    t.equal(read(`{"numbers":[\n${number}\n]}`), `{"numbers":[${number}],"kind":"usual"}`, `${number} on a line`)
  }
})

void t.test('a null where none is allowed is removed, and an object without one is unchanged', async (t) => {
  t.equal(read('{"none":null,"ratio":1,"kind":"x"}'), '{"ratio":1,"kind":"x"}')
  t.equal(read('{"none":"null","kind":"x"}'), null)
})

void t.test('an object whose defaults would be too large cannot be read', async (t) => {
  const item = { type: 'object', properties: { text: { type: 'string', default: 'x'.repeat(1_000) } } }
  const properties = {
    members: { type: 'array', items: item },
    nulls: { type: 'array', items: { ...item, default: { text: 'x'.repeat(1_000) } } },
  }
  const defined = { ...options, schemas: { v1: DefinedSchema.of({ type: 'object', properties }) } }
  const read = (member: string, value: unknown, length: number): unknown => {
    const object = { kind: 'Thing', metadata: {}, [member]: Array.from({ length }, () => value) }
    return new ReadRules(defined).readJson(Buffer.from(JSON.stringify(object)), 'example.com/v1', 'example.com/v1')
  }
  for (const [member, value] of [
    ['members', {}],
    ['nulls', null],
  ] as const) {
    t.ok(read(member, value, 15_000), member)
    t.throws(() => read(member, value, 20_000), { name: 'CodecError', code: 'too-large' }, member)
  }
})
