import t from 'tap'
import {
  encodedMetadataItem,
  encodePartialObjectMetadata,
} from '../../../../../src/kubernetes/codec/protobuf/encode.js'
import { encodeObjectMeta } from '../../../../../src/kubernetes/codec/protobuf/encode-object.js'
import { decodeObject } from '../../../../../src/kubernetes/codec/protobuf/decode.js'
import { kubernetesSchema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'

const METADATA = JSON.parse(
  '{"annotations": {"example.com/dotted": "true", "note": "\\u2028"}, "creationTimestamp": "2026-11-22T06:33:28Z", "generation": 1, "labels": {"example.com/team": "edge", "x": "api"}, "managedFields": [{"apiVersion": "net.example.com/v1beta1", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:example.com/dotted": {}, "f:note": {}}, "f:labels": {".": {}, "f:example.com/team": {}, "f:x": {}}}, "f:spec": {".": {}, "f:className": {}, "f:infrastructure": {".": {}, "f:any": {}, "f:deep": {".": {}, "f:x": {}}}, "f:listeners": {".": {}, "k:{\\"name\\":\\"admin\\"}": {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}}, "k:{\\"name\\":\\"http\\"}": {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}}}}}, "manager": "unknown", "operation": "Update", "time": "2026-11-22T06:33:28Z"}], "name": "gat-003", "namespace": "default", "resourceVersion": "42", "uid": "b71aef46-f6fa-4647-ab70-0382281704bb"}',
) as object

/** The API server 0.37's answer for the object with this metadata. */
const BYTES = Buffer.from(
  'azhzAAonCg5tZXRhLms4cy5pby92MRIVUGFydGlhbE9iamVjdE1ldGFkYXRhEvkECvYECgdnYXQtMDAzEgAaB2RlZmF1bHQiACokYjcxYWVmNDYtZjZmYS00NjQ3LWFiNzAtMDM4MjI4MTcwNGJiMgI0MjgBQggIuJmK2AYQAFoYChBleGFtcGxlLmNvbS90ZWFtEgRlZGdlWggKAXgSA2FwaWIaChJleGFtcGxlLmNvbS9kb3R0ZWQSBHRydWViCwoEbm90ZRID4oCoigHZAwoHdW5rbm93bhIGVXBkYXRlGhduZXQuZXhhbXBsZS5jb20vdjFiZXRhMSIICLiZitgGEAAyCEZpZWxkc1YxOpYDCpMDeyJmOm1ldGFkYXRhIjp7ImY6YW5ub3RhdGlvbnMiOnsiLiI6e30sImY6ZXhhbXBsZS5jb20vZG90dGVkIjp7fSwiZjpub3RlIjp7fX0sImY6bGFiZWxzIjp7Ii4iOnt9LCJmOmV4YW1wbGUuY29tL3RlYW0iOnt9LCJmOngiOnt9fX0sImY6c3BlYyI6eyIuIjp7fSwiZjpjbGFzc05hbWUiOnt9LCJmOmluZnJhc3RydWN0dXJlIjp7Ii4iOnt9LCJmOmFueSI6e30sImY6ZGVlcCI6eyIuIjp7fSwiZjp4Ijp7fX19LCJmOmxpc3RlbmVycyI6eyIuIjp7fSwiazp7XCJuYW1lXCI6XCJhZG1pblwifSI6eyIuIjp7fSwiZjpuYW1lIjp7fSwiZjpwb3J0Ijp7fSwiZjpwcm90b2NvbCI6e319LCJrOntcIm5hbWVcIjpcImh0dHBcIn0iOnsiLiI6e30sImY6bmFtZSI6e30sImY6cG9ydCI6e30sImY6cHJvdG9jb2wiOnt9fX19fUIAGgAiAA==',
  'base64',
)

void t.test('the bytes are those of an API server', async (t) => {
  const ours = encodePartialObjectMetadata(encodedMetadataItem(encodeObjectMeta(METADATA, '42')))
  t.equal(ours.toString('base64'), BYTES.toString('base64'))
})

void t.test('every member of the schema survives a round trip', async (t) => {
  const metadata = {
    name: 'a',
    generateName: 'a-',
    namespace: 'b',
    uid: 'u',
    resourceVersion: '7',
    generation: 9_007_199_254_740_991,
    creationTimestamp: '1969-12-31T23:59:58Z',
    deletionTimestamp: '2026-01-01T00:00:00Z',
    deletionGracePeriodSeconds: 30,
    labels: { z: 'ü', a: '' },
    annotations: { x: 'y'.repeat(300) },
    ownerReferences: [
      { apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'q', controller: true, blockOwnerDeletion: false },
    ],
    finalizers: ['example.com/f'],
    managedFields: [
      {
        manager: 'm',
        operation: 'Apply',
        apiVersion: 'v1',
        time: '2026-01-01T00:00:00Z',
        fieldsType: 'FieldsV1',
        fieldsV1: { 'f:spec': {} },
        subresource: 'status',
      },
    ],
  }
  const bytes = encodePartialObjectMetadata(
    encodedMetadataItem(encodeObjectMeta({ ...metadata, resourceVersion: '1' }, '7')),
  )
  const read = JSON.parse(decodeObject(bytes, kubernetesSchema(), { keepResourceVersion: true }).bytes.toString()) as {
    metadata: object
  }
  t.match(read.metadata, metadata)
})

void t.test('members of another type than in the schema are dropped without an exception', async (t) => {
  const odd = {
    name: 5,
    labels: ['x'],
    annotations: { a: 1 },
    finalizers: 'x',
    generation: 'y',
    ownerReferences: [null],
  }
  const outOfRange = {
    creationTimestamp: '2026-13-01T00:00:00Z',
    generation: 1e20,
    deletionGracePeriodSeconds: 2 ** 63,
  }
  const never = { creationTimestamp: 'never', managedFields: [{ time: {} }] }
  for (const metadata of [odd, null, 'text', [], never, outOfRange]) t.ok(encodeObjectMeta(metadata, '1').length > 0)
})
