/** A kube-apiserver's protobuf is read however it is chunked, and every byte of the objects is kept. */
import t from 'tap'
import type { BytesObject } from '../../../src/client/reflector/bytes-codec.js'
import { type DecodedEvent, INITIAL_EVENTS_END } from '../../../src/client/reflector/object-codec.js'
import { encodeObject } from '../../../src/kubernetes/codec/protobuf/encode-object.js'
import { encodeBookmark, encodeStatus, encodeWatchEvent } from '../../../src/kubernetes/codec/protobuf/encode.js'
import { appendAt } from '../../../src/kubernetes/codec/protobuf/edit.js'
import { openEnvelope, rawOf } from '../../../src/kubernetes/codec/protobuf/envelope.js'
import { enveloped } from '../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { lengthField } from '../../../src/kubernetes/codec/protobuf/wire.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { protobufCodec, protobufWire } from '../../../src/kubernetes/upstream/protobuf-wire.js'
import { ExpiredError } from '../../../src/kubernetes/model/status.js'
import { protobufFrames } from '../../../src/server/transports/framing/framing.js'
import { PODS, rev } from '../../support/objects.js'
import { pod } from '../../support/pod.js'

const codec = protobufCodec(PODS)

/** A pod with a field that no schema has. */
function stored(name: string, resourceVersion: string): Buffer {
  const object = pod(name, { namespace: 'a' }) as { metadata: object }
  const known = encodeObject({ ...object, metadata: { ...object.metadata, resourceVersion } }, kubernetesSchema())!
  const raw = appendAt(rawOf(openEnvelope(known)), [900], Buffer.from('from a newer release'))
  return enveloped('v1', 'Pod', raw)
}

const bookmark = (resourceVersion: string, annotations: Readonly<Record<string, string>> = {}): Buffer =>
  encodeBookmark('v1', 'Pod', { resourceVersion, annotations })

void t.test('events arrive whole and in order, however they are cut', async (t) => {
  const events = [
    ['ADDED', stored('x', '5')],
    ['BOOKMARK', bookmark('7', { [INITIAL_EVENTS_END]: 'true' })],
    ['DELETED', stored('x', '9')],
    ['BOOKMARK', bookmark('12')],
  ] as const
  const bytes = Buffer.concat(events.flatMap(([type, body]) => protobufFrames.frame(type, body, null)))
  for (const size of [1, 2, 3, 5, 64, bytes.length]) {
    const found: DecodedEvent<BytesObject>[] = []
    const stream = protobufWire.open(codec, (event) => found.push(event))
    for (let at = 0; at < bytes.length; at += size) stream.push(bytes.subarray(at, at + size))
    t.equal(stream.pendingBytes, 0)
    t.match(
      found,
      [
        { type: 'ADDED', key: 'a/x', resourceVersion: '5', object: { namespace: 'a', name: 'x' } },
        { type: 'BOOKMARK', resourceVersion: '7', endsInitialEvents: true },
        { type: 'DELETED', key: 'a/x', resourceVersion: '9' },
        { type: 'BOOKMARK', resourceVersion: '12', endsInitialEvents: false },
      ],
      `in chunks of ${size}`,
    )
    const [added] = found
    if (added?.type !== 'ADDED') throw new Error('no event')
    t.ok(Buffer.from(added.object.bytes).equals(stored('x', '5')), 'byte for byte')
  }
  const cut = protobufWire.open(codec, () => undefined)
  cut.push(bytes.subarray(0, 30))
  t.equal(cut.pendingBytes, 30, 'an answer that ends here was cut')
})

void t.test('a Status inside a protobuf stream has the same fields as in JSON', async (t) => {
  const status = ExpiredError.tooOld(rev(3), rev(8)).toStatus()
  const event = codec.decodeEvent(encodeWatchEvent('ERROR', encodeStatus(status)))
  t.match(event, { type: 'ERROR', status: { code: 410, reason: 'Expired', message: status.message } })
})

void t.test('a list has its objects, its revision and its token', async (t) => {
  const metadata = Buffer.concat([lengthField(2, '40'), lengthField(3, 'next')])
  const list = Buffer.concat([
    lengthField(1, Buffer.concat([metadata, Buffer.from([0x20, 0x96, 0x01])])),
    ...['x', 'y'].map((name) => lengthField(2, rawOf(openEnvelope(stored(name, '6'))))),
  ])
  const body = enveloped('v1', 'PodList', list)
  const { items, ...rest } = codec.decodeList(body)
  t.same(rest, { resourceVersion: '40', continueToken: 'next', remainingItemCount: 150 })
  t.ok(items.every(({ bytes, name }) => Buffer.from(bytes).equals(stored(name, '6'))))
  t.same(
    items.map(({ name }) => name),
    ['x', 'y'],
  )
})

void t.test('any other object is an error', async (t) => {
  const foreign = encodeWatchEvent('ADDED', encodeBookmark('v1', 'Node', { resourceVersion: '5' }))
  const malformed = { name: 'WatchFailure', kind: 'malformed' }
  t.throws(() => codec.decodeEvent(foreign), malformed)
  t.throws(() => codec.decodeEvent(Buffer.from([0x0a, 0xff])), malformed)
  t.throws(() => codec.decodeList(Buffer.from('{}')), malformed)
  t.throws(() => protobufWire.open(codec, () => undefined).push(Buffer.from([0xff, 0, 0, 0])), malformed)
})
