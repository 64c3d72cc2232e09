import { isUtf8 } from 'node:buffer'

import t from 'tap'

import { CodecError, type CodecErrorCode } from '../../../../src/kubernetes/codec/protobuf/codec-error.js'
import { decodeObject } from '../../../../src/kubernetes/codec/protobuf/decode.js'
import { MAX_MESSAGE_DEPTH } from '../../../../src/kubernetes/codec/protobuf/field-places.js'
import { isProtobuf, openEnvelope, rawOf } from '../../../../src/kubernetes/codec/protobuf/envelope.js'
import { JsonWriter } from '../../../../src/kubernetes/codec/protobuf/json-writer.js'
import { readMetadata } from '../../../../src/kubernetes/codec/protobuf/metadata.js'
import { plansOf } from '../../../../src/kubernetes/codec/protobuf/plan.js'
import { withResourceVersion } from '../../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../../../../src/kubernetes/codec/protobuf/schema.js'
import { randomInteger, seededRandom } from '../../../../src/support/random.js'
import { apiServer120, apiTestData } from '../../../support/protobuf-data.js'
import { lengthDelimited, varint } from '../../../support/protobuf-sample.js'
import { testSeed } from '../../../support/test-seeds.js'

const schema = kubernetesSchema()
const pod = apiTestData('head').find(({ name }) => name === 'core.v1.Pod')!
const storedPod = apiServer120().stored.find(({ key }) => key === '/registry/pods/team-a/web-0')!.value

function envelope(apiVersion: string, kind: string, raw: Buffer): Buffer {
  const typeMeta = Buffer.concat([lengthDelimited(1, Buffer.from(apiVersion)), lengthDelimited(2, Buffer.from(kind))])
  return Buffer.concat([Buffer.from('k8s\0', 'latin1'), lengthDelimited(1, typeMeta), lengthDelimited(2, raw)])
}

function codeOf(act: () => unknown): CodecErrorCode | 'none' {
  try {
    act()
    return 'none'
  } catch (error) {
    if (error instanceof CodecError) return error.code
    throw error
  }
}

void t.test('a value is protobuf when it starts with the magic, whatever follows', (t) => {
  t.equal(isProtobuf(Buffer.from('k8s\0', 'latin1')), true)
  t.equal(isProtobuf(Buffer.from('k8s', 'latin1')), false)
  t.equal(isProtobuf(Buffer.from('{"a":1}')), false)
  t.equal(isProtobuf(Buffer.alloc(0)), false)
  t.end()
})

void t.test('an envelope gives its kind and the object, as a slice of the value', (t) => {
  const opened = openEnvelope(storedPod)
  t.match(opened, { apiVersion: 'v1', kind: 'Pod', contentEncoding: '', contentType: '' })
  t.equal(rawOf(opened).buffer, storedPod.buffer)
  t.end()
})

