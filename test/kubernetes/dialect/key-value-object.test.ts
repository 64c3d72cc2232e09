import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { scanObject, spliceResourceVersion } from '../../../src/kubernetes/codec/json-scan.js'
import { resolveResources } from '../../../src/kubernetes/dialect/declared-resource.js'
import { keyValueObject } from '../../../src/kubernetes/dialect/key-value-object.js'
import { keyFromBytes, keyFromText, type KeyValue } from '../../../src/engine/model/event.js'
import { nameOfKey, type ApiResource } from '../../../src/kubernetes/model/api-resource.js'
import { toRevision } from '../../../src/engine/model/revision.js'
import { seededRandom } from '../../../src/support/random.js'

const { resources, problems } = resolveResources({
  declarations: [
    { name: 'flags', prefix: '/flags/' },
    { name: 'routes', prefix: '/routes/', namespaced: true },
  ],
})
t.same(problems, [])
const resource = (plural: string): ApiResource => {
  const found = resources.find((served) => served.resource.plural === plural)
  if (found === undefined) throw new Error(plural)
  return found.resource
}

const pair = (value: string): KeyValue => ({
  key: keyFromText('/flags/a'),
  value: Buffer.from(value),
  createRevision: toRevision(7),
  modRevision: toRevision(9),
  version: 2,
  leaseId: '0',
})
const escapeRegExp = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')

function wrap(plural: string, key: string | Buffer, value: string | Buffer, leaseId = '0'): Record<string, unknown> {
  const etcdKey = typeof key === 'string' ? keyFromText(key) : keyFromBytes(key)
  const name = nameOfKey(resource(plural), etcdKey)
  if (name === null) throw new Error('not a name')
  const wrapped = keyValueObject(resource(plural), name, {
    key: etcdKey,
    value: Buffer.from(value),
    createRevision: toRevision(7),
    modRevision: toRevision(9),
    version: 2,
    leaseId,
  })
  const bytes = spliceResourceVersion(wrapped, toRevision(9))
  const scanned = scanObject(wrapped.bytes)
  t.equal(scanned?.revisionOffset, wrapped.revisionOffset, 'a scan would find the same place')
  t.equal(scanned?.bytes.length, wrapped.bytes.length, 'and nothing to take out')
  return JSON.parse(bytes.toString()) as Record<string, unknown>
}

void t.test('text is shown as text, with everything that etcd knows about the key', async (t) => {
  t.same(wrap('flags', '/flags/eu/checkout', 'on', '7587862094709768000'), {
    apiVersion: 'distributary.io/v1',
    kind: 'Flag',
    metadata: { resourceVersion: '9', name: 'eu:checkout' },
    key: '/flags/eu/checkout',
    text: 'on',
    createRevision: 7,
    version: 2,
    lease: '7587862094709768000',
  })
})

void t.test(
  'a value with a number too large for a double is served as text, so that Go clients can still list',
  async (t) => {
    const huge = '9'.repeat(310)
    for (const text of ['1e400', '-1E+309', ' 9e308 ', '[1,{"a":1e999}]', huge, `[${huge}]`, `-${huge}.5`]) {
      t.equal(wrap('flags', '/flags/a', text)['text'], text, text.slice(0, 20))
    }
    for (const text of ['1e308', '[1e-400]', '0e999', '9'.repeat(308), '["1e400"]', '"1e400"', `0.${huge}`]) {
      t.same(wrap('flags', '/flags/a', text)['value'], JSON.parse(text), text.slice(0, 20))
    }
  },
)

void t.test('values that need JSON escapes survive a round trip', async (t) => {
  for (const text of [
    '',
    '"quoted" \\ \n\t\0',
    'é ☃ 😀',
    '{"not":"an object"',
    '1,2',
    '\ufeff1',
    '\u2028',
    'tru',
    '01',
  ]) {
    t.equal(wrap('flags', '/flags/a', text)['text'], text, encodeURIComponent(text))
  }
  t.equal(wrap('flags', '/flags/é"\\', 'x')['key'], '/flags/é"\\')
})

