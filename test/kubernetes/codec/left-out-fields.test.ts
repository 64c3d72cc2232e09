import t from 'tap'
import { annotationOf, LeftOutFields, MANAGED_FIELDS } from '../../../src/kubernetes/codec/left-out-fields.js'
import { scanObject } from '../../../src/kubernetes/codec/json-scan.js'
import { decodeObject } from '../../../src/kubernetes/codec/protobuf/decode.js'
import { openEnvelope } from '../../../src/kubernetes/codec/protobuf/envelope.js'
import { enveloped } from '../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { lengthField } from '../../../src/kubernetes/codec/protobuf/wire.js'
import { apiTestData } from '../../support/protobuf-data.js'

const NOTE = 'metadata.annotations.example\\.com/note'
const managed = new LeftOutFields([MANAGED_FIELDS])
const both = new LeftOutFields([NOTE, MANAGED_FIELDS])

void t.test('fields are cut out of JSON, and nothing else changes', async (t) => {
  const table: readonly (readonly [LeftOutFields, string, string])[] = [
    [managed, '{"metadata":{"a":1,"managedFields":[{"x":"]}"}],"b":2}}', '{"metadata":{"a":1,"b":2}}'],
    [managed, '{"metadata":{"managedFields":[]}}', '{"metadata":{}}'],
    [managed, '{"metadata":{"managedFields":null,"a":1}}', '{"metadata":{"a":1}}'],
    [managed, '{"metadata":{"managedFields":[],"a":1,"managedFields":[1]}}', '{"metadata":{"a":1}}'],
    [managed, '{"metadata":{"managed\\u0046ields":[1],"a":1}}', '{"metadata":{"a":1}}'],
    [
      managed,
      '{"metadata":{"managedFields":[1]},"metadata":{"managedFields":[2],"a":1}}',
      '{"metadata":{},"metadata":{"a":1}}',
    ],
    [managed, '{"metadata":7,"metadata":{"managedFields":[2]}}', '{"metadata":7,"metadata":{}}'],
    [
      managed,
      '{"managedFields":[1],"metadata":{},"spec":{"metadata":{"managedFields":[1]}}}',
      '{"managedFields":[1],"metadata":{},"spec":{"metadata":{"managedFields":[1]}}}',
    ],
    [both, '{"metadata":{"annotations":{"example.com/note":"a","b":"c"}}}', '{"metadata":{"annotations":{"b":"c"}}}'],
    [both, '{"metadata":{"annotations":{"example.com/note":"a"},"name":"a"}}', '{"metadata":{"name":"a"}}'],
    [
      both,
      '{"metadata":{"annotations":{"example.com/notes":"a"},"labels":{"example.com/note":"x"}}}',
      '{"metadata":{"annotations":{"example.com/notes":"a"},"labels":{"example.com/note":"x"}}}',
    ],
    [
      both,
      '{"metadata":{"annotations":null,"name":"a"},"n":1.10}',
      '{"metadata":{"annotations":null,"name":"a"},"n":1.10}',
    ],
  ]
  for (const [fields, json, expected] of table) {
    const scanned = scanObject(Buffer.from(json))!
    const rest = fields.fromJson(scanned)
    t.equal(rest.bytes.toString(), expected, json)
    t.equal(rest === scanned, json === expected, 'an unchanged object is not copied')
    t.equal(rest.bytes.toString('latin1', 0, rest.revisionOffset).endsWith('"metadata":{'), true, 'the offset')
  }
})

void t.test('every kind in protobuf loses the fields that its JSON loses', async (t) => {
  const shown = (value: Buffer): unknown => JSON.parse(decodeObject(value, kubernetesSchema()).bytes.toString())
  let compared = 0
  for (const { name, protobuf } of apiTestData('head')) {
    const { apiVersion, kind } = openEnvelope(protobuf)
    if (kubernetesSchema().messageOfKind(apiVersion, kind) === undefined) continue
    const object = shown(protobuf) as { metadata?: { managedFields?: unknown; annotations?: Record<string, string> } }
    const annotations = Object.keys(object.metadata?.annotations ?? {})
    if (object.metadata?.managedFields === undefined || annotations.length === 0) continue
    const [annotation] = annotations
    const fields = new LeftOutFields([MANAGED_FIELDS, `metadata.annotations.${annotation!.replaceAll('.', '\\.')}`])
    const rest = fields.fromProtobuf(protobuf)
    delete object.metadata.managedFields
    delete object.metadata.annotations![annotation!]
    if (annotations.length === 1) delete object.metadata.annotations
    t.same(shown(rest), object, name)
    t.equal(fields.fromProtobuf(rest), rest, 'without the fields, a value is not copied')
    compared++
  }
  t.ok(compared > 50, `${compared}`)
})

void t.test('several metadata fields, which decoders merge, all lose the field', async (t) => {
  const metadata = (...fields: readonly Buffer[]): Buffer => lengthField(1, Buffer.concat(fields))
  const name = lengthField(1, 'a')
  const entry = lengthField(17, lengthField(1, 'm'))
  const spec = lengthField(2, 'x')
  t.same(
    managed.fromProtobuf(enveloped('v1', 'Pod', Buffer.concat([metadata(entry), spec, metadata(name, entry, entry)]))),
    enveloped('v1', 'Pod', Buffer.concat([metadata(), spec, metadata(name)])),
  )
  const torn = enveloped('v1', 'Pod', Buffer.concat([metadata(entry).subarray(0, -1)]))
  t.throws(() => managed.fromProtobuf(torn), { name: 'CodecError' })
})

void t.test('paths are canonical, and only annotations have a name', async (t) => {
  t.same(both.paths, [NOTE, MANAGED_FIELDS])
  t.same(new LeftOutFields([MANAGED_FIELDS, NOTE, NOTE]).paths, both.paths)
  t.equal(annotationOf(NOTE), 'example.com/note')
  for (const path of [MANAGED_FIELDS, 'metadata.annotations', 'metadata.annotations.a.b', 'metadata.labels.a', 'a['])
    t.equal(annotationOf(path), null, path)
})
