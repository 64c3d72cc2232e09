import t from 'tap'

import { decodeObject } from '../../../../../src/kubernetes/codec/protobuf/decode.js'
import { kubernetesSchema } from '../../../../../src/kubernetes/codec/protobuf/schema.js'
import { lengthDelimited } from '../../../../support/protobuf-sample.js'

const schema = kubernetesSchema()

function decoded(apiVersion: string, kind: string, raw: readonly Buffer[], withoutDefaults = false): unknown {
  const typeMeta = Buffer.concat([lengthDelimited(1, Buffer.from(apiVersion)), lengthDelimited(2, Buffer.from(kind))])
  const value = Buffer.concat([
    Buffer.from('k8s\0', 'latin1'),
    lengthDelimited(1, typeMeta),
    lengthDelimited(2, Buffer.concat(raw)),
  ])
  return JSON.parse(decodeObject(value, schema, { withoutDefaults }).bytes.toString())
}

const label = (number: number, key: string, value: string): Buffer =>
  lengthDelimited(number, Buffer.concat([lengthDelimited(1, Buffer.from(key)), lengthDelimited(2, Buffer.from(value))]))
const phase = (text: string): Buffer => lengthDelimited(3, lengthDelimited(1, Buffer.from(text)))
/** A spec whose template, under this number, has the label app=web. */
const templated = (number: number): Buffer =>
  lengthDelimited(2, lengthDelimited(number, lengthDelimited(1, label(11, 'app', 'web'))))

void t.test('a phase that is not stored is the one that API servers answer', (t) => {
  for (const [kind, expected] of [
    ['PersistentVolumeClaim', 'Pending'],
    ['PersistentVolume', 'Pending'],
    ['Namespace', 'Active'],
  ] as const) {
    t.match(decoded('v1', kind, []), { status: { phase: expected } }, kind)
    t.match(decoded('v1', kind, [phase('')]), { status: { phase: expected } }, `${kind} with an empty one`)
    t.match(decoded('v1', kind, [phase('Other')]), { status: { phase: 'Other' } }, `${kind} with its own`)
    t.match(decoded('v1', kind, [], true), { status: {} }, kind)
    t.notMatch(decoded('v1', kind, [], true), { status: { phase: expected } }, `${kind} as it is stored`)
  }
  t.end()
})

void t.test('a Job and a ReplicationController have the labels of their template, if none of their own', (t) => {
  const labels = { app: 'web' }
  t.match(decoded('batch/v1', 'Job', [templated(6)]), { metadata: { labels } })
  t.match(decoded('v1', 'ReplicationController', [templated(3)]), { metadata: { labels }, spec: { selector: labels } })
  const own = lengthDelimited(1, Buffer.concat([lengthDelimited(1, Buffer.from('j')), label(11, 'own', 'yes')]))
  const job = decoded('batch/v1', 'Job', [own, templated(6)]) as { metadata: object }
  t.same(job.metadata, { name: 'j', creationTimestamp: null, labels: { own: 'yes' } })
  const bare = decoded('batch/v1', 'Job', []) as { metadata: object }
  t.same(bare.metadata, { creationTimestamp: null })
  t.end()
})

void t.test('a claim in a StatefulSet is given its kind, unless it has a uid of its own', (t) => {
  const claim = (...metadata: Buffer[]): Buffer => lengthDelimited(4, lengthDelimited(1, Buffer.concat(metadata)))
  const name = lengthDelimited(1, Buffer.from('data'))
  const spec = lengthDelimited(
    2,
    Buffer.concat([
      claim(name, lengthDelimited(5, Buffer.alloc(0))),
      claim(name, lengthDelimited(5, Buffer.from('u'))),
    ]),
  )
  const set = decoded('apps/v1', 'StatefulSet', [spec]) as { spec: { volumeClaimTemplates: Record<string, unknown>[] } }
  const [template, copy] = set.spec.volumeClaimTemplates
  t.match(template, { kind: 'PersistentVolumeClaim', apiVersion: 'v1', metadata: { name: 'data' } })
  t.notOk('kind' in copy!)
  t.end()
})
