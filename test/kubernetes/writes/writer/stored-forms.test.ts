/**
 * Tests stored forms other than our own JSON: a kube-apiserver's protobuf, other versions, bare values, unreadable
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

void t.test('an object in another version is written in the requested one', async (t) => {
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

void t.test('the stored object has no resourceVersion, and begins with its type', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  await clientOf(h.url)('POST', CONFIG_MAPS, { data: { a: '1' }, ...configMap('a', { __proto__x: '1' }) })
  const [stored] = h.upstream.peek(keyFromText('/registry/configmaps/default/a'))
  const text = stored!.value.toString()
  t.match(text, /^\{"kind":"ConfigMap","apiVersion":"v1","metadata":\{/)
  t.notMatch(text, /resourceVersion/)
})

void t.test('under a declared prefix only values are written', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes', '--resource', 'flags=/config/flags/'] })
  const send = clientOf(h.url)
  const flags = '/apis/distributary.io/v1/flags'
  const path = `${flags}/eu:checkout`
  const bytes = (key: string): string | undefined =>
    h.upstream.peek(keyFromText(`/config/flags/${key}`))[0]?.value.toString()
  t.equal((await send('PUT', path, { text: 'on' })).code, 201, 'a PUT makes it')
  t.equal(bytes('eu/checkout'), 'on')
  t.match((await send('GET', path)).body, {
    kind: 'Flag',
    text: 'on',
    key: '/config/flags/eu/checkout',
    metadata: { name: 'eu:checkout' },
  })
  t.equal((await send('PUT', path, { bytes: Buffer.from([0, 255]).toString('base64') })).code, 200)
  t.same(h.upstream.peek(keyFromText('/config/flags/eu/checkout'))[0]?.value, Buffer.from([0, 255]))
  t.equal((await send('PATCH', path, { text: 'off' }, MERGE)).code, 200, 'a patch may change the form')
  t.equal(bytes('eu/checkout'), 'off')
  const test = [{ op: 'test', path: '/text', value: 'on' }]
  t.equal((await send('PATCH', path, test, JSON_PATCH)).code, 422)
  const { body } = await send('GET', path)
  const metadata = { name: 'eu:checkout', resourceVersion: String(Number(body.metadata?.resourceVersion) - 1) }
  t.equal((await send('PUT', path, { metadata, text: 'x' })).code, 409)
  t.equal((await send('PUT', path, { ...body, text: 'as it was read' })).code, 200)
  t.equal(bytes('eu/checkout'), 'as it was read')

  t.equal((await send('PUT', path, '{"value":{"limit":9007199254740993,"share":1.0}}')).code, 200)
  t.equal(bytes('eu/checkout'), '{"limit":9007199254740993,"share":1.0}', 'with every digit')
  t.equal((await send('PATCH', path, '{"value":{"limit":9007199254740995}}', MERGE)).code, 200)
  t.equal(bytes('eu/checkout'), '{"limit":9007199254740995,"share":1.0}')
  t.match((await send('GET', path)).text, /"value":\{"limit":9007199254740995,"share":1.0\}/)
  t.equal((await send('PUT', path, '{"value":1e400}')).code, 200)
  t.match((await send('GET', path)).body, { text: '1e400' }, 'what most clients refuse as a number is read as text')
  t.equal((await send('PATCH', path, '{"value":[1e400],"text":null}', MERGE)).code, 200)
  t.match((await send('GET', path)).body, { text: '[1e400]' })
  for (const value of [null, true, 0, '', [1], 'on', {}]) {
    t.equal((await send('PUT', path, { value })).code, 200, JSON.stringify(value))
    t.equal(bytes('eu/checkout'), JSON.stringify(value))
    t.same((await send('GET', path)).body['value'], value)
  }

  for (const [why, refused] of [
    ['none', {}],
    ['none', { spec: { on: true } }],
    ['two', { text: 'x', bytes: 'eA==' }],
    ['two', { value: null, text: 'x' }],
    ['no base64', { bytes: '!!' }],
    ['no base64, found in linear time', { bytes: `${'='.repeat(2_000_000)}x` }],
    ['no text', { text: 1 }],
    ['no place', { text: 'x', spec: {} }],
    ['no place in metadata', { text: 'x', metadata: { name: 'a', labels: { a: 'b' } } }],
  ] as const) {
    t.match((await send('PUT', `${flags}/a`, refused)).body, { code: 422, reason: 'Invalid' }, why)
  }
  t.match((await send('POST', flags, { metadata: { name: 'eu/b' }, text: 'x' })).body, {
    code: 422,
    message: /is the name of no key: the key 'eu\/b' has the name 'eu:b'/,
  })
  t.match((await send('PUT', `${flags}/~41`, { text: 'x' })).body, { code: 400 })
  t.same(h.upstream.peek(keyFromText('/config/flags/')).length, 1)
  const hostile = { metadata: { name: 'same' } }
  t.equal((await send('PUT', `${flags}/a1`, { value: hostile })).code, 201)
  t.match((await send('GET', `${flags}/a1`)).body, { metadata: { name: 'a1' }, value: hostile })
  const { body: last } = await send('GET', path)
  t.equal((await send('DELETE', path)).code, 200)
  t.match((await send('PUT', path, last)).body, { code: 409, reason: 'Conflict' }, 'the version that it names is gone')
  t.equal(bytes('eu/checkout'), undefined)
})

void t.test('whole objects are written under a prefix declared for them', async (t) => {
  const declaration = { name: 'routes', prefix: '/edge/routes/', namespaced: true, objects: true }
  const folder = t.testdir({ 'config.yaml': JSON.stringify({ resources: [declaration] }) })
  const h = await startApp(t, { flags: ['--enable-writes', '--config', `${folder}/config.yaml`] })
  const send = clientOf(h.url)
  const routes = '/apis/distributary.io/v1/namespaces/eu/routes'
  t.equal((await send('POST', routes, { metadata: { name: 'a:b' }, text: 'a member', spec: { on: true } })).code, 201)
  const [stored] = h.upstream.peek(keyFromText('/edge/routes/eu/a/b'))
  t.match(JSON.parse(stored!.value.toString()), {
    kind: 'Route',
    metadata: { name: 'a:b', namespace: 'eu' },
    text: 'a member',
  })
  t.equal((await send('PATCH', `${routes}/a:b`, { spec: { on: false } }, MERGE)).code, 200)
  t.match((await send('GET', `${routes}/a:b`)).body, { spec: { on: false } })
  t.equal((await send('POST', routes, { metadata: { name: 'a b' } })).code, 422)
  // Another client writes an object with the same name as the first.
  const twin = { metadata: { name: 'a:b', namespace: 'eu' } }
  h.upstream.commit([{ type: 'put', key: keyFromText('/edge/routes/eu/c'), value: Buffer.from(JSON.stringify(twin)) }])
  const { body } = await send('GET', routes)
  t.same(
    (body['items'] as { metadata: { name: string } }[]).map(({ metadata }) => metadata.name),
    ['a:b'],
  )
  t.equal((await send('GET', `${routes}/c`)).code, 404)
  t.equal((await send('DELETE', `${routes}/c`)).code, 200, 'and is removed by its name')
  t.same(h.upstream.peek(keyFromText('/edge/routes/eu/c')), [])
  t.match((await send('GET', `${routes}/a:b`)).body, { spec: { on: false } })
})