void t.test('each bad value is rejected with its reason', (t) => {
  const deep = (levels: number): Buffer => {
    // Deeply nested JSONSchemaProps.not.
    let schemaProps = lengthDelimited(5, Buffer.from('object'))
    for (let level = 0; level < levels; level++) schemaProps = lengthDelimited(28, schemaProps)
    const version = Buffer.concat([
      lengthDelimited(1, Buffer.from('v1')),
      lengthDelimited(4, lengthDelimited(1, schemaProps)),
    ])
    return envelope(
      'apiextensions.k8s.io/v1',
      'CustomResourceDefinition',
      lengthDelimited(2, lengthDelimited(7, version)),
    )
  }
  const rawExtension = (json: string): Buffer =>
    envelope('apps/v1', 'ControllerRevision', lengthDelimited(2, lengthDelimited(1, Buffer.from(json))))
  const intOrString = (type: number): Buffer => {
    const port = Buffer.concat([lengthDelimited(4, Buffer.concat([Buffer.from([0x08, type])]))])
    return envelope('v1', 'Service', lengthDelimited(2, lengthDelimited(1, port)))
  }
  const cases: readonly (readonly [name: string, value: Buffer, code: CodecErrorCode | 'none'])[] = [
    ['no magic', Buffer.from('{}'), 'malformed'],
    ['a kind nobody knows', envelope('example.com/v1', 'Thing', Buffer.alloc(0)), 'unknown-kind'],
    ['no kind', envelope('', '', Buffer.alloc(0)), 'unknown-kind'],
    ['a known message that is not a kind', envelope('v1', 'PodSpec', Buffer.alloc(0)), 'unknown-kind'],
    ['nothing but a kind', envelope('v1', 'Pod', Buffer.alloc(0)), 'none'],
    ['metadata as a number', envelope('v1', 'Pod', Buffer.from([0x08, 1])), 'wire-type'],
    ['a name as a number', envelope('v1', 'Pod', lengthDelimited(1, Buffer.from([0x08, 1]))), 'wire-type'],
    ['a group', envelope('v1', 'Pod', Buffer.from([0xa3, 0x06, 0xa4, 0x06])), 'malformed'],
    ['field 0', envelope('v1', 'Pod', Buffer.from([0x02, 0x00])), 'malformed'],
    [
      'a number without an end',
      envelope('v1', 'Pod', Buffer.from([0xa0, 0x06, ...Array<number>(11).fill(0x80)])),
      'malformed',
    ],
    ['a length beyond the message', envelope('v1', 'Pod', Buffer.from([0x0a, 0x7f])), 'truncated'],
    ['a length of 2^63', envelope('v1', 'Pod', Buffer.concat([Buffer.from([0x0a]), varint(2n ** 63n)])), 'truncated'],
    ['an unknown field', envelope('v1', 'Pod', lengthDelimited(1000, Buffer.from('x'))), 'none'],
    [
      'compressed',
      Buffer.concat([envelope('v1', 'Pod', Buffer.alloc(0)), lengthDelimited(3, Buffer.from('gzip'))]),
      'unsupported',
    ],
    [
      'JSON inside',
      Buffer.concat([envelope('v1', 'Pod', Buffer.alloc(0)), lengthDelimited(4, Buffer.from('application/json'))]),
      'unsupported',
    ],
    ['JSON that is none', rawExtension('{"a":}'), 'malformed'],
    ['JSON and something after it', rawExtension('{} {}'), 'malformed'],
    ['JSON with a raw line break in a string', rawExtension('"a\nb"'), 'malformed'],
    ['JSON cut off', rawExtension('{"a":[1,'), 'malformed'],
    ['JSON nested 600 deep', rawExtension('['.repeat(600) + ']'.repeat(600)), 'malformed'],
    ['JSON with a number that no double can hold', rawExtension('{"a":1e400}'), 'none'],
    ['CBOR', rawExtension('\u00d9\u00d9\u00f7'), 'malformed'],
    ['an IntOrString of a third type', intOrString(2), 'malformed'],
    ['messages nested at the bound', deep(MAX_MESSAGE_DEPTH - 10), 'none'],
    ['messages nested beyond it', deep(MAX_MESSAGE_DEPTH + 10), 'too-deep'],
    ['messages nested without sense', deep(20_000), 'too-deep'],
  ]
  for (const [name, value, code] of cases)
    t.equal(
      codeOf(() => decodeObject(value, schema)),
      code,
      name,
    )
  t.end()
})

void t.test('a truncated value is rejected, unless it is complete up to there', (t) => {
  for (const value of [storedPod, pod.protobuf]) {
    const whole = decodeObject(value, schema).bytes.length
    for (let length = 0; length < value.length; length++) {
      const cut = value.subarray(0, length)
      const code = codeOf(() => {
        // Only the empty ends of the envelope can be missing unnoticed, or the whole object.
        const { bytes } = decodeObject(cut, schema)
        if (bytes.length !== whole && openEnvelope(cut).rawEnd !== openEnvelope(cut).rawStart) t.fail(`at ${length}`)
      })
      if (code === 'wire-type' || code === 'too-deep') t.fail(`cut at ${length}: ${code}`)
    }
  }
  t.end()
})

