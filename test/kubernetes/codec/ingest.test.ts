import t from 'tap'
import { createIngest } from '../../../src/kubernetes/codec/ingest.js'
import { scanObject } from '../../../src/kubernetes/codec/json-scan.js'
import { type Key, type KeyValue, keyFromText } from '../../../src/engine/model/event.js'
import type { Resource } from '../../../src/engine/model/resource.js'
import { type StoredObject, isUnservable } from '../../../src/engine/model/stored-object.js'
import { PODS, ingestPod, keyValue, podKey } from '../../support/objects.js'

const valueOf = (text: string): Buffer => Buffer.from(text)

function stored(kv: KeyValue): StoredObject {
  const object = ingestPod(kv)
  if (isUnservable(object)) throw new Error(object.unservable)
  return object
}

function refused(kv: KeyValue): string {
  const object = ingestPod(kv)
  return isUnservable(object) ? object.unservable : ''
}

void t.test('a JSON object keeps its text; only white space between tokens goes', (t) => {
  const cases: [name: string, value: string, bytes: string][] = [
    ['compact', '{"metadata":{"name":"a"},"n":1}', '{"metadata":{"name":"a"},"n":1}'],
    ['spread out', ' {\n "metadata" : { } ,\t"a b" : " x "\r\n}\n', '{"metadata":{},"a b":" x "}'],
    [
      'numbers as they are spelled',
      '{"metadata":{},"n":[9007199254740993,1.0,1e400,-0]}',
      '{"metadata":{},"n":[9007199254740993,1.0,1e400,-0]}',
    ],
    ['strange keys', '{"metadata":{},"__proto__":1,"a":1,"a":2}', '{"metadata":{},"__proto__":1,"a":1,"a":2}'],
  ]
  for (const [name, value, bytes] of cases) {
    const object = stored(keyValue(podKey('x', 'a'), valueOf(value), 7))
    t.equal(object.encoding, 'json', name)
    t.equal(object.bytes.toString(), bytes, name)
    t.equal(object.bytes[object.metadataOffset - 1], '{'.charCodeAt(0), `${name}: just inside metadata`)
  }
  t.end()
})

void t.test('a stored value is a copy of its own, never a slice of its message', (t) => {
  const message = Buffer.alloc(1_000_000, 0x20)
  for (const value of ['{"metadata":{}}', 'plain text']) {
    const at = message.write(value, 500)
    const object = stored(keyValue(podKey('x', 'a'), message.subarray(500, 500 + at), 7))
    t.not(object.bytes.buffer, message.buffer, value)
    t.ok(object.bytes.buffer.byteLength < 100_000, value)
  }
  t.end()
})

void t.test('the name is that of the key, and the revisions are those of etcd', (t) => {
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
    namespace: 'x',
    name: 'a',
    createRevision: 5,
    modRevision: 7,
    version: 3,
    leaseId: '9223372036854775807',
  })
  t.notMatch(stored(kv).bytes.toString(), 'resourceVersion', 'one of its own would come twice')
  t.end()
})

void t.test('a value that is not an object is wrapped', (t) => {
  for (const value of [
    '',
    'text',
    '[1]',
    '"{}"',
    '17',
    '{"no":"metadata"}',
    '{"metadata":"text"}',
    '{broken',
    '\u{fffd}{',
  ]) {
    const object = stored(keyValue(podKey('x', 'a'), valueOf(value), 7))
    t.equal(object.encoding, 'json', JSON.stringify(value))
    t.equal((JSON.parse(object.bytes.toString()) as { text: string }).text, value)
  }
  t.end()
})

void t.test('a value that cannot be served comes with the reason', (t) => {
  const tooLarge = createIngest({
    resource: PODS,
    maxValueBytes: 10,
    wrap: () => scanObject(valueOf('{"metadata":{}}'))!,
  })
  const at = (key: Key, value: string): KeyValue => keyValue(key, valueOf(value), 7)
  t.match(refused(at(podKey('x', 'a'), 'k8s:enc:aescbc:v1:k:x')), /encrypted/)
  t.match(refused(at(podKey('x', 'a'), 'k8s\0\xff\xff')), /protobuf/)
  t.match(refused(at(keyFromText('/registry/pods/stray'), '{"metadata":{}}')), /does not have the shape of pods/)
  t.match(refused(at(keyFromText('/registry/pods/a/b/c'), '{"metadata":{}}')), /does not have the shape of pods/)
  t.match(refused(at(keyFromText('/registry/pods/'), '{"metadata":{}}')), /does not have the shape of pods/)
  t.notOk(isUnservable(tooLarge(at(podKey('x', 'a'), '0123456789'))), 'exactly the limit')
  t.match(tooLarge(at(podKey('x', 'a'), '0123456789a')), { unservable: /11 bytes exceed the limit of 10/ })
  t.end()
})

void t.test('under a declared prefix the name is the whole rest of the key', (t) => {
  const flags: Resource = { ...PODS, namespaced: false, wholeKeyNames: true, etcdPrefix: keyFromText('/config/flags/') }
  const ingest = createIngest({
    resource: flags,
    maxValueBytes: 100,
    wrap: () => scanObject(valueOf('{"metadata":{}}'))!,
  })
  const object = ingest(keyValue(keyFromText('/config/flags/a/b ä'), valueOf('on'), 7))
  t.match(object, { namespace: '', name: 'a/b ä' })
  t.end()
})
