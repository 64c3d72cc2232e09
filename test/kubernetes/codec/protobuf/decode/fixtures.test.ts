import t from 'tap'

import { decodeObject } from '../../../../../src/kubernetes/codec/protobuf/decode.js'
import { isProtobuf, openEnvelope } from '../../../../../src/kubernetes/codec/protobuf/envelope.js'
import { readProtobuf } from '../../../../../src/kubernetes/codec/read-defaults.js'
import { kubernetesSchema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'
import { apiServer120, apiTestData, sharedTestData } from '../../../../support/protobuf-data.js'

const schema = kubernetesSchema()
const defaultKind = { apiVersion: 'v1', kind: 'WatchEvent' }

for (const [source, pairs] of [
  ['the present API', apiTestData('head')],
  ['removed versions', apiTestData('removed')],
  ['pairs beside the repository', sharedTestData()],
] as const) {
  void t.test(`every object of ${source} decodes to its own JSON, field for field`, (t) => {
    for (const { name, protobuf, json } of pairs) {
      const decoded = decodeObject(protobuf, schema, { keepResourceVersion: true, withoutDefaults: true, defaultKind })
      t.same(JSON.parse(decoded.bytes.toString()), json, name)
      t.equal(decoded.unknownFields, 0, `${name} has no unknown field`)
    }
    t.end()
  })
}

void t.test('members of the current API have the order of the Go structs, without white space', (t) => {
  for (const { name, protobuf, json } of apiTestData('head')) {
    const { bytes } = decodeObject(protobuf, schema, { keepResourceVersion: true, withoutDefaults: true, defaultKind })
    t.equal(bytes.toString(), JSON.stringify(json), name)
  }
  t.end()
})

void t.test('objects stored by kube-apiserver 1.20 decode to its own answers for the same version', (t) => {
  const { stored, answers } = apiServer120()
  let compared = 0
  for (const { key, value } of stored) {
    const answer = answers.get(key)
    if (answer === undefined || !isProtobuf(value)) continue
    const { apiVersion, kind } = openEnvelope(value)
    const decoded = decodeObject(readProtobuf(value, apiVersion, kind), schema)
    if (decoded.apiVersion !== answer.object.apiVersion) continue
    const { resourceVersion: _, selfLink: __, ...metadata } = answer.object.metadata
    t.same(JSON.parse(decoded.bytes.toString()), { ...answer.object, metadata }, key)
    t.equal(decoded.unknownFields, 0, `${key} has no unknown field`)
    compared++
  }
  t.ok(compared >= 25, `${compared} objects compared`)
  t.end()
})

void t.test('revisionOffset is where a resourceVersion is inserted, and the stored one is dropped', (t) => {
  for (const { name, protobuf, json } of apiTestData('head')) {
    const { bytes, revisionOffset } = decodeObject(protobuf, schema, { defaultKind })
    const metadata = json['metadata'] as Record<string, unknown> | undefined
    if (metadata?.['resourceVersion'] === undefined || metadata['name'] === undefined) continue
    const text = bytes.toString()
    t.equal(text.slice(0, revisionOffset).slice(-'"metadata":{'.length), '"metadata":{', name)
    const spliced = `${text.slice(0, revisionOffset)}"resourceVersion":"42",${text.slice(revisionOffset)}`
    const parsed = JSON.parse(spliced) as { metadata: Record<string, unknown> }
    t.same(parsed.metadata, { ...metadata, resourceVersion: '42' }, name)
  }
  t.end()
})
