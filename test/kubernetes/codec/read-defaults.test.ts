/** The defaults that API servers fill in on read are present in every form, however an object is stored. */
import t, { type Test } from 'tap'
import { keyFromText } from '../../../src/engine/model/event.js'
import { scanObject } from '../../../src/kubernetes/codec/json-scan.js'
import { decodeObject } from '../../../src/kubernetes/codec/protobuf/decode.js'
import { enveloped } from '../../../src/kubernetes/codec/protobuf/resource-version-splice.js'
import { kubernetesSchema } from '../../../src/kubernetes/codec/protobuf/schema.js'
import { readJson, readProtobuf } from '../../../src/kubernetes/codec/read-defaults.js'
import { startApp } from '../../support/app.js'
import { lengthDelimited } from '../../support/protobuf-sample.js'
import { until } from '../../support/until.js'

const schema = kubernetesSchema()

const text = (number: number, value: string): Buffer => lengthDelimited(number, Buffer.from(value))
const label = (number: number, key: string, value: string): Buffer =>
  lengthDelimited(number, Buffer.concat([text(1, key), text(2, value)]))
const metadata = (...fields: Buffer[]): Buffer => lengthDelimited(1, Buffer.concat(fields))
const spec = (...fields: Buffer[]): Buffer => lengthDelimited(2, Buffer.concat(fields))
const phase = (value: string): Buffer => lengthDelimited(3, text(1, value))
/** A template in this field number, with the labels app=web and a=b. */
const template = (number: number): Buffer =>
  lengthDelimited(number, metadata(label(11, 'app', 'web'), label(11, 'a', 'b')))
/** A field of a later release. */
const UNKNOWN = text(900, 'kept')

function envelope(apiVersion: string, kind: string, raw: Buffer): Buffer {
  return enveloped(apiVersion, kind, raw)
}

/** The object that results from both encodings. */
function read(t: Test, apiVersion: string, kind: string, ...raw: Buffer[]): Record<string, unknown> {
  const value = envelope(apiVersion, kind, Buffer.concat(raw))
  const fromProtobuf = JSON.parse(
    decodeObject(readProtobuf(value, apiVersion, kind), schema).bytes.toString(),
  ) as object
  const stored = scanObject(decodeObject(value, schema).bytes)!
  const fromJson = JSON.parse(readJson(stored).bytes.toString()) as Record<string, unknown>
  t.same(fromJson, fromProtobuf, `${kind}: the same in both encodings`)
  return fromJson
}

void t.test('a missing phase is the one that API servers answer', (t) => {
  for (const [kind, expected] of [
    ['PersistentVolumeClaim', 'Pending'],
    ['PersistentVolume', 'Pending'],
    ['Namespace', 'Active'],
  ] as const) {
    t.match(read(t, 'v1', kind), { status: { phase: expected } }, kind)
    t.match(read(t, 'v1', kind, phase('')), { status: { phase: expected } }, `${kind} with an empty one`)
    t.match(read(t, 'v1', kind, phase('Other')), { status: { phase: 'Other' } }, `${kind} with its own`)
  }
  t.end()
})

void t.test('a Job and a ReplicationController have their template’s labels if they have none', (t) => {
  const labels = { a: 'b', app: 'web' }
  t.match(read(t, 'batch/v1', 'Job', metadata(text(1, 'j')), spec(template(6))), { metadata: { name: 'j', labels } })
  const controller = read(t, 'v1', 'ReplicationController', spec(template(3)))
  t.match(controller, { metadata: { labels }, spec: { selector: labels } })
  const own = read(t, 'batch/v1', 'Job', metadata(text(1, 'j'), label(11, 'own', 'yes')), spec(template(6)))
  t.same((own['metadata'] as { labels: object }).labels, { own: 'yes' })
  t.notOk('labels' in (read(t, 'batch/v1', 'Job')['metadata'] as object))
  t.end()
})

void t.test('a Namespace has the label of its name', (t) => {
  const labels = (...raw: Buffer[]): unknown =>
    (read(t, 'v1', 'Namespace', ...raw)['metadata'] as { labels?: object }).labels
  const name = 'kubernetes.io/metadata.name'
  t.same(labels(metadata(text(1, 'n'))), { [name]: 'n' })
  t.same(labels(metadata(text(1, 'n'), label(11, 'z', '1'), label(11, name, 'other'))), { [name]: 'n', z: '1' })
  const likeAMember = label(11, 'containers', 'yes')
  t.same(labels(metadata(text(1, 'n'), likeAMember)), { [name]: 'n', containers: 'yes' })
  t.equal(labels(), undefined, 'unless it has no name')
  t.end()
})

void t.test('a Service of type ExternalName has no internal traffic policy', (t) => {
  const policy = text(22, 'Cluster')
  t.notOk(
    'internalTrafficPolicy' in (read(t, 'v1', 'Service', spec(text(4, 'ExternalName'), policy))['spec'] as object),
  )
  t.match(read(t, 'v1', 'Service', spec(text(4, 'ClusterIP'), policy)), { spec: { internalTrafficPolicy: 'Cluster' } })
  t.end()
})

