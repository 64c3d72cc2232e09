import t from 'tap'

import { scanObject, spliceResourceVersion } from '../../../src/kubernetes/codec/json-scan.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { Scratch } from '../../../src/support/scratch.js'
import { type Random, randomInteger, seededRandom } from '../../../src/support/random.js'
import { testSeed } from '../../support/test-seeds.js'
import { MAX_JSON_DEPTH } from '../../../src/kubernetes/model/limits.js'

const revision = toRevision(42)

function served(value: string): string {
  const scanned = scanObject(Buffer.from(value))
  if (scanned === null) throw new Error(`refused: ${value}`)
  const text = spliceResourceVersion(scanned, revision).toString()
  const scratch = new Scratch(1_024)
  scratch.take(7)
  if (spliceResourceVersion(scanned, revision, scratch).toString() !== text) throw new Error('it depends on its place')
  return text
}

void t.test('the resourceVersion is inserted at metadata, whatever was there before', async (t) => {
  const rv = '"resourceVersion":"42"'
  const table: [string, string][] = [
    ['{"metadata":{}}', `{"metadata":{${rv}}}`],
    ['{"metadata":{"name":"a"}}', `{"metadata":{${rv},"name":"a"}}`],
    ['{"metadata":{"resourceVersion":"7"}}', `{"metadata":{${rv}}}`],
    ['{"metadata":{"resourceVersion":"7","name":"a"}}', `{"metadata":{${rv},"name":"a"}}`],
    ['{"metadata":{"name":"a","resourceVersion":"7"}}', `{"metadata":{${rv},"name":"a"}}`],
    ['{"metadata":{"a":1,"resourceVersion":"7","b":2}}', `{"metadata":{${rv},"a":1,"b":2}}`],
    ['{"metadata":{"resourceVersion":"7","resourceVersion":"8"}}', `{"metadata":{${rv}}}`],
    ['{"metadata":{"a":1,"resourceVersion":"7","resourceVersion":"8"}}', `{"metadata":{${rv},"a":1}}`],
    ['{"metadata":{"resourceVersion":"7","a":1,"resourceVersion":"8"}}', `{"metadata":{${rv},"a":1}}`],
    ['{"metadata":{"resourceVersion":{"x":[1,{}]},"a":[{}]}}', `{"metadata":{${rv},"a":[{}]}}`],
    ['{"metadata":{"resource\\u0056ersion":"7","a":1}}', `{"metadata":{${rv},"a":1}}`],
    ['{"metadat\\u0061":{"a":1}}', `{"metadat\\u0061":{${rv},"a":1}}`],
    ['{"metadata":{"resourceVersionX":"7"}}', `{"metadata":{${rv},"resourceVersionX":"7"}}`],
    ['{"metadata":{"a":{"resourceVersion":"7"}}}', `{"metadata":{${rv},"a":{"resourceVersion":"7"}}}`],
    [
      '{"spec":{"metadata":{"resourceVersion":"7"}},"metadata":{}}',
      `{"spec":{"metadata":{"resourceVersion":"7"}},"metadata":{${rv}}}`,
    ],
    [
      '{"metadata":{"a":1,"resourceVersion":"7"},"metadata":{"b":2,"resourceVersion":"8"}}',
      `{"metadata":{"a":1},"metadata":{${rv},"b":2}}`,
    ],
    [' { "metadata" : { "a" : 1 , "resourceVersion" : "7" } , "x" : " y " }\n', `{"metadata":{${rv},"a":1},"x":" y "}`],
    ['{\t"metadata":\r\n{ "resourceVersion" : "7" , "a" : 1 } }', `{"metadata":{${rv},"a":1}}`],
    ['{"x": "\\"  \\\\", "metadata":{ }}', `{"x":"\\"  \\\\","metadata":{${rv}}}`],
    [
      '{"n":9007199254740993,"d":1.10,"e":1E+2,"metadata":{}}',
      `{"n":9007199254740993,"d":1.10,"e":1E+2,"metadata":{${rv}}}`,
    ],
    ['{"__proto__":{"metadata":{}},"metadata":{}}', `{"__proto__":{"metadata":{}},"metadata":{${rv}}}`],
  ]
  for (const [stored, expected] of table) t.equal(served(stored), expected, stored)
})

