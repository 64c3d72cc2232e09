/** Objects of a definition are written in its storage version, whatever version they are sent in. */
import t, { type Test } from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { type AppHarness, startApp } from '../../../support/app.js'
import { until } from '../../../support/until.js'
import { clientOf, MERGE } from '../client.js'

const GROUP = 'edge.example.com'
const schema = (byDefault: string): string =>
  `{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","default":${byDefault}},"name":{"type":"string"}}}}}}`

function definition(plural: string, kind: string, conversion: string): string {
  const versions = [
    `{"name":"v1alpha1","served":true,"schema":${schema('1')}}`,
    `{"name":"v1","served":true,"storage":true,"schema":${schema('9007199254740993')}}`,
  ]
  return `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"${plural}.${GROUP}"},"spec":{"group":"${GROUP}","scope":"Cluster","names":{"plural":"${plural}","kind":"${kind}"},"conversion":{"strategy":"${conversion}"},"versions":[${versions.join(',')}]}}`
}

async function start(t: Test): Promise<AppHarness> {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  for (const [plural, kind, conversion] of [
    ['widgets', 'Widget', 'None'],
    ['hooks', 'Hook', 'Webhook'],
  ] as const) {
    const key = keyFromText(`/registry/apiextensions.k8s.io/customresourcedefinitions/${plural}.${GROUP}`)
    h.upstream.commit([{ type: 'put', key, value: Buffer.from(definition(plural, kind, conversion)) }])
  }
  for (const plural of ['widgets', 'hooks'])
    await until(async () => (await fetch(`${h.url}/apis/${GROUP}/v1/${plural}`)).status === 200, `${plural} are served`)
  return h
}

const storedOf = (h: AppHarness, name: string): string | undefined =>
  h.upstream.peek(keyFromText(`/registry/${GROUP}/${name}`))[0]?.value.toString()

void t.test('without conversion, every version is stored as the storage version', async (t) => {
  const h = await start(t)
  const send = clientOf(h.url)
  const older = `/apis/${GROUP}/v1alpha1/widgets`
  const created = await send('POST', older, { metadata: { name: 'a' }, spec: { name: 'n' } })
  t.match(created.body, { apiVersion: `${GROUP}/v1alpha1`, spec: { name: 'n', size: 1 } }, 'it answers in its own')
  t.match(JSON.parse(storedOf(h, 'widgets/a')!), { apiVersion: `${GROUP}/v1`, spec: { size: 1 } })
  t.match((await send('GET', `/apis/${GROUP}/v1/widgets/a`)).body, { apiVersion: `${GROUP}/v1`, spec: { size: 1 } })
  t.match((await send('PATCH', `${older}/a`, { spec: { name: 'm' } }, MERGE)).body, { spec: { name: 'm', size: 1 } })
  t.match(JSON.parse(storedOf(h, 'widgets/a')!), { apiVersion: `${GROUP}/v1`, spec: { name: 'm' } })
})

void t.test('a write without changes migrates an object stored in another version', async (t) => {
  const h = await start(t)
  const send = clientOf(h.url)
  h.put(`${GROUP}/widgets/old`, {
    apiVersion: `${GROUP}/v1alpha1`,
    kind: 'Widget',
    metadata: { name: 'old', uid: 'u', generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { size: 5 },
  })
  const path = `/apis/${GROUP}/v1/widgets/old`
  const first = await send('PATCH', path, {}, MERGE)
  t.equal(first.code, 200, first.text)
  const migrated = storedOf(h, 'widgets/old')!
  t.match(JSON.parse(migrated), { apiVersion: `${GROUP}/v1`, spec: { size: 5 } })
  const second = await send('PATCH', path, {}, MERGE)
  t.same(second.body, first.body, 'once: then there is nothing to write')
  t.equal(storedOf(h, 'widgets/old'), migrated)
})

void t.test('a default with more digits than a JavaScript number is filled in exactly', async (t) => {
  const h = await start(t)
  const send = clientOf(h.url)
  await send('POST', `/apis/${GROUP}/v1/widgets`, { metadata: { name: 'd' }, spec: {} })
  t.match(storedOf(h, 'widgets/d'), '"size":9007199254740993', 'when it is written')
  h.put(`${GROUP}/widgets/read`, { apiVersion: `${GROUP}/v1`, kind: 'Widget', metadata: { name: 'read' }, spec: {} })
  await until(async () => (await send('GET', `/apis/${GROUP}/v1/widgets/read`)).code === 200, 'it is there')
  t.match((await send('GET', `/apis/${GROUP}/v1/widgets/read`)).text, '"size":9007199254740993', 'when it is read')
  for (const path of [`/openapi/v3/apis/${GROUP}/v1`, '/openapi/v3']) t.equal((await send('GET', path)).code, 200, path)
  t.match((await send('GET', `/openapi/v3/apis/${GROUP}/v1`)).text, '"default":9007199254740993', 'in OpenAPI')
})

void t.test('an object that only a webhook could convert is not stored unconverted', async (t) => {
  const h = await start(t)
  const send = clientOf(h.url)
  const hook = (name: string): object => ({ metadata: { name }, spec: { size: 1 } })
  t.equal((await send('POST', `/apis/${GROUP}/v1/hooks`, hook('a'))).code, 201, 'the stored version is written')
  const before = storedOf(h, 'hooks/a')
  const older = `/apis/${GROUP}/v1alpha1/hooks`
  for (const [method, path, body, headers] of [
    ['POST', older, hook('b'), {}],
    ['PUT', `${older}/a`, hook('a'), {}],
    ['PATCH', `${older}/a`, { spec: { size: 2 } }, MERGE],
    ['DELETE', `${older}/a`, undefined, {}],
    ['DELETE', older, undefined, {}],
  ] as const) {
    const answer = await send(method, path, body, headers)
    t.match(
      answer.body,
      { code: 501, reason: 'NotImplemented', message: /the webhook that converts/ },
      `${method} ${path}`,
    )
  }
  t.equal(storedOf(h, 'hooks/a'), before)
  t.equal(storedOf(h, 'hooks/b'), undefined)
})
