import t from 'tap'

import { attributePath, formatFieldPath, parseFieldPath } from '../../../src/engine/facts/field-path.js'
import { extractFacts, planFacts } from '../../../src/engine/facts/json-facts.js'
import { parseSelector } from '../../support/parse-selector.js'
import { type Random, randomInteger, seededRandom } from '../../../src/support/random.js'
import { testSeed } from '../../support/test-seeds.js'

const labelPath = (key: string): string => attributePath('metadata.labels', key)

function fieldOf(json: string, path: string): string {
  return extractFacts(Buffer.from(json), planFacts([path])).field(path)
}

void t.test(
  'a field is the scalar at its path, as written (a whole number as one); anything else is empty',
  async (t) => {
    const table: [string, string, string][] = [
      ['{"spec":{"nodeName":"n1"}}', 'spec.nodeName', 'n1'],
      ['{"spec":{}}', 'spec.nodeName', ''],
      ['{}', 'spec.nodeName', ''],
      ['{"spec":"x"}', 'spec.nodeName', ''],
      ['{"spec":{"nodeName":{"x":1}}}', 'spec.nodeName', ''],
      ['{"spec":{"nodeName":["n1"]}}', 'spec.nodeName', ''],
      ['{"spec":[{"nodeName":"n1"}]}', 'spec.nodeName', ''],
      ['{"spec":{"nodeName":null}}', 'spec.nodeName', ''],
      ['{"a":9007199254740993}', 'a', '9007199254740993'],
      ['{"a":1.10}', 'a', '1.10'],
      ['{"a":1.0}', 'a', '1'],
      ['{"a":-0}', 'a', '0'],
      ['{"a":-0.0}', 'a', '0'],
      ['{"a":-2.00e1}', 'a', '-20'],
      ['{"a":1e6}', 'a', '1e+06'],
      ['{"a":-1E+2,"b":1}', 'a', '-100'],
      ['{"a":true}', 'a', 'true'],
      ['{"a":false }', 'a', 'false'],
      ['{"a":"é\\u0041\\n"}', 'a', 'éA\n'],
      ['{"a":""}', 'a', ''],
      ['{"\\u0061":"x"}', 'a', 'x'],
      ['{"é":"x"}', 'é', 'x'],
      ['{"a.b":"x","a":{"b":"y"}}', 'a\\.b', 'x'],
      ['{"a.b":"x","a":{"b":"y"}}', 'a.b', 'y'],
      ['{"x":{"a":"no","y":[{"a":"no"}]},"s":"{\\"a\\":1}","a":"yes"}', 'a', 'yes'],
      ['{"__proto__":{"polluted":"x"}}', '__proto__.polluted', 'x'],
      ['{"__proto__":{"a":"x"}}', 'a', ''],
      ['{"b":"x"}', 'toString', ''],
      [' { "a" : { "b" : "x" , "c" : [ ] } , "d" : 5 } ', 'a.b', 'x'],
      [' { "a" : { "b" : "x" , "c" : [ ] } , "d" : 5 } ', 'd', '5'],
    ]
    for (const [json, path, expected] of table) t.equal(fieldOf(json, path), expected, `${path} of ${json}`)
    t.notOk('polluted' in {})
  },
)

void t.test('the last of several duplicate keys counts, with everything under it', async (t) => {
  const table: [string, string, string][] = [
    ['{"a":"1","a":"2"}', 'a', '2'],
    ['{"a":"1","a":null}', 'a', ''],
    ['{"a":{"b":"1"},"a":{}}', 'a.b', ''],
    ['{"a":{"b":"1"},"a":7}', 'a.b', ''],
    ['{"a":{"b":"1"},"a":{"b":"2"}}', 'a.b', '2'],
    ['{"a":"1","\\u0061":"2"}', 'a', '2'],
  ]
  for (const [json, path, expected] of table) t.equal(fieldOf(json, path), expected, `${path} of ${json}`)
})