void t.test('without a metadata object there is no place for a resourceVersion', async (t) => {
  for (const text of [
    '{}',
    '{"metadata":null}',
    '{"metadata":[{}]}',
    '{"metadata":"x"}',
    '{"metadata":{},"metadata":7}',
  ]) {
    const scanned = scanObject(Buffer.from(text))
    t.equal(scanned?.revisionOffset, -1, text)
    t.equal(scanned?.bytes.toString(), text)
    t.throws(() => spliceResourceVersion(scanned!, revision), RangeError)
  }
  t.equal(scanObject(Buffer.from('{"metadata":7,"metadata":{}}'))?.revisionOffset, 26, 'the last one counts')
})

void t.test('kind and apiVersion are the last top-level strings of that name', async (t) => {
  const table: [string, string, string][] = [
    ['{"kind":"Pod","apiVersion":"v1"}', 'Pod', 'v1'],
    ['{"kind":"A","kind":"B"}', 'B', ''],
    ['{"kind":"A","kind":{"kind":"C"}}', '', ''],
    ['{"kind":"A","kind":1,"apiVersion":"x","apiVersion":[]}', '', ''],
    ['{"k\\u0069nd":"P\\u006fd","spec":{"kind":"No"},"l":[{"kind":"No"}]}', 'Pod', ''],
    ['{"metadata":{"kind":"No"}}', '', ''],
  ]
  for (const [text, kind, apiVersion] of table) {
    t.match(scanObject(Buffer.from(text)), { kind, apiVersion }, text)
  }
})

void t.test('a value that is not exactly one JSON object is rejected', async (t) => {
  const refused = [
    '',
    ' ',
    '[]',
    '1',
    '"x"',
    'null',
    '{',
    '}',
    '{}{}',
    '{},',
    '{}x',
    '{,}',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    "{'a':1}",
    '{"a":1 "b":2}',
    '{"a":[1,]}',
    '{"a":[,1]}',
    '{"a":[1}',
    '{"a":{]}',
    '{"a":01}',
    '{"a":-}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":1e}',
    '{"a":1e+}',
    '{"a":+1}',
    '{"a":0x1}',
    '{"a":NaN}',
    '{"a":tru}',
    '{"a":truex}',
    '{"a":nul',
    '{"a":"\n"}',
    '{"a":"\\x"}',
    '{"a":"\\u12g4"}',
    '{"a":"\\u12',
    '{"a":"',
    '{"a":"\\',
    '{"a',
    '{"a":1',
    '{"a":[',
    '\u00a0{}',
    '\ufeff{}',
    '{"a":1}\u0000',
    '{"a" 1}',
    '{1:2}',
    '{"a":1;}',
    '{"a":[1 2]}',
    '{]',
    '{"a":-01}',
    '{"\t":1}',
    '{"a":1}\u000b',
  ]
  for (const text of refused) t.equal(scanObject(Buffer.from(text)), null, JSON.stringify(text))
  const notUtf8 = [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80]]
  for (const bytes of notUtf8) {
    const quote = Buffer.from('"')
    const value = Buffer.concat([Buffer.from('{"a":'), quote, Buffer.from(bytes), quote, Buffer.from('}')])
    t.equal(scanObject(value), null, value.toString('hex'))
  }
  t.ok(scanObject(Buffer.from('{"é":"\\ud800 😀","b":-0.0e-0,"c":[[],{},"",null,true,false]}')))
})

void t.test('depth is bounded, and needs no stack', async (t) => {
  const nested = (depth: number): Buffer => Buffer.from(`${'{"a":'.repeat(depth - 1)}{}${'}'.repeat(depth - 1)}`)
  t.ok(scanObject(nested(MAX_JSON_DEPTH)))
  t.equal(scanObject(nested(MAX_JSON_DEPTH + 1)), null)
  t.equal(scanObject(Buffer.from(`{"a":${'['.repeat(1_000_000)}`)), null)
})

void t.test('the copy is exactly sized and shares no memory with its message', async (t) => {
  const message = Buffer.from('xx{"metadata":{"resourceVersion":"7"}}xx')
  const bytes = scanObject(message.subarray(2, -2))!.bytes
  t.equal(bytes.buffer.byteLength, bytes.length)
  message.fill(0)
  t.equal(bytes.toString(), '{"metadata":{}}')
})

