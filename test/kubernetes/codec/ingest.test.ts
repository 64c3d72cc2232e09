import t from 'tap'
import { createIngest } from '../../../src/kubernetes/codec/ingest.js'
import { LeftOutFields, MANAGED_FIELDS } from '../../../src/kubernetes/codec/left-out-fields.js'
import { enveloped } from '../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { lengthField } from '../../../src/kubernetes/codec/protobuf/wire.js'
import { Scratch } from '../../../src/support/scratch.js'
import { scanObject } from '../../../src/kubernetes/codec/json-scan.js'
import { keyValueObject } from '../../../src/kubernetes/dialect/key-value-object.js'
import { type Key, type KeyValue, keyFromText } from '../../../src/engine/model/event.js'
import type { ApiResource } from '../../../src/kubernetes/model/api-resource.js'
import { type StoredObject, type Unservable, isUnservable } from '../../../src/engine/model/stored-object.js'
import { PODS, ingestPod, keyValue, podKey } from '../../support/objects.js'

const valueOf = (text: string): Buffer => Buffer.from(text)

function stored(kv: KeyValue): StoredObject {
  const object = ingestPod(kv)
  if (isUnservable(object)) throw new Error(object.unservable)
  return object
}

/** Reads keys as under a declared prefix of values. */
const ingestValue = (kv: KeyValue): StoredObject => {
  const resource: ApiResource = { ...PODS, holds: 'values' }
  return createIngest({ resource, maxValueBytes: 1_000, wrap: keyValueObject })(kv) as StoredObject
}

function refused(kv: KeyValue): string {
  const object = ingestPod(kv)
  return isUnservable(object) ? object.unservable : ''
}

void t.test('a JSON object keeps its text; only white space between tokens is removed', (t) => {
  const cases: [name: string, value: string, bytes: string][] = [
    ['compact', '{"metadata":{"name":"a"},"n":1}', '{"metadata":{"name":"a"},"n":1}'],
    ['spread out', ' {\n "metadata" : { } ,\t"a b" : " x "\r\n}\n', '{"metadata":{},"a b":" x "}'],
    [
      'numbers as they are spelled',
      '{"metadata":{},"n":[9007199254740993,1.0,1e300,-0]}',
      '{"metadata":{},"n":[9007199254740993,1.0,1e300,-0]}',
    ],
    ['strange keys', '{"metadata":{},"__proto__":1,"a":1,"a":2}', '{"metadata":{},"__proto__":1,"a":1,"a":2}'],
  ]
  for (const [name, value, bytes] of cases) {
    const object = stored(keyValue(podKey('x', 'a'), valueOf(value), 7))
    t.equal(object.encoding, 'json', name)
    t.equal(object.bytes.toString(), bytes, name)
    t.equal(object.bytes[object.revisionOffset - 1], '{'.charCodeAt(0), `${name}: just inside metadata`)
  }
  t.end()
})

void t.test('fields that are left out take no memory, and the checksum of the whole value remains', (t) => {
  const leftOut = new LeftOutFields([MANAGED_FIELDS])
  const ingest = createIngest({ resource: PODS, maxValueBytes: 10_000, wrap: keyValueObject, leftOut })
  const metadata = (manager: string): object => ({ name: 'a', managedFields: [{ manager }] })
  const values: Readonly<Record<string, (manager: string) => Buffer>> = {
    JSON: (manager) => Buffer.from(JSON.stringify({ metadata: metadata(manager), spec: 'x'.repeat(100) })),
    'JSON with white space': (manager) => Buffer.from(JSON.stringify({ metadata: metadata(manager) }, null, 2)),
    protobuf: (manager) =>
      enveloped(
        'v1',
        'Pod',
        lengthField(1, Buffer.concat([lengthField(1, 'a'), lengthField(17, lengthField(1, manager))])),
      ),
  }
  for (const [form, valueOfManager] of Object.entries(values)) {
    const read = (manager: string, scratch?: Scratch): StoredObject =>
      ingest(keyValue(podKey('x', 'a'), valueOfManager(manager), 7), scratch) as StoredObject
    const [first, second] = [read('kubectl'), read('helm')]
    t.same(first.bytes, second.bytes, form)
    t.notMatch(first.bytes.toString(), 'kubectl', form)
    t.equal(first.bytes.buffer.byteLength, first.size, `${form}: no larger buffer stays`)
    t.not(first.wholeChecksum, second.wholeChecksum, form)
    t.equal(read('kubectl').wholeChecksum, first.wholeChecksum, form)
    const scratch = new Scratch(10_000)
    t.same(read('kubectl', scratch).bytes, first.bytes, `${form}, read into scratch memory`)
  }
  const plain = ingest(keyValue(podKey('x', 'a'), Buffer.from('{"metadata":{"name":"a"}}'), 7)) as StoredObject
  t.equal(plain.wholeChecksum, 0, 'an object without the field has no checksum')
  t.end()
})