void t.test('an absent attribute is not an empty one, and only strings are attributes', async (t) => {
  const json = Buffer.from(
    '{"metadata":{"labels":{"a":"1","e":"","n":5,"x.io/y":"z","__proto__":"p","o":{"a":"no"}},"a":"no"}}',
  )
  const keys = ['a', 'e', 'n', 'x.io/y', '__proto__', 'missing', 'o']
  const expected = ['1', '', undefined, 'z', 'p', undefined, undefined]
  const few = extractFacts(json, planFacts([...keys.map(labelPath), 'metadata.labels.a']))
  t.strictSame(
    keys.map((key) => few.attribute(labelPath(key))),
    expected,
  )
  t.equal(few.field('metadata.labels.a'), '1', 'the same label as a field')
  t.equal(extractFacts(json, planFacts(['metadata.labels.missing'])).field('metadata.labels.missing'), '')
  const twice = Buffer.from('{"metadata":{"labels":{"a":"1","b":"1","b":2}},"metadata":{"labels":{"c":"3"}}}')
  t.strictSame(extractFacts(twice, planFacts(['a', 'b', 'c'].map(labelPath))).values, [undefined, undefined, '3'])
})

void t.test('many paths are found in the same way as one', async (t) => {
  const keys = Array.from({ length: 40 }, (_, i) => `k${i}`)
  const json = Buffer.from(JSON.stringify({ spec: Object.fromEntries(keys.map((key) => [key, `v-${key}`])) }))
  const paths = keys.map((key) => `spec.${key}`)
  const facts = extractFacts(json, planFacts([...paths, 'spec.k4x', paths[0]!]))
  for (const key of keys) t.equal(facts.field(`spec.${key}`), `v-${key}`)
  t.equal(facts.field('spec.k4x'), '')
})

void t.test('the name comes from the key, and facts that were not extracted are never guessed', async (t) => {
  const json = Buffer.from('{"metadata":{"name":"liar","namespace":"other"}}')
  const facts = extractFacts(json, planFacts([], { name: 'metadata.name', scope: 'metadata.namespace' }), {
    scope: 'ns',
    name: 'a',
  })
  t.equal(facts.field('metadata.name'), 'a')
  t.equal(facts.field('metadata.namespace'), 'ns')
  t.throws(() => facts.field('spec.nodeName'), RangeError)
  t.throws(() => facts.attribute(labelPath('a')), RangeError)
  t.equal(extractFacts(json, planFacts(['metadata.name'])).field('metadata.name'), 'liar')
  t.throws(() => planFacts(['a..b']), RangeError)
})

void t.test('a selector matches by its facts', async (t) => {
  const selector = parseSelector('app in (web,api),!old', 'spec.nodeName=n1,status.phase!=Failed')
  const plan = planFacts(selector.paths)
  const pod = (phase: string, labels: string): Buffer =>
    Buffer.from(`{"metadata":{"labels":${labels}},"spec":{"nodeName":"n1"},"status":{"phase":"${phase}"}}`)
  t.ok(selector.matchesTerms(extractFacts(pod('Running', '{"app":"web"}'), plan)))
  t.notOk(selector.matchesTerms(extractFacts(pod('Failed', '{"app":"web"}'), plan)))
  t.notOk(selector.matchesTerms(extractFacts(pod('Running', '{"app":"web","old":""}'), plan)))
  t.notOk(selector.matchesTerms(extractFacts(pod('Running', '{}'), plan)))
})

void t.test('paths have one spelling', async (t) => {
  const table: [string, readonly string[] | null][] = [
    ['a', ['a']],
    ['a.b', ['a', 'b']],
    ['a\\.b', ['a.b']],
    ['a\\\\.b', ['a\\', 'b']],
    ['a\\[0\\]', ['a[0]']],
    ['', null],
    ['.', null],
    ['a.', null],
    ['.a', null],
    ['a[0]', null],
    ['a]', null],
    ['a\\', null],
    ['a\\x', null],
    [' a', null],
    ['a .b', null],
    ['metadata.labels[a]', null],
  ]
  for (const [text, segments] of table) {
    t.strictSame(parseFieldPath(text), segments, text)
    if (segments !== null) t.equal(formatFieldPath(segments), text)
  }
})

