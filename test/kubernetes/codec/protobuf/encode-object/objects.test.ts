/** Objects from JSON to protobuf: the bytes are those that Go writes. */
import t from 'tap'
import { parseJsonTree, record } from '../../../../../src/kubernetes/codec/json-tree.js'
import { decodeObject } from '../../../../../src/kubernetes/codec/protobuf/decode.js'
import { encodeObject } from '../../../../../src/kubernetes/codec/protobuf/encode-object.js'
import { kubernetesSchema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'
import { apiTestData } from '../../../../support/protobuf-data.js'

const schema = kubernetesSchema()
const tree = (json: object) => parseJsonTree(Buffer.from(JSON.stringify(json))).value as ReturnType<typeof record>

void t.test('every field of every kind is written as Go writes it, byte by byte', async (t) => {
  let count = 0
  for (const { name, protobuf, json } of apiTestData('head')) {
    const encoded = encodeObject(tree(json), schema)
    if (encoded === null) continue
    const options = { keepResourceVersion: true }
    const decoded = decodeObject(encoded, schema, options)
    t.equal(decoded.unknownFields, 0, name)
    const expected = JSON.parse(decodeObject(protobuf, schema, options).bytes.toString()) as object
    t.same(JSON.parse(decoded.bytes.toString()), expected, name)
    t.ok(encoded.equals(protobuf), `${name}: the bytes`)
    count++
  }
  t.ok(count > 150, `${count} kinds`)
})

void t.test('omitted members match what Go writes for an empty member', async (t) => {
  const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' }, spec: { containers: [{ name: 'c' }] } }
  const { bytes, unknownFields } = decodeObject(encodeObject(tree(pod), schema)!, schema, { withoutDefaults: true })
  t.equal(unknownFields, 0)
  t.match(JSON.parse(bytes.toString()), pod)
  t.equal(encodeObject(tree({ apiVersion: 'example.com/v1', kind: 'Range' }), schema), null, 'an unknown kind')
  t.throws(() => encodeObject(tree({ ...pod, spec: 'none' }), schema), { name: 'CodecError' })
})