/** JSON with whitespace, escapes, duplicates and numbers that a parsed tree would lose. */
function randomText(random: Random, depth: number): string {
  const pick = <T>(choices: readonly T[]): T => choices[randomInteger(random, 0, choices.length - 1)]!
  const space = (): string => (random.next() < 0.8 ? '' : pick([' ', '\n', '\t', '\r\n', '  ']))
  const string = (): string =>
    pick([
      '""',
      '"a"',
      '"\\u0061"',
      '"metadata"',
      '"resourceVersion"',
      '"kind"',
      '"__proto__"',
      '"x y"',
      '"é😀"',
      '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
    ])
  const scalar = (): string =>
    pick(['0', '-0', '12', '-1.50', '1e5', '1E-2', '9007199254740993', 'true', 'false', 'null', string()])
  const list = (n: number, item: () => string): string =>
    Array.from({ length: n }, () => space() + item() + space()).join(',') || space()
  const value = (d: number): string => {
    const choice = random.next()
    if (d <= 0 || choice < 0.4) return scalar()
    if (choice < 0.6) return `[${list(randomInteger(random, 0, 3), () => value(d - 1))}]`
    return object(d)
  }
  const object = (d: number): string =>
    `{${list(randomInteger(random, 0, 5), () => string() + space() + ':' + space() + value(d - 1))}}`
  return space() + object(depth) + space()
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Every number of a JSON text, also of members that a later one replaces. */
const numbersOf = (text: string): number[] =>
  (text.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/-?\d[\d.eE+-]*/g) ?? []).map(Number)

void t.test(
  'random text is accepted exactly when JSON.parse accepts it with finite numbers, and keeps its meaning',
  async (t) => {
    const seed = testSeed(20_261_121)
    const random = seededRandom(seed)
    let accepted = 0
    for (let round = 0; round < 20_000; round++) {
      let text = randomText(random, 4)
      if (random.next() < 0.5) {
        // A random mutation at one place: most results are no longer JSON.
        const at = randomInteger(random, 0, text.length)
        const junk = ['', '{', '}', '[', ']', ',', ':', '"', '\\', '1', 'e', '.', '-', ' ', '\u0001'][
          randomInteger(random, 0, 14)
        ]!
        text = text.slice(0, at) + junk + text.slice(at + randomInteger(random, 0, 1))
      }
      // A lone surrogate left by the cut is not valid UTF-8 in the first place.
      const value = Buffer.from(text)
      text = value.toString()
      let expected: unknown
      try {
        expected = JSON.parse(text)
      } catch {
        expected = undefined
      }
      const scanned = scanObject(value)
      const where = `seed ${seed} round ${round}: ${JSON.stringify(text)}`
      if (!isObject(expected) || numbersOf(text).some((number) => !Number.isFinite(number))) {
        if (scanned !== null) t.fail(`accepted, ${where}`)
        continue
      }
      if (scanned === null) {
        t.fail(`refused, ${where}`)
        continue
      }
      accepted++
      const metadata = Object.hasOwn(expected, 'metadata') ? expected['metadata'] : undefined
      if (isObject(metadata)) delete metadata['resourceVersion']
      if (JSON.stringify(JSON.parse(scanned.bytes.toString())) !== JSON.stringify(expected)) t.fail(`changed, ${where}`)
      if (isObject(metadata) !== scanned.revisionOffset >= 0) t.fail(`metadata, ${where}`)
      if (scanned.revisionOffset >= 0 && isObject(metadata)) {
        const spliced = JSON.parse(spliceResourceVersion(scanned, revision).toString()) as { metadata: object }
        const wanted = JSON.stringify({ resourceVersion: '42', ...metadata })
        if (Object.hasOwn(metadata, '__proto__')) t.equal(Object.entries(spliced.metadata)[0]?.[1], '42')
        else if (JSON.stringify(spliced.metadata) !== wanted) t.fail(`spliced, ${where}`)
      }
      const again = scanObject(scanned.bytes)
      if (again?.bytes.equals(scanned.bytes) !== true) t.fail(`not stable, ${where}`)
    }
    t.ok(accepted > 9_000, `${accepted} accepted`)
  },
)