void t.test('the parameters of an IngressClass have a scope', (t) => {
  const parameters = (...fields: Buffer[]): Buffer => spec(lengthDelimited(2, Buffer.concat(fields)))
  const read1 = (...raw: Buffer[]): unknown => read(t, 'networking.k8s.io/v1', 'IngressClass', ...raw)['spec']
  t.match(read1(parameters(text(3, 'p'))), { parameters: { name: 'p', scope: 'Cluster' } })
  t.match(read1(parameters(text(3, 'p'), text(4, 'Namespace'))), { parameters: { scope: 'Namespace' } })
  t.same(read1(), {}, 'if there are any')
  t.end()
})

void t.test('nothing else of an object changes', (t) => {
  const raw = Buffer.concat([metadata(text(1, 'n'), UNKNOWN), UNKNOWN, phase(''), UNKNOWN])
  const value = envelope('v1', 'PersistentVolume', raw)
  const changed = readProtobuf(value, 'v1', 'PersistentVolume')
  t.equal(decodeObject(changed, schema).unknownFields, 3, 'unknown fields are kept')
  t.equal(readProtobuf(changed, 'v1', 'PersistentVolume'), changed, 'what is complete stays as it is')
  t.equal(readProtobuf(value, 'v1', 'Pod'), value)
  const json = scanObject(Buffer.from('{"kind":"PersistentVolume","apiVersion":"v1","metadata":{},"n":1.0}'))!
  const read = readJson(json)
  t.equal(
    read.bytes.toString(),
    '{"kind":"PersistentVolume","apiVersion":"v1","metadata":{},"n":1.0,"status":{"phase":"Pending"}}',
  )
  t.equal(read.bytes[read.revisionOffset - 1], '{'.charCodeAt(0))
  t.equal(readJson(read), read)
  t.end()
})

void t.test('a claim in a StatefulSet gets its kind', (t) => {
  const claim = (...fields: Buffer[]): Buffer => lengthDelimited(4, metadata(...fields))
  const value = envelope('apps/v1', 'StatefulSet', spec(claim(text(1, 'data')), claim(text(1, 'copy'), text(5, 'uid'))))
  const set = JSON.parse(decodeObject(value, schema).bytes.toString()) as { spec: { volumeClaimTemplates: object[] } }
  const type = { kind: 'PersistentVolumeClaim', apiVersion: 'v1' }
  t.match(set.spec.volumeClaimTemplates, [
    { ...type, metadata: { name: 'data' } },
    { ...type, metadata: { name: 'copy' } },
  ])
  t.end()
})

void t.test('every answer has them: protobuf, metadata, selectors and watches', async (t) => {
  const app = await startApp(t)
  const store = (key: string, apiVersion: string, kind: string, ...raw: Buffer[]): void => {
    const value = envelope(apiVersion, kind, Buffer.concat(raw))
    app.upstream.commit([{ type: 'put', key: keyFromText(`/registry/${key}`), value }])
  }
  const ask = async (path: string, accept: string): Promise<Buffer> => {
    const answer = await fetch(`${app.url}${path}`, { headers: { accept } })
    t.equal(answer.status, 200, path)
    return Buffer.from(await answer.arrayBuffer())
  }
  const PROTOBUF = 'application/vnd.kubernetes.protobuf'
  const claims = '/api/v1/namespaces/default/persistentvolumeclaims'
  const since = app.upstream.revision
  store('persistentvolumeclaims/default/c', 'v1', 'PersistentVolumeClaim', metadata(text(1, 'c'), text(3, 'default')))
  store('jobs/default/j', 'batch/v1', 'Job', metadata(text(1, 'j'), text(3, 'default')), spec(template(6)))
  const jobs = '/apis/batch/v1/namespaces/default/jobs'
  await until(async () => (await ask(jobs, 'application/json')).includes('"j"'), 'both are there')

  const claim = await ask(`${claims}/c`, PROTOBUF)
  t.match(JSON.parse(decodeObject(claim, schema).bytes.toString()), { status: { phase: 'Pending' } })
  t.ok((await ask(claims, PROTOBUF)).includes('Pending'), 'a list')
  const watched = await ask(`${claims}?watch=1&resourceVersion=${since}&timeoutSeconds=1`, `${PROTOBUF};stream=watch`)
  t.ok(watched.includes('Pending'), 'a watch')
  t.match(JSON.parse((await ask(`${claims}/c`, 'application/json')).toString()), { status: { phase: 'Pending' } })

  const partial = ';as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'
  t.ok((await ask(jobs, `${PROTOBUF}${partial}`)).includes('web'), 'metadata in protobuf')
  t.ok((await ask(jobs, `application/json${partial}`)).includes('web'), 'metadata in JSON')
  const selected = JSON.parse((await ask(`${jobs}?labelSelector=app=web`, 'application/json')).toString()) as {
    items: object[]
  }
  t.equal(selected.items.length, 1, 'a label selector')
})