void t.test('an object of 1.5 MB decodes; one that would grow beyond all limits does not', (t) => {
  const text = Buffer.alloc(1_500_000, 'x')
  const entry = lengthDelimited(2, Buffer.concat([lengthDelimited(1, Buffer.from('big')), lengthDelimited(2, text)]))
  const decoded = decodeObject(envelope('v1', 'ConfigMap', entry), schema)
  t.equal((JSON.parse(decoded.bytes.toString()) as { data: { big: string } }).data.big.length, 1_500_000)

  const emptyClaims = Buffer.concat(Array.from({ length: 1_000_000 }, () => lengthDelimited(4, Buffer.alloc(0))))
  t.equal(
    codeOf(() => decodeObject(envelope('apps/v1', 'StatefulSet', lengthDelimited(2, emptyClaims)), schema)),
    'too-large',
  )
  t.equal(decodeObject(storedPod, schema).kind, 'Pod', 'and the next one is fine')
  t.end()
})

void t.test('fields the schema does not know are counted, at every depth', (t) => {
  const unknown = Buffer.concat([lengthDelimited(900, Buffer.from('x')), Buffer.from([0xa8, 0x46, 0x01])])
  const spec = lengthDelimited(2, Buffer.concat([unknown, lengthDelimited(10, Buffer.from('n1'))]))
  const decoded = decodeObject(envelope('v1', 'Pod', Buffer.concat([unknown, spec])), schema)
  t.equal(decoded.unknownFields, 4)
  t.match(JSON.parse(decoded.bytes.toString()), { spec: { nodeName: 'n1' } })
  t.end()
})

void t.test('a repeated text keeps its last occurrence, a repeated message is merged', (t) => {
  const metadata = (...fields: Buffer[]): Buffer => lengthDelimited(1, Buffer.concat(fields))
  const raw = Buffer.concat([
    metadata(lengthDelimited(1, Buffer.from('first')), lengthDelimited(3, Buffer.from('ns'))),
    metadata(lengthDelimited(1, Buffer.from('x')), lengthDelimited(1, Buffer.from('last'))),
  ])
  const decoded = JSON.parse(decodeObject(envelope('v1', 'ConfigMap', raw), schema).bytes.toString()) as object
  t.match(decoded, { metadata: { name: 'last', namespace: 'ns' } })
  t.end()
})

void t.test('bytes that are not UTF-8 become U+FFFD one by one, and the JSON stays valid', (t) => {
  const raw = lengthDelimited(1, lengthDelimited(1, Buffer.from([0x61, 0xff, 0xc3, 0x28, 0xe2, 0x82, 0x22])))
  const decoded = JSON.parse(decodeObject(envelope('v1', 'ConfigMap', raw), schema).bytes.toString()) as object
  t.match(decoded, { metadata: { name: 'a\ufffd\ufffd(\ufffd\ufffd"' } })
  t.end()
})

void t.test('a text with bytes that are not UTF-8 is written in one pass, one U+FFFD for each', (t) => {
  const random = seededRandom(testSeed(1))
  const bytes = [0x00, 0x22, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef]
  const starts = [...bytes, 0xf0, 0xf1, 0xf4, 0xf5, 0xff]
  for (let round = 0; round < 2_000; round++) {
    const text = Buffer.from(
      Array.from({ length: randomInteger(random, 0, 12) }, () => starts[randomInteger(random, 0, starts.length - 1)]!),
    )
    let calls = 0
    const slice = text.subarray.bind(text)
    text.subarray = (...range) => (calls++, slice(...range))
    const writer = new JsonWriter()
    writer.string(text, 0, text.length)
    t.equal(JSON.parse(writer.copy().toString()), replaced(slice()), text.toString('hex'))
    t.ok(calls <= 1, `${calls} slices`)
  }
  t.end()
})

/** Each byte that starts no well-formed sequence becomes a U+FFFD. */
function replaced(bytes: Buffer): string {
  let text = ''
  for (let at = 0; at < bytes.length;) {
    const size = [1, 2, 3, 4].find((size) => at + size <= bytes.length && isUtf8(bytes.subarray(at, at + size)))
    text += size === undefined ? '\ufffd' : bytes.toString('utf8', at, at + size)
    at += size ?? 1
  }
  return text
}