void t.test('a stored value is a separate copy, never a slice of its message', (t) => {
  const message = Buffer.alloc(1_000_000, 0x20)
  for (const value of ['{"metadata":{}}', 'plain text']) {
    const at = message.write(value, 500)
    const kv = keyValue(podKey('x', 'a'), message.subarray(500, 500 + at), 7)
    const object = value.startsWith('{') ? stored(kv) : ingestValue(kv)
    t.not(object.bytes.buffer, message.buffer, value)
    t.ok(object.bytes.buffer.byteLength < 100_000, value)
  }
  t.end()
})

void t.test('the name comes from the key, and the revisions from etcd', (t) => {
  const kv: KeyValue = {
    ...keyValue(
      podKey('x', 'a'),
      valueOf('{"metadata":{"name":"other","namespace":"other","resourceVersion":"1"}}'),
      7,
      5,
    ),
    version: 3,
    leaseId: '9223372036854775807',
  }
  t.match(stored(kv), {
    scope: 'x',
    name: 'a',
    createRevision: 5,
    modRevision: 7,
    version: 3,
    leaseId: '9223372036854775807',
  })
  t.notMatch(stored(kv).bytes.toString(), 'resourceVersion', 'one of its own would come twice')
  t.end()
})

void t.test('a value that is not an object is wrapped under a declared prefix, and unservable elsewhere', (t) => {
  for (const value of [
    '',
    'text',
    '[1]',
    '"{}"',
    '17',
    '{"no":"metadata"}',
    '{"metadata":"text"}',
    '{broken',
    '{"metadata":{},"n":1e400}',
    '\u{fffd}{',
  ]) {
    const kv = keyValue(podKey('x', 'a'), valueOf(value), 7)
    t.equal(ingestValue(kv).typeName, PODS.kind, JSON.stringify(value))
    t.match(ingestPod(kv), { unservable: /neither a JSON object with metadata nor protobuf/, withholds: 'unreadable' })
  }
  t.end()
})

void t.test('a value that cannot be served has a reason', (t) => {
  const tooLarge = createIngest({
    resource: { ...PODS, holds: 'values' },
    maxValueBytes: 10,
    wrap: () => scanObject(valueOf('{"metadata":{}}'))!,
  })
  const at = (key: Key, value: string): KeyValue => keyValue(key, valueOf(value), 7)
  t.match(refused(at(podKey('x', 'a'), 'k8s:enc:aescbc:v1:k:x')), /encrypted/)
  t.match(refused(at(podKey('x', 'a'), 'k8s\0\xff\xff')), /protobuf/)
  t.match(refused(keyValue(podKey('x', 'a'), Buffer.from('d9d9f7a0', 'hex'), 7)), /CBOR/)
  t.match(refused(at(keyFromText('/registry/pods/stray'), '{"metadata":{}}')), /is not a key of pods/)
  t.match(refused(at(keyFromText('/registry/pods/a/b/c'), '{"metadata":{}}')), /is not a key of pods/)
  t.match(refused(at(keyFromText('/registry/pods/'), '{"metadata":{}}')), /is not a key of pods/)
  const alike = at('/registry/pods/a/\xff' as Key, '{"metadata":{"namespace":"a","name":"\ufffd"}}')
  t.match(refused(alike), /is not a key of pods/, 'bytes that only look like the name')
  t.notOk(isUnservable(tooLarge(at(podKey('x', 'a'), '0123456789'))), 'exactly the limit')
  t.match(tooLarge(at(podKey('x', 'a'), '0123456789a')), { unservable: /11 bytes exceed the limit of 10/ })
  t.end()
})

const flags = (holds: 'values' | 'objects', namespaced = false): ApiResource => ({
  ...PODS,
  group: 'example.com',
  kind: 'Flag',
  plural: 'flags',
  namespaced,
  holds,
  etcdPrefix: keyFromText('/config/flags/'),
})
const ingestAs = (resource: ApiResource, key: string, value: string): StoredObject | Unservable =>
  createIngest({ resource, maxValueBytes: 1_000, wrap: keyValueObject })(
    keyValue(keyFromText(`/config/flags/${key}`), valueOf(value), 7),
  )

