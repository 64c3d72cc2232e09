import t from 'tap'

import { decodeObject } from '../../../../src/kubernetes/codec/protobuf/decode.js'
import { encodeEnvelope } from '../../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../../../../src/kubernetes/codec/protobuf/schema.js'
import { unknownFields } from '../../../../src/kubernetes/codec/protobuf/unknown-fields.js'
import { apiTestData } from '../../../support/protobuf-data.js'
import { lengthDelimited } from '../../../support/protobuf-sample.js'

const schema = kubernetesSchema()

function found(apiVersion: string, kind: string, ...raw: Buffer[]): readonly string[] {
  const bytes = Buffer.concat(raw)
  const value = encodeEnvelope(apiVersion, kind, bytes.length, (out, offset) => offset + bytes.copy(out, offset))
  t.equal(
    decodeObject(value, schema).unknownFields,
    unknownFields(value, schema).length,
    'as many as the decoder counts',
  )
  return unknownFields(value, schema)
}

const inside = lengthDelimited
const LATER = Buffer.concat([inside(900, Buffer.from('x'))])

void t.test('an object of a known release has none', (t) => {
  for (const { name, protobuf, json } of [...apiTestData('head'), ...apiTestData('removed')]) {
    if (json['kind'] === undefined) continue
    t.same(unknownFields(protobuf, schema), [], name)
  }
  t.end()
})

void t.test('each unknown field is named by the path of its message and its number', (t) => {
  const key = inside(1, Buffer.from('a'))
  for (const [kind, raw, expected] of [
    ['Pod', LATER, ['#900']],
    ['Pod', inside(1, LATER), ['metadata.#900']],
    ['Pod', inside(2, inside(2, LATER)), ['spec.containers.#900']],
    ['Pod', Buffer.concat([inside(2, inside(2, LATER)), inside(3, LATER)]), ['spec.containers.#900', 'status.#900']],
    // A time, and a quantity in a map.
    ['Pod', inside(1, inside(8, LATER)), ['metadata.creationTimestamp.#900']],
    ['Node', inside(3, inside(1, Buffer.concat([key, inside(2, LATER)]))), ['status.capacity.#900']],
    // A volume's source is inlined.
    ['Pod', inside(2, inside(1, inside(2, LATER))), ['spec.volumes.#900']],
  ] as const) {
    t.same(found('v1', kind, raw), expected)
  }
  t.end()
})

void t.test('an embedded object is searched, and JSON is not', (t) => {
  const pod = encodeEnvelope('v1', 'Pod', LATER.length, (out, offset) => offset + LATER.copy(out, offset))
  t.same(found('apps/v1', 'ControllerRevision', inside(2, inside(1, pod))), ['data.#900'])
  t.same(found('apps/v1', 'ControllerRevision', inside(2, inside(1, Buffer.from('{"a":1}')))), [])
  t.end()
})

void t.test('an unreadable value is an error', (t) => {
  t.throws(() => unknownFields(Buffer.from('text'), schema), { name: 'CodecError' })
  const cut = encodeEnvelope('v1', 'Pod', 2, (out, offset) => offset + Buffer.from([0x0a, 0x7f]).copy(out, offset))
  t.throws(() => unknownFields(cut, schema), { name: 'CodecError' })
  const kind = encodeEnvelope('v1', 'Unheard', 0, (_out, offset) => offset)
  t.throws(() => unknownFields(kind, schema), { name: 'CodecError', code: 'unknown-kind' })
  t.end()
})
