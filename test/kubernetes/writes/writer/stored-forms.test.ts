/**
 * Tests of other stored forms than our own JSON: a kube-apiserver's protobuf, other versions, bare values, unreadable
 * values.
 */
import t from 'tap'
import { apiServer120 } from '../../../support/protobuf-data.js'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { startApp } from '../../../support/app.js'
import { clientOf, CONFIG_MAPS, configMap, JSON_PATCH, MERGE } from '../client.js'

void t.test('objects that a kube-apiserver stored as protobuf are left alone', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  const { stored } = apiServer120()
  for (const { key, value } of stored) h.upstream.commit([{ type: 'put', key: keyFromText(key), value }])
  const send = clientOf(h.url)
  const path = '/api/v1/namespaces/team-a/configmaps/settings'
  const before = h.upstream.peek(keyFromText('/registry/configmaps/team-a/settings'))
  t.equal(before.length, 1)
  for (const [method, body, headers] of [
    ['PUT', { metadata: { name: 'settings' } }, {}],
    ['PATCH', { data: { more: '1' } }, MERGE],
    ['DELETE', undefined, {}],
  ] as const) {
    const answer = await send(method, path, body, headers)
    t.match(
      answer.body,
      { code: 501, reason: 'NotImplemented', message: /stored as protobuf, by a kube-apiserver/ },
      method,
    )
  }
  const taken = await send('POST', '/api/v1/namespaces/team-a/configmaps', { metadata: { name: 'settings' } })
  t.equal(taken.code, 409, taken.text)
  t.same(h.upstream.peek(keyFromText('/registry/configmaps/team-a/settings')), before)
  t.equal((await send('POST', '/api/v1/namespaces/team-a/configmaps', { metadata: { name: 'ours' } })).code, 201)
})

void t.test('an object of another version is written as the one it is asked in', async (t) => {
  const budget = {
    apiVersion: 'policy/v1beta1',
    kind: 'PodDisruptionBudget',
    metadata: { name: 'b', namespace: 'default', uid: 'u' },
    spec: { minAvailable: 1 },
  }
  const h = await startApp(t, { flags: ['--enable-writes'], objects: { 'poddisruptionbudgets/default/b': budget } })
  const path = '/apis/policy/v1/namespaces/default/poddisruptionbudgets/b'
  const { body } = await clientOf(h.url)('PATCH', path, { metadata: { labels: { a: 'b' } } }, MERGE)
  t.match(body, { apiVersion: 'policy/v1', spec: { minAvailable: 1 }, metadata: { uid: 'u', labels: { a: 'b' } } })
  const [stored] = h.upstream.peek(keyFromText('/registry/poddisruptionbudgets/default/b'))
  t.match(JSON.parse(stored!.value.toString()), { apiVersion: 'policy/v1' })
})

void t.test('the stored object has no resourceVersion, and its type comes first', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  await clientOf(h.url)('POST', CONFIG_MAPS, { data: { a: '1' }, ...configMap('a', { __proto__x: '1' }) })
  const [stored] = h.upstream.peek(keyFromText('/registry/configmaps/default/a'))
  const text = stored!.value.toString()
  t.match(text, /^\{"kind":"ConfigMap","apiVersion":"v1","metadata":\{/)
  t.notMatch(text, /resourceVersion/)
})

void t.test('bare values are written under a declared prefix', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes', '--resource', 'flags=/config/flags/'] })
  const send = clientOf(h.url)
  const path = '/apis/distributary.io/v1/flags'
  const bytes = (name: string): string | undefined =>
    h.upstream.peek(keyFromText(`/config/flags/${name}`))[0]?.value.toString()
  t.equal((await send('PUT', `${path}/eu%2Fcheckout`, { text: 'on' })).code, 201, 'a PUT makes it')
  t.equal(bytes('eu/checkout'), 'on')
  t.match((await send('GET', `${path}/eu%2Fcheckout`)).body, {
    kind: 'Flag',
    text: 'on',
    metadata: { name: 'eu/checkout' },
  })
  t.equal((await send('PUT', `${path}/eu%2Fcheckout`, { base64: Buffer.from([0, 255]).toString('base64') })).code, 200)
  t.same(h.upstream.peek(keyFromText('/config/flags/eu/checkout'))[0]?.value, Buffer.from([0, 255]))
  t.equal((await send('PATCH', `${path}/eu%2Fcheckout`, { base64: null, text: 'off' }, MERGE)).code, 200)
  t.equal(bytes('eu/checkout'), 'off')
  const test = [{ op: 'test', path: '/text', value: 'on' }]
  t.equal((await send('PATCH', `${path}/eu%2Fcheckout`, test, JSON_PATCH)).code, 422)
  const { body } = await send('GET', `${path}/eu%2Fcheckout`)
  const metadata = { name: 'eu/checkout', resourceVersion: String(Number(body.metadata?.resourceVersion) - 1) }
  t.equal((await send('PUT', `${path}/eu%2Fcheckout`, { metadata, text: 'x' })).code, 409)
  t.equal((await send('PUT', `${path}/a`, { text: 'x', base64: 'eA==' })).code, 422)
  t.equal((await send('PUT', `${path}/a`, { base64: '!!' })).code, 422)
  t.equal((await send('PUT', `${path}/a`, { text: 'x', metadata: { name: 'a', labels: { a: 'b' } } })).code, 422)
  t.equal((await send('POST', path, { metadata: { name: 'object' }, spec: { on: true } })).code, 201)
  t.match(JSON.parse(bytes('object')!), { kind: 'Flag', metadata: { name: 'object' }, spec: { on: true } })
  t.equal((await send('DELETE', `${path}/eu%2Fcheckout`)).code, 200)
  t.equal(bytes('eu/checkout'), undefined)
})
