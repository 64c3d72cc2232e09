/**
 * Question: how long does it take to turn a pod of 2 KB stored as protobuf into JSON, in µs, and how long for 10,000
 * such pods? For comparison, protobuf-es reads the same bytes into objects, which are not yet Kubernetes' JSON. Two
 * more rows read only the metadata, and insert the resourceVersion for a protobuf client.
 */
import { createFileRegistry, fromBinary } from '@bufbuild/protobuf'
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'

import { decodeObject } from '../src/kubernetes/codec/protobuf/decode.js'
import { openEnvelope, rawOf } from '../src/kubernetes/codec/protobuf/envelope.js'
import { readMetadata } from '../src/kubernetes/codec/protobuf/metadata.js'
import { withResourceVersion } from '../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../src/kubernetes/codec/protobuf/schema.js'
import { apiServer120, kubernetesDescriptors } from '../test/support/protobuf-data.js'
import { lengthDelimited } from '../test/support/protobuf-sample.js'
import type { Question } from './support/choice.js'
import { costOfCalls } from './support/call-cost.js'

const PODS = 10_000

export const protobufDecode: Question = (choice) => {
  const schema = kubernetesSchema()
  const stored = apiServer120().stored.find(({ key }) => key === '/registry/pods/team-a/web-0')!.value
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, kubernetesDescriptors()))
  const podDescriptor = registry.getMessage('k8s.io.api.core.v1.Pod')!
  const subjects: Record<string, (value: Buffer) => unknown> = {
    'to JSON': (value) => decodeObject(value, schema),
    'metadata alone': readMetadata,
    'resourceVersion put in': (value) => withResourceVersion(value, '123456789'),
    'protobuf-es, to objects': (value) => fromBinary(podDescriptor, rawOf(openEnvelope(value))),
  }
  for (const [size, value] of [
    ['2 KB', podOf(2048, stored)],
    ['as stored', stored],
  ] as const) {
    for (const [subject, act] of Object.entries(subjects)) {
      choice.recorder.row({
        question: 'protobuf-decode',
        subject,
        wire: 'protobuf',
        size,
        valueBytes: value.length,
        jsonBytes: decodeObject(value, schema).bytes.length,
        ...costOfCalls(() => act(value), choice),
      })
    }
  }
  const values = Array.from({ length: PODS }, (_, i) => podOf(2048 + (i % 64), stored))
  const start = process.hrtime.bigint()
  const objects = values.map((value) => decodeObject(value, schema))
  const readyMs = Number(process.hrtime.bigint() - start) / 1e6
  choice.recorder.row({
    question: 'protobuf-decode',
    subject: 'ready to serve',
    wire: 'protobuf',
    objects: objects.length,
    readyMs,
  })
  return Promise.resolve()
}

/** Returns the stored pod with short metadata, and with an annotation that fills the value up to about `bytes`. */
function podOf(bytes: number, stored: Buffer): Buffer {
  const { apiVersion, kind, rawEnd } = openEnvelope(stored)
  const raw = rawOf(openEnvelope(stored))
  const spec = raw.subarray(endOfMetadata(raw))
  const name = lengthDelimited(1, Buffer.from('web-0'))
  const identity = Buffer.concat([
    name,
    lengthDelimited(3, Buffer.from('team-a')),
    lengthDelimited(5, Buffer.alloc(36, 'u')),
  ])
  const times = lengthDelimited(8, Buffer.from([0x08, 0x80, 0xd3, 0x83, 0xd8, 0x06]))
  const room = bytes - spec.length - identity.length - 60
  const entry = Buffer.concat([
    lengthDelimited(1, Buffer.from('note')),
    lengthDelimited(2, Buffer.alloc(Math.max(room, 0), 'n')),
  ])
  const metadata = lengthDelimited(1, Buffer.concat([identity, times, lengthDelimited(12, entry)]))
  const typeMeta = Buffer.concat([lengthDelimited(1, Buffer.from(apiVersion)), lengthDelimited(2, Buffer.from(kind))])
  return Buffer.concat([
    stored.subarray(0, 4),
    lengthDelimited(1, typeMeta),
    lengthDelimited(2, Buffer.concat([metadata, spec])),
    stored.subarray(rawEnd),
  ])
}

/** Returns the end of the metadata. It is field 1, which Go writes first, with a length of two bytes. */
function endOfMetadata(raw: Buffer): number {
  return 3 + (raw[1]! & 0x7f) + (raw[2]! << 7)
}