/** Reads the same field from a tree. */
function fieldOfTree(value: unknown, segments: readonly string[]): string {
  let at = value
  for (const segment of segments) {
    if (typeof at !== 'object' || at === null || Array.isArray(at) || !Object.hasOwn(at, segment)) return ''
    at = (at as Record<string, unknown>)[segment]
  }
  return typeof at === 'string' ? at : typeof at === 'number' || typeof at === 'boolean' ? String(at) : ''
}

void t.test('random objects give the same answers as their trees, with and without white space', async (t) => {
  const seed = testSeed(4711)
  const random = seededRandom(seed)
  // The tree is JSON.parse's, and that of Node 24 (V8 13.6) misreads the key `"` as `\\` in an object shaped like an
  // earlier one.
  const keys = ['a', 'b', 'a.b', 'q"', 'back\\', 'é', 'metadata', 'labels', '__proto__']
  const build = (random: Random, depth: number): string => {
    const choice = random.next()
    if (depth === 0 || choice < 0.3) {
      return ['1', '-25', '"x"', '"\\"}"', '""', 'true', 'null', '"é"'][randomInteger(random, 0, 7)]!
    }
    const parts = Array.from({ length: randomInteger(random, 0, 4) }, () => build(random, depth - 1))
    if (choice < 0.4) return `[${parts.join(',')}]`
    return `{${parts.map((part) => `${JSON.stringify(keys[randomInteger(random, 0, keys.length - 1)])}:${part}`).join(',')}}`
  }
  const paths: string[] = []
  for (const a of keys) for (const b of keys) paths.push(formatFieldPath([a, b]), formatFieldPath([a, b, 'a']))
  paths.push(...keys.map((key) => formatFieldPath([key])))
  const plan = planFacts(paths)
  let found = 0
  for (let round = 0; round < 3_000; round++) {
    const text = `{"a":${build(random, 3)},"metadata":${build(random, 3)},"b":${build(random, 2)}}`
    const tree: unknown = JSON.parse(text)
    const compact = Buffer.from(text)
    const spaced = Buffer.from(JSON.stringify(tree, null, 2))
    const sources =
      Object.hasOwn(tree as object, '__proto__') || text.includes('__proto__') ? [compact] : [compact, spaced]
    for (const source of sources) {
      const facts = extractFacts(source, plan)
      for (const path of paths) {
        const expected = fieldOfTree(tree, parseFieldPath(path)!)
        if (expected !== '') found++
        if (facts.field(path) !== expected) t.fail(`seed ${seed} round ${round}: ${path} of ${text}`)
      }
    }
  }
  t.ok(found > 5_000, `${found} values compared`)
})

void t.test('a plan grows: facts extracted earlier report that they lack the new paths', (t) => {
  const plan = planFacts(['metadata.labels[app]', 'spec.nodeName'])
  t.notOk(plan.onlyAttributes)
  const json = Buffer.from('{"metadata":{"labels":{"app":"web","tier":"1"}},"spec":{"nodeName":"n1","host":"h"}}')
  const before = extractFacts(json, plan)
  plan.add('metadata.labels[tier]')
  plan.add('spec.host')
  plan.add('spec.host')
  t.same(plan.paths, ['metadata.labels[app]', 'spec.nodeName', 'metadata.labels[tier]', 'spec.host'])
  t.throws(() => before.field('spec.host'), RangeError)
  t.throws(() => before.attribute(labelPath('tier')), RangeError)
  t.equal(before.field('spec.nodeName'), 'n1')
  const after = extractFacts(json, plan)
  t.same(after.values, ['web', 'n1', '1', 'h'])
  t.equal(after.field('spec.host'), 'h')
  t.throws(() => plan.add('a..b'), RangeError)
  t.equal(plan.paths.length, 4, 'an invalid path changes nothing')
  t.ok(planFacts(['metadata.labels[app]']).onlyAttributes)
  t.end()
})