void t.test('nothing is kept of the apiVersions that clients send', (t) => {
  const sizes = (value: object): number =>
    Object.values(value).reduce<number>((sum, one) => sum + (one instanceof Map ? one.size : 0), 0)
  const own = schema.with({ messages: [], packages: [], kinds: new Map() })
  const plan = plansOf(own).ofKind('v1', 'DeleteOptions')
  const before = { plan: sizes(plan), schema: sizes(own) }
  for (let i = 0; i < 200; i++) {
    const apiVersion = `${i}${'x'.repeat(7_000)}/v1`
    t.match(JSON.parse(decodeObject(envelope(apiVersion, 'DeleteOptions', Buffer.alloc(0)), own).bytes.toString()), {
      apiVersion,
    })
    own.messageOfKind(`short${i}/v1`, 'Unknown')
  }
  t.same({ plan: sizes(plan), schema: sizes(own) }, before)
  t.end()
})

void t.test('metadata is read without the rest, which may even be broken', (t) => {
  for (const { name, protobuf, json } of apiTestData('head')) {
    const expected = json['metadata'] as Record<string, unknown> | undefined
    if (expected?.['name'] === undefined) continue
    const read = readMetadata(protobuf)
    t.match(
      { ...read, labels: Object.fromEntries(read.labels), annotations: Object.fromEntries(read.annotations) },
      {
        name: expected['name'],
        namespace: expected['namespace'],
        uid: expected['uid'],
        labels: expected['labels'],
        annotations: expected['annotations'],
        deletionTimestamp: expected['deletionTimestamp'],
      },
      name,
    )
  }
  const broken = envelope(
    'v1',
    'Pod',
    Buffer.concat([lengthDelimited(1, lengthDelimited(1, Buffer.from('p'))), lengthDelimited(2, Buffer.from([0xff]))]),
  )
  t.equal(readMetadata(broken).name, 'p')
  t.equal(
    codeOf(() => decodeObject(broken, schema)),
    'truncated',
  )
  t.end()
})

void t.test('a resourceVersion is inserted without changing anything else', (t) => {
  const unknown = lengthDelimited(900, Buffer.from('kept'))
  const metadata = Buffer.concat([
    lengthDelimited(1, Buffer.from('p')),
    lengthDelimited(14, Buffer.alloc(200, 'x')),
    unknown,
  ])
  const values: readonly (readonly [string, Buffer])[] = [
    ...apiTestData('head')
      .filter(({ json }) => (json['metadata'] as Record<string, unknown> | undefined)?.['name'] !== undefined)
      .map(({ name, protobuf }) => [name, protobuf] as const),
    ['as stored by an API server', storedPod],
    [
      'no resourceVersion, and fields nobody knows',
      envelope('v1', 'Pod', Buffer.concat([lengthDelimited(1, metadata), unknown])),
    ],
    ['no metadata', envelope('v1', 'Pod', lengthDelimited(2, Buffer.alloc(0)))],
    [
      'two resourceVersions',
      envelope(
        'v1',
        'Pod',
        lengthDelimited(
          1,
          Buffer.concat([lengthDelimited(6, Buffer.from('7')), unknown, lengthDelimited(6, Buffer.from('8'))]),
        ),
      ),
    ],
  ]
  for (const [name, value] of values) {
    for (const version of ['1', '9007199254740991']) {
      const served = withResourceVersion(value, version)
      t.equal(readMetadata(served).resourceVersion, version, name)
      t.equal(decodeObject(served, schema).bytes.toString(), decodeObject(value, schema).bytes.toString(), name)
      t.equal(decodeObject(served, schema).unknownFields, decodeObject(value, schema).unknownFields, name)
      t.equal(withResourceVersion(served, version).compare(served), 0, `${name}: a second time changes nothing`)
    }
  }
  t.equal(openEnvelope(withResourceVersion(storedPod, '1', 'v2')).apiVersion, 'v2')
  t.end()
})