void t.test('bytes that are not UTF-8 are shown in base64', async (t) => {
  const value = Buffer.from([0xff, 0x00, 0xfe])
  const object = wrap('flags', '/flags/a', value)
  t.equal(object['text'], undefined)
  t.same(Buffer.from(String(object['bytes']), 'base64'), value)
  t.match(wrap('flags', Buffer.from([...Buffer.from('/flags/'), 0xff]), 'x'), {
    metadata: { name: '~ff' },
    key: '/flags/\ufffd',
    keyBytes: Buffer.from('/flags/\xff', 'latin1').toString('base64'),
  })
  t.notOk('keyBytes' in wrap('flags', '/flags/\ufffd', 'x'), 'a key that is text is exact')
  t.match(wrap('flags', '/flags/a', Buffer.from('"\xff"', 'latin1')), { bytes: 'Iv8i' }, 'nor are they in JSON')
})

void t.test('a namespaced prefix names the namespace', async (t) => {
  t.match(wrap('routes', '/routes/eu/a/b', 'x'), { metadata: { namespace: 'eu', name: 'a:b' }, kind: 'Route' })
})

void t.test(
  'a JSON value of any type is a member, with every digit, and without white space between tokens',
  async (t) => {
    const table: readonly (readonly [value: string, spliced: string])[] = [
      ['true', 'true'],
      ['null', 'null'],
      [' 42\n', '42'],
      ['-0', '-0'],
      ['9007199254740993', '9007199254740993'],
      ['1.10e40', '1.10e40'],
      ['"on"', '"on"'],
      ['"\\u00e9\\ud800 \\/"\n', '"\\u00e9\\ud800 \\/"'],
      ['{ "a" : [ 1.0 , {} , " x " ] , "a" : 2 }', '{"a":[1.0,{}," x "],"a":2}'],
      [
        '{"metadata":{"name":"x","resourceVersion":"5"},"kind":1}',
        '{"metadata":{"name":"x","resourceVersion":"5"},"kind":1}',
      ],
      ['[]', '[]'],
      ['[[1],[9007199254740993]]', '[[1],[9007199254740993]]'],
      ['{"__proto__":{"é":1}}', '{"__proto__":{"é":1}}'],
    ]
    for (const [value, spliced] of table) {
      const bytes = keyValueObject(resource('flags'), { namespace: '', name: 'a' }, pair(value)).bytes.toString()
      t.match(bytes, new RegExp(`"key":"/flags/a","value":${escapeRegExp(spliced)},"createRevision":7,`), value)
    }
    const deep = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`
    t.ok('value' in wrap('flags', '/flags/a', deep(511)), 'as deep as the whole object may be')
    t.equal(wrap('flags', '/flags/a', deep(512))['text'], deep(512), 'and what is deeper is text')
    for (const text of [
      '{"a":1},"b":{"c":2}',
      '1,"b":2',
      '[1]]',
      '[1',
      '"a',
      '"a\n"',
      '"\\x"',
      '{"a"}',
      '- 1',
      '1 2',
      '[}',
      '{]',
    ]) {
      t.equal(wrap('flags', '/flags/a', text)['text'], text, `${text} is no JSON value`)
    }
  },
)

void t.test('random JSON and near-JSON survive a round trip', async (t) => {
  const seed = Number(process.env['SEED'] ?? 38_11)
  const random = seededRandom(seed)
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"a"',
    '"\\n"',
    '1',
    '-2.5e3',
    'true',
    'null',
    ' ',
    '\n',
    '"',
    '\\',
    'é',
  ]
  let values = 0
  for (let i = 0; i < 20_000; i++) {
    let text = ''
    for (let n = Math.floor(random.next() * 8); n >= 0; n--) text += pieces[Math.floor(random.next() * pieces.length)]!
    let parsed: { readonly value: unknown } | null
    try {
      parsed = { value: JSON.parse(text) }
    } catch {
      parsed = null
    }
    const object = JSON.parse(
      keyValueObject(resource('flags'), { namespace: '', name: 'a' }, pair(text)).bytes.toString(),
    ) as Record<string, unknown>
    const isSame = parsed === null ? object['text'] === text : isDeepStrictEqual(object['value'], parsed.value)
    if (!isSame) t.fail(JSON.stringify({ seed, text, object }))
    if (parsed !== null) values++
  }
  t.ok(values > 500, `${values} of them were JSON`)
})
