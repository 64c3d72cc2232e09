/** A client that accepts only protobuf gets the responses to its writes. */
import t from 'tap'
import { decodeObject } from '../../../../src/kubernetes/codec/protobuf/decode.js'
import { openEnvelope, rawOf } from '../../../../src/kubernetes/codec/protobuf/envelope.js'
import { kubernetesSchema } from '../../../../src/kubernetes/codec/protobuf/schema.js'
import { readMessage } from '../../../support/read-message.js'
import { startApp } from '../../../support/app.js'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'

void t.test('a deleted collection is answered in the requested form', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const maps = `${url}/api/v1/namespaces/default/configmaps`
  const names = ['a', 'b', 'c', 'd']
  const create = async (body: string): Promise<void> => {
    const headers = { 'content-type': 'application/json' }
    t.equal((await fetch(maps, { method: 'POST', headers, body })).status, 201)
  }
  const fill = async (bytes: number): Promise<void> => {
    for (const [i, name] of names.entries()) {
      const data = { text: (i % 2 === 0 ? 'x' : 'y').repeat(i % 2 === 0 ? 10 : bytes) }
      const body = JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data })
      await create(body)
    }
  }
  const remove = async (accept: string): Promise<{ answer: Response; bytes: Buffer }> => {
    const answer = await fetch(maps, { method: 'DELETE', headers: { accept } })
    t.equal(answer.status, 200, accept)
    return { answer, bytes: Buffer.from(await answer.arrayBuffer()) }
  }
  const items = names.map((name) => ({ metadata: { name, resourceVersion: /^\d+$/ } }))

  await fill(100_000)
  const listed = await remove(PROTOBUF)
  t.equal(listed.answer.headers.get('content-type'), PROTOBUF)
  t.equal(listed.answer.headers.get('content-length'), null, 'in pieces')
  const envelope = openEnvelope(listed.bytes)
  t.match(envelope, { apiVersion: 'v1', kind: 'ConfigMapList' })
  const list = readMessage('k8s.io.api.core.v1.ConfigMapList', rawOf(envelope))
  t.match(list, { metadata: { resourceVersion: /^\d+$/ }, items })
  t.match(list, { items: [{}, { data: { text: /^y{100000}$/ } }] })

  await fill(100_000)
  const inJson = await remove('application/json')
  t.equal(inJson.answer.headers.get('content-length'), null, 'in pieces')
  t.match(JSON.parse(inJson.bytes.toString()), { kind: 'ConfigMapList', items })

  await fill(10)
  const table = await remove('application/json;as=Table;g=meta.k8s.io;v=v1')
  t.match(JSON.parse(table.bytes.toString()), { kind: 'Table', rows: names.map((name) => ({ cells: [name] })) })

  await fill(10)
  const partial = 'as=PartialObjectMetadataList;g=meta.k8s.io;v=v1'
  const metadata = await remove(`${PROTOBUF};${partial}`)
  t.equal(metadata.answer.headers.get('content-type'), PROTOBUF)
  t.match(metadata.bytes.toString('latin1'), /^k8s\0.*PartialObjectMetadataList/s)

  await fill(10)
  t.match((await remove('application/yaml')).bytes.toString(), /kind: ConfigMapList/)

  for (let i = 0; i < 18; i++) {
    const body = JSON.stringify({ metadata: { name: `large-${i}` }, data: { text: 'z'.repeat(1_000_000) } })
    await create(body)
  }
  const much = await remove(PROTOBUF)
  const { bytes: status } = decodeObject(much.bytes, kubernetesSchema())
  t.match(JSON.parse(status.toString()), { kind: 'Status', status: 'Success' }, 'too much for an answer')
})

void t.test('a deleted collection with an object that protobuf cannot express is answered with Success', async (t) => {
  const map = (name: string, data: object): object => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: 'default' },
    data,
  })
  const objects = { 'configmaps/default/a': map('a', {}), 'configmaps/default/b': map('b', { wrong: 1 }) }
  const { url } = await startApp(t, { flags: ['--enable-writes'], objects })
  const maps = `${url}/api/v1/namespaces/default/configmaps`
  for (const path of [maps, `${maps}/b`]) {
    t.equal((await fetch(path, { headers: { accept: PROTOBUF } })).status, 406, `${path} is asked for in JSON next`)
  }
  const answer = await fetch(maps, { method: 'DELETE', headers: { accept: PROTOBUF } })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), PROTOBUF)
  const { bytes } = decodeObject(Buffer.from(await answer.arrayBuffer()), kubernetesSchema())
  t.match(JSON.parse(bytes.toString()), { kind: 'Status', status: 'Success', details: { kind: 'configmaps' } })
  t.match(await (await fetch(maps)).json(), { items: [] })
})

void t.test(
  'every verb answers in protobuf, small and large, and a custom resource is rejected before it is written',
  async (t) => {
    const { url } = await startApp(t, { flags: ['--enable-writes', '--resource', 'widgets=/registry/widgets/'] })
    const ask = async (method: string, path: string, body: object | null, type = 'application/json') => {
      const answer = await fetch(`${url}${path}`, {
        method,
        headers: { accept: PROTOBUF, ...(body === null ? {} : { 'content-type': type }) },
        ...(body === null ? {} : { body: JSON.stringify(body) }),
      })
      const bytes = Buffer.from(await answer.arrayBuffer())
      t.equal(answer.headers.get('content-type'), PROTOBUF, `${method} ${path}`)
      const { bytes: json } = decodeObject(bytes, kubernetesSchema(), { keepResourceVersion: true })
      return { code: answer.status, object: JSON.parse(json.toString()) as Record<string, unknown> }
    }
    const maps = '/api/v1/namespaces/default/configmaps'
    const map = (name: string, data: string): object => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name },
      data: { data },
    })
    const made = await ask('POST', maps, map('a', 'small'))
    t.match(made, { code: 201, object: { kind: 'ConfigMap', metadata: { name: 'a', resourceVersion: /^\d+$/ } } })
    t.match(await ask('POST', maps, map('b', 'x'.repeat(100_000))), {
      code: 201,
      object: { data: { data: /^x{100000}$/ } },
    })
    t.match(await ask('PUT', `${maps}/a`, map('a', 'put')), { code: 200, object: { data: { data: 'put' } } })
    const patch = { data: { data: 'patched' } }
    t.match(await ask('PATCH', `${maps}/a`, patch, 'application/merge-patch+json'), { code: 200, object: patch })
    t.match(await ask('POST', `${maps}?dryRun=All`, map('c', 'dry')), { code: 201, object: { data: { data: 'dry' } } })
    t.match(await ask('DELETE', `${maps}/a`, null), { code: 200, object: { kind: 'Status', status: 'Success' } })
    t.match(await ask('POST', maps, map('b', 'again')), {
      code: 409,
      object: { kind: 'Status', reason: 'AlreadyExists' },
    })
    const refused = await fetch(`${url}/apis/distributary.io/v1/widgets`, {
      method: 'POST',
      headers: { accept: PROTOBUF },
      body: '{}',
    })
    t.equal(refused.status, 406, 'no protobuf of what is not built in')
  },
)
