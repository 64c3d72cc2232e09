import t from 'tap'

import { parseFieldPath } from '../../../src/engine/facts/field-path.js'
import { scanObject, spliceResourceVersion } from '../../../src/kubernetes/codec/json-scan.js'
import { copyParts } from '../../../src/kubernetes/codec/json-parts.js'
import { parseProjection } from '../../../src/kubernetes/dialect/projection.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { randomInteger, seededRandom } from '../../../src/support/random.js'
import { testSeed } from '../../support/test-seeds.js'

function projected(json: string, fields: string): string {
  return copyParts(scanObject(Buffer.from(json))!.bytes, parseProjection(fields).root, false).bytes.toString()
}

void t.test('a projection contains only the chosen parts, unchanged and in document order', async (t) => {
  const pod =
    '{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u","name":"a","labels":{"x":"1"},"namespace":"n"},' +
    '"spec":{"containers":[{"image":"i","n":9007199254740993}],"nodeName":"n1"},"status":{"phase":"Running","n":1.10}}'
  const head = '"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n"}'
  const table: [string, string][] = [
    ['metadata.name', `{${head}}`],
    ['spec.nodeName', `{${head},"spec":{"nodeName":"n1"}}`],
    ['status.n,spec.nodeName', `{${head},"spec":{"nodeName":"n1"},"status":{"n":1.10}}`],
    ['spec.containers', `{${head},"spec":{"containers":[{"image":"i","n":9007199254740993}]}}`],
    ['spec.containers.image', `{${head}}`],
    ['spec.missing,none', `{${head}}`],
    ['spec.nodeName.deeper', `{${head}}`],
    ['status,status.phase', `{${head},"status":{"phase":"Running","n":1.10}}`],
    [
      'metadata',
      `{"kind":"Pod","apiVersion":"v1","metadata":{"uid":"u","name":"a","labels":{"x":"1"},"namespace":"n"}}`,
    ],
    [
      'metadata.labels.x',
      '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"1"},"namespace":"n"}}',
    ],
  ]
  for (const [fields, expected] of table) t.equal(projected(pod, fields), expected, fields)
})

void t.test('odd objects are projected without failure', async (t) => {
  const table: [string, string, string][] = [
    ['{}', 'a', '{}'],
    ['{"metadata":{"x":1}}', 'a', '{"metadata":{}}'],
    ['{"metadata":null,"a":1}', 'a', '{"a":1}'],
    ['{"a":{"b":{}}}', 'a.b', '{"a":{"b":{}}}'],
    ['{"a":{"c":1}}', 'a.b', '{}'],
    ['{"a":{"b":1},"a":{}}', 'a.b', '{"a":{"b":1},"a":{}}'],
    ['{"a":{"b":1},"a":7}', 'a.b', '{"a":{"b":1},"a":null}'],
    ['{"\\u0061":{"b":1}}', 'a.b', '{"\\u0061":{"b":1}}'],
    ['{"__proto__":{"b":1},"c":2}', '__proto__.b', '{"__proto__":{"b":1}}'],
    ['{"a.b":1,"a":{"b":2}}', 'a\\.b', '{"a.b":1}'],
    ['{"a,b":1,"a":2,"b":3}', 'a\\,b', '{"a,b":1}'],
    ['{"s":"}{\\"","a":"\\\\"}', 'a', '{"a":"\\\\"}'],
  ]
  for (const [json, fields, expected] of table) t.equal(projected(json, fields), expected, `${fields} of ${json}`)
})

void t.test('a projection is served with its resourceVersion, where there is metadata', async (t) => {
  const served = (json: string, fields: string): string =>
    spliceResourceVersion(
      copyParts(scanObject(Buffer.from(json))!.bytes, parseProjection(fields).root, false),
      toRevision(7),
    ).toString()
  t.equal(served('{"metadata":{"name":"a","x":1},"a":1}', 'a'), '{"metadata":{"resourceVersion":"7","name":"a"},"a":1}')
  t.equal(served('{"metadata":{"x":1}}', 'a'), '{"metadata":{"resourceVersion":"7"}}')
  t.equal(served('{"a":1,"metadata":{"x":1}}', 'metadata'), '{"metadata":{"resourceVersion":"7","x":1}}')
  t.equal(
    served('{"metadata":{"y":1},"metadata":{"x":1}}', 'metadata.x'),
    '{"metadata":{},"metadata":{"resourceVersion":"7","x":1}}',
  )
  t.equal(copyParts(Buffer.from('{"metadata":{},"metadata":7}'), parseProjection('a').root, false).revisionOffset, -1)
})