void t.test('under a declared prefix the name comes from the key, whatever the value contains', (t) => {
  const names = new Set<string>()
  for (const [key, name] of [
    ['a1', 'a1'],
    ['a2', 'a2'],
    ['a/b ä', 'a:b~20ä'],
    ['', '~'],
    ['a:b', 'a~3ab'],
  ] as const) {
    for (const value of ['on', '{"metadata":{"name":"same"},"v":1}', '{"metadata":{"owner":"ann"}}', 'k8s\0junk']) {
      const object = ingestAs(flags('values'), key, value)
      if (isUnservable(object)) throw new Error(object.unservable)
      t.equal(object.name, name, value)
      const { metadata, key: whole } = JSON.parse(object.bytes.toString()) as { metadata: object; key: string }
      t.same(metadata, { name })
      t.equal(whole, `/config/flags/${key}`)
      names.add(object.name)
    }
  }
  t.equal(names.size, 5)
  t.match(ingestAs(flags('values', true), 'eu/a/b', 'on'), { scope: 'eu', name: 'a:b' })
  t.match(ingestAs(flags('values', true), '/', 'on'), { scope: '~', name: '~' })
  t.match(ingestAs(flags('values', true), 'eu', 'on'), { unservable: /is not a key of/ })
  t.end()
})

void t.test('where whole objects are declared, one whose name does not match its key cannot be served', (t) => {
  const typed = '"apiVersion":"example.com/v1","kind":"Flag"'
  const good: readonly (readonly [key: string, value: string])[] = [
    ['a', `{${typed},"metadata":{"name":"a"},"spec":1}`],
    ['eu/a', `{${typed},"metadata":{"name":"eu:a"}}`],
    ['a', '{"metadata":{"name":"a","namespace":""}}'],
  ]
  for (const [key, value] of good) t.match(ingestAs(flags('objects'), key, value), { key: /flags/ }, value)
  t.match(ingestAs(flags('objects', true), 'eu/a', '{"metadata":{"name":"a","namespace":"eu"}}'), { name: 'a' })

  const bad: readonly (readonly [key: string, value: string, reason: RegExp])[] = [
    ['a1', `{${typed},"metadata":{"name":"same"}}`, /its metadata.name is "same", but its key says "a1"/],
    ['eu/a', `{${typed},"metadata":{"name":"eu/a"}}`, /is "eu\/a", but its key says "eu:a"/],
    ['a', `{${typed},"metadata":{}}`, /metadata.name is ""/],
    ['a', `{${typed},"metadata":{"name":"a","name":"b"}}`, /metadata.name is "b"/],
    ['a', `{${typed},"metadata":{"name":"a","namespace":"x"}}`, /metadata.namespace is "x"/],
    [
      'a',
      '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}',
      /is a Pod of v1, but flags.example.com are declared/,
    ],
    ['a', '{"kind":"Flagg","metadata":{"name":"a"}}', /is a Flagg of /],
    ['a', 'on', /not a JSON object with metadata/],
    ['a', '{"spec":1}', /not a JSON object with metadata/],
    ['a', 'k8s\0x', /not a JSON object with metadata/],
    ['a', '{"metadata":{"name":"a"},"n":[1,1e400]}', /or it has a number that does not fit a 64-bit float$/],
    ['a', `{"metadata":{"name":"a"},"n":-${'9'.repeat(310)}}`, /or it has a number that does not fit a 64-bit float$/],
  ]
  for (const [key, value, reason] of bad) t.match(ingestAs(flags('objects'), key, value), { unservable: reason }, value)
  t.end()
})

void t.test('a value in CBOR is read however much its JSON grows', (t) => {
  const text = (value: string): Buffer => {
    const bytes = Buffer.from(value)
    return Buffer.concat([Buffer.from([0x7a]), uint32(bytes.length), bytes])
  }
  const grown: Readonly<Record<string, Buffer>> = {
    'control characters': text('\0'.repeat(900_000)),
    'half floats': Buffer.concat([
      Buffer.from([0x9a]),
      uint32(300_000),
      Buffer.alloc(900_000, Buffer.from('f98011', 'hex')),
    ]),
  }
  for (const [what, value] of Object.entries(grown)) {
    const object = Buffer.concat([
      Buffer.from('d9d9f7a2', 'hex'),
      text('metadata'),
      Buffer.from('a1', 'hex'),
      text('name'),
      text('x'),
      text('spec'),
      value,
    ])
    const read = ingestPod(keyValue(podKey('a', 'x'), object, 5))
    t.equal(isUnservable(read) ? read.unservable : null, null, what)
    if (!isUnservable(read)) t.ok(read.bytes.length > 5 * object.length, what)
  }
  t.end()
})

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

void t.test("for clients of etcd's own API, a value is also kept exactly as stored, whatever its size", (t) => {
  const resource = { ...PODS, holds: 'values' } as const
  const ingest = createIngest({ resource, maxValueBytes: 10, wrap: keyValueObject, keepsRaw: true })
  for (const text of ['{ "a" : 1 }', 'text', '', 'x'.repeat(1_000)]) {
    const kv = keyValue(podKey('default', 'a'), valueOf(text), 7)
    const object = ingest(kv) as StoredObject
    t.same(object.raw, kv.value)
    t.notOk(isUnservable(object))
  }
  t.equal(ingestValue(keyValue(podKey('default', 'a'), valueOf('text'), 7)).raw, undefined)
  t.end()
})
