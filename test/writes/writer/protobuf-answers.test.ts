/** A client that reads nothing but protobuf gets the answers to its writes. */
import t from 'tap'
import { decodeObject } from '../../../src/codec/protobuf/decode.js'
import { kubernetesSchema } from '../../../src/codec/protobuf/schema.js'
import { startApp } from '../../support/app.js'

const PROTOBUF = 'application/vnd.kubernetes.protobuf'

void t.test(
  'every verb answers in protobuf, small and large, and a custom resource is refused before it is written',
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
