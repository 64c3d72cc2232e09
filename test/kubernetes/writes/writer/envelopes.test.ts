/**
 * Tests values that look like Kubernetes' own storage formats, written by clients with access to a declared prefix or
 * to etcd.
 */
import t from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'
import { clientOf } from '../client.js'

const FLAGS = '/apis/distributary.io/v1/flags'
const base64 = (text: string): string => Buffer.from(text, 'latin1').toString('base64')

void t.test('a value that looks encrypted or encoded is an ordinary one under a declared prefix', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes', '--resource', 'flags=/config/flags/'] })
  const send = clientOf(h.url)
  t.equal((await send('PUT', `${FLAGS}/good`, { text: 'on' })).code, 201)
  for (const body of [{ text: 'k8s:enc:x' }, { text: 'k8s\0' }, { bytes: base64('k8s\0\xff\xff\xff') }]) {
    t.match((await send('PUT', `${FLAGS}/mine`, body)).body, body, JSON.stringify(body))
    t.match((await send('GET', `${FLAGS}/mine`)).body, body)
  }
  t.equal((await send('DELETE', `${FLAGS}/mine`)).code, 200)
  // Another client writes them into etcd.
  const values = { encrypted: 'k8s:enc:aescbc:v1:key:x', junk: 'k8s\0\xff\xff\xff', short: 'k8s\0' }
  for (const [name, value] of Object.entries(values)) {
    const key = keyFromText(`/config/flags/${name}`)
    h.upstream.commit([{ type: 'put', key, value: Buffer.from(value, 'latin1') }])
  }
  const names = async (): Promise<string[]> => {
    const { body } = await send('GET', FLAGS)
    return (body['items'] as { metadata: { name: string } }[]).map(({ metadata }) => metadata.name)
  }
  t.same(await names(), ['encrypted', 'good', 'junk', 'short'], 'all are listed')
  t.match((await send('GET', `${FLAGS}/encrypted`)).body, { text: values.encrypted })
  t.match((await send('GET', `${FLAGS}/junk`)).body, { bytes: base64(values.junk) })
  t.equal((await send('PUT', `${FLAGS}/encrypted`, { text: 'off' })).code, 200, 'one is written over')
  for (const name of ['junk', 'short']) t.equal((await send('DELETE', `${FLAGS}/${name}`)).code, 200, name)
  t.same(await names(), ['encrypted', 'good'])
  t.equal((await send('DELETE', FLAGS)).code, 200)
  t.same(await names(), [])
})

void t.test(
  'an unreadable value among Kubernetes objects can be deleted; one that a kube-apiserver owns cannot',
  async (t) => {
    const h = await startApp(t, { flags: ['--enable-writes'], objects: { 'pods/default/good': pod('good') } })
    const send = clientOf(h.url)
    const put = (name: string, value: string): void => {
      const key = keyFromText(`/registry/pods/default/${name}`)
      h.upstream.commit([{ type: 'put', key, value: Buffer.from(value, 'latin1') }])
    }
    const held = (name: string): number => h.upstream.peek(keyFromText(`/registry/pods/default/${name}`)).length
    put('junk', 'k8s\0\xff\xff\xff')
    const path = '/api/v1/namespaces/default/pods'
    t.equal((await send('DELETE', `${path}/junk?dryRun=All`)).code, 200)
    t.equal(held('junk'), 1)
    const preconditions = { preconditions: { resourceVersion: '1' } }
    t.equal((await send('DELETE', `${path}/junk`, preconditions)).code, 409)
    t.equal((await send('DELETE', `${path}/junk`)).code, 200)
    t.equal(held('junk'), 0)
    t.equal((await send('GET', `${path}/good`)).code, 200)
    put('sealed', 'k8s:enc:aescbc:v1:key:x')
    t.equal((await send('DELETE', `${path}/sealed`)).code, 501)
    t.equal(held('sealed'), 1)
    h.delete('pods/default/sealed')
    await until(async () => (await send('GET', `${path}/good`)).code === 200, 'pods are served again')
  },
)
