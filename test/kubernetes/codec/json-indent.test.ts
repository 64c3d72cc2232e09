import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'

import { indentJson } from '../../../src/kubernetes/codec/json-indent.js'
import { jsonToYaml, yamlSteps, YamlWriter } from '../../../src/kubernetes/codec/json-to-yaml.js'
import { scanObject } from '../../../src/kubernetes/codec/json-scan.js'
import { type Random, randomInteger, seededRandom } from '../../../src/support/random.js'
import { testSeed } from '../../support/test-seeds.js'

const yaml = (json: string): string => jsonToYaml(Buffer.from(json))

function randomValue(random: Random, depth: number): unknown {
  const strings = [
    '',
    'a',
    'a b',
    'a: b',
    'a:b',
    'x #y',
    '- a',
    'yes',
    'No',
    '~',
    '1',
    '1.5',
    '0x1',
    '2026-01-01',
    'é😀',
    'a\nb',
    '"',
    '\\',
    "'",
    ':',
    'a:',
    '\u2028',
    '\u007f',
    '=',
    '<<',
    '/x',
    ' a',
    'a ',
    '{}',
    '%',
    '@a',
    'key: value',
    'null',
    '\ufeff',
    '\ud800',
  ]
  const choice = random.next()
  if (depth === 0 || choice < 0.5) {
    return [...strings, 0, -1.5, 1e21, true, false, null][randomInteger(random, 0, strings.length + 5)]
  }
  const items = Array.from({ length: randomInteger(random, 0, 3) }, () => randomValue(random, depth - 1))
  if (choice < 0.7) return items
  return Object.fromEntries(items.map((item) => [strings[randomInteger(random, 0, strings.length - 1)], item]))
}

void t.test('JSON is indented like JSON.stringify, and only white space is added', async (t) => {
  const seed = testSeed(5)
  const random = seededRandom(seed)
  for (let round = 0; round < 2_000; round++) {
    const value = randomValue(random, 4)
    const compact = JSON.stringify(value)
    const indented = indentJson(Buffer.from(compact)).toString()
    if (indented !== JSON.stringify(value, null, 2)) t.fail(`seed ${seed} round ${round}: ${compact}`)
  }
  const odd = '{"n":9007199254740993,"d":1.10,"d":1E+2,"s":"\\u0041"}'
  t.equal(scanObject(indentJson(Buffer.from(odd)))?.bytes.toString(), odd)
})

void t.test('a list that arrives in parts gives the same YAML as the whole', async (t) => {
  const seed = testSeed(7)
  const random = seededRandom(seed)
  for (let round = 0; round < 500; round++) {
    const items = Array.from({ length: randomInteger(random, 0, 6) }, () => JSON.stringify(randomValue(random, 3)))
    const head = '{"kind":"List","metadata":{"resourceVersion":"5"},"columns":[1,{"a":[]}],"items":['
    const parts = [head]
    for (const [i, item] of items.entries()) {
      const text = `${i === 0 ? '' : ','}${item}`
      if (random.next() < 0.5) parts.push(text)
      else parts[parts.length - 1] += text
    }
    if (random.next() < 0.5) parts.push(']}')
    else parts[parts.length - 1] += ']}'
    const writer = new YamlWriter()
    const written = parts.map((part) => lastOf(writer.push(Buffer.from(part))).toString()).join('')
    if (written !== yaml(parts.join(''))) t.fail(`seed ${seed} round ${round}: ${parts.join('|')}`)
  }
})

function lastOf<R>(steps: Generator<void, R, void>): R {
  while (true) {
    const step = steps.next()
    if (step.done) return step.value
  }
}

void t.test('a large object is written in many steps', async (t) => {
  const json = Buffer.from(JSON.stringify({ spec: Array.from({ length: 10_000 }, (_, i) => ({ a: i })) }))
  let steps = 0
  for (const _ of yamlSteps(json)) steps++
  t.ok(steps > 50, `${steps} steps`)
  const names = Array.from({ length: 10_000 }, (_, i) => [`key-${(i * 7_919) % 10_000}`, i])
  const unordered = Buffer.from(JSON.stringify(Object.fromEntries(names)))
  steps = 0
  for (const _ of yamlSteps(unordered)) steps++
  t.ok(steps > 500, `${steps} steps, with those that sort the keys`)
  const deep = `${'{"a":['.repeat(400)}1${']}'.repeat(400)}`
  t.same(parse(yaml(deep), { maxAliasCount: 0 }), JSON.parse(deep))
})

void t.test('YAML has the meaning of the JSON, in YAML 1.2 and in 1.1', async (t) => {
  const seed = testSeed(6)
  const random = seededRandom(seed)
  for (let round = 0; round < 2_000; round++) {
    const value = randomValue(random, 4)
    const text = yaml(JSON.stringify(value))
    for (const version of ['1.1', '1.2'] as const) {
      const back: unknown = parse(text, { version, schema: version === '1.1' ? 'yaml-1.1' : 'core', merge: false })
      if (!isDeepStrictEqual(back, JSON.parse(JSON.stringify(value))))
        t.fail(`seed ${seed} round ${round} YAML ${version}: ${text}`)
    }
  }
})

void t.test('the keys of YAML are in the order of the API server', async (t) => {
  // The order in which sigs.k8s.io/yaml 1.6 writes these keys.
  const sorted = ['', '-a', '.a', '1', '2', '10', '010', 'A', 'a', 'a.b', 'a/b', 'a1', 'a2', 'a10', 'ab', 'b', 'é']
  const keys = (text: string): string[] => Object.keys(parse(text) as object).map(String)
  const json = (names: readonly string[]): string => JSON.stringify(names.map((name) => ({ [`x${name}`]: 0 })))
  const merged = (names: readonly string[]): string => json(names).replaceAll('},{', ',').slice(1, -1)
  t.same(
    keys(yaml(merged(sorted.toReversed()))),
    sorted.map((name) => `x${name}`),
  )
})

void t.test('YAML has the layout of kubectl, numbers as written, and the last of duplicate keys', async (t) => {
  t.equal(
    yaml(
      '{"kind":"Pod","spec":{"containers":[{"image":"nginx:1.2","args":["a b",["x",[]]],"n":1.10}],"none":{}},"ok":"true"}',
    ),
    `kind: Pod
ok: "true"
spec:
  containers:
  - args:
    - a b
    - - x
      - []
    image: nginx:1.2
    "n": 1.10
  none: {}
`,
  )
  t.equal(yaml('{"n":9007199254740993,"e":1E+2}'), 'e: 1E+2\n"n": 9007199254740993\n')
  t.equal(yaml('{"a":1,"b":2,"a":3}'), 'a: 3\nb: 2\n')
  t.equal(yaml(' { "a" : [ 1 , 2 ] , "b" : "\\ud83d\\ude00" } '), 'a:\n- 1\n- 2\nb: "😀"\n')
  t.equal(yaml('{}'), '{}\n')
  t.equal(yaml('[]'), '[]\n')
  t.equal(yaml('"x"'), 'x\n')
})

void t.test('keys with long numbers are sorted in linear time', async (t) => {
  const digits = '1'.repeat(1_000_000)
  t.equal(yaml(`{"${digits}x5":1,"${digits}x0":2}`), `"${digits}x0": 2\n"${digits}x5": 1\n`)
})