void t.test('an update outside the chosen fields gives the same bytes', async (t) => {
  const projection = parseProjection('spec.nodeName,status.phase')
  const bytes = (text: string): Buffer => copyParts(scanObject(Buffer.from(text))!.bytes, projection.root, false).bytes
  const before = bytes('{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"x":1},"status":{"phase":"Running"}}')
  t.ok(
    before.equals(
      bytes('{"metadata":{"name":"a","resourceVersion":"2","uid":"u"},"status":{"phase":"Running","ip":"1"}}'),
    ),
  )
  t.notOk(before.equals(bytes('{"metadata":{"name":"a"},"status":{"phase":"Failed"}}')))
  t.notOk(before.equals(bytes('{"metadata":{"name":"b"},"status":{"phase":"Running"}}')))
})

void t.test('equal choices have one canonical text', async (t) => {
  const canonical = (fields: string): string => parseProjection(fields).canonical
  t.equal(canonical('status.phase,spec.nodeName,spec.nodeName'), 'spec.nodeName,status.phase')
  t.equal(canonical('spec,spec.nodeName'), 'spec')
  t.equal(canonical('spec.nodeName,spec'), 'spec')
  t.equal(canonical('metadata.name,kind'), '', 'what is always there need not be said')
  t.equal(canonical('metadata'), 'metadata')
  t.equal(canonical('a\\,b,c\\.d'), 'a\\,b,c\\.d')
  t.equal(canonical(canonical('a\\,b,c\\.d')), 'a\\,b,c\\.d')
})

void t.test('text that is not a list of paths is rejected with 400', async (t) => {
  const bad = [
    ',',
    'a,',
    'a,,b',
    'a..b',
    'a[0]',
    ' a',
    '.',
    'a\\',
    'x'.repeat(4_097),
    Array.from({ length: 65 }, (_, i) => `k${i}`).join(','),
  ]
  for (const text of bad)
    t.throws(() => parseProjection(text), { code: 400, name: 'BadRequestError' }, text.slice(0, 40))
})

void t.test('a projection of a random object contains each chosen value unchanged, and nothing else', async (t) => {
  const seed = testSeed(99)
  const random = seededRandom(seed)
  const keys = ['a', 'b', 'c', 'metadata', 'name']
  const build = (depth: number): unknown => {
    const choice = random.next()
    if (depth === 0 || choice < 0.3) return [1, 'x"}', null, true, 2.5][randomInteger(random, 0, 4)]
    if (choice < 0.4) return Array.from({ length: randomInteger(random, 0, 3) }, () => build(depth - 1))
    return Object.fromEntries(keys.filter(() => random.next() < 0.6).map((key) => [key, build(depth - 1)]))
  }
  const at = (value: unknown, path: readonly string[]): unknown =>
    path.reduce<unknown>(
      (tree, key) =>
        typeof tree === 'object' && tree !== null && !Array.isArray(tree)
          ? (tree as Record<string, unknown>)[key]
          : undefined,
      value,
    )
  const leaves = (value: unknown, path: string[] = []): string[] =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
      ? Object.entries(value).flatMap(([key, member]) => leaves(member, [...path, key]))
      : [path.join('.')]
  let checked = 0
  for (let round = 0; round < 3_000; round++) {
    const tree = { a: build(3), metadata: build(2), b: build(2) }
    const fields = Array.from({ length: randomInteger(random, 1, 4) }, () =>
      Array.from({ length: randomInteger(random, 1, 3) }, () => keys[randomInteger(random, 0, keys.length - 1)]).join(
        '.',
      ),
    )
    const result: unknown = JSON.parse(projected(JSON.stringify(tree), fields.join(',')))
    const where = `seed ${seed} round ${round}: ${fields.join(',')} of ${JSON.stringify(tree)}`
    for (const field of fields) {
      const path = parseFieldPath(field)!
      checked++
      if (JSON.stringify(at(result, path)) !== JSON.stringify(at(tree, path))) t.fail(where)
    }
    const allowed = [...fields, 'metadata.name', 'metadata.namespace', 'kind', 'apiVersion']
    for (const leaf of leaves(result)) {
      const isChosen = allowed.some((field) => leaf === field || leaf.startsWith(`${field}.`))
      if (!isChosen && leaf !== 'metadata' && leaf !== '') t.fail(`${leaf} is there, ${where}`)
    }
  }
  t.ok(checked > 5_000)
})
