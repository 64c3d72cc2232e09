/**
 * What is stored of a written value. How each spelling is stored is compared with a kube-apiserver's answers in
 * `test/reference/writes`; here is what those answers do not show: that an equal value is no write, and that the other
 * zones stay as they were.
 */
import t from 'tap'
import { startApp } from '../../support/app.js'
import { definitionObject } from '../../support/definition.js'

const JSON_TYPE = 'application/json'

interface Answer {
  readonly code: number
  readonly version: string
  readonly text: string
}

async function send(url: string, method: string, path: string, body: string, type = JSON_TYPE): Promise<Answer> {
  const response = await fetch(url + path, { method, headers: { 'content-type': type }, body })
  const text = await response.text()
  const { metadata } = JSON.parse(text) as { metadata?: { resourceVersion?: string } }
  return { code: response.status, version: metadata?.resourceVersion ?? '', text }
}

const LIMITS = '/api/v1/namespaces/default/limitranges'
const limits = (quantity: string): string =>
  `{"metadata":{"name":"a"},"spec":{"limits":[{"type":"Container","max":{"cpu":${quantity}}}]}}`
const CUSTOM = '/apis/example.com/v1/namespaces/default/widgets'
const widget = (version: string, spec: string): string =>
  `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"${version === '' ? '' : `,"resourceVersion":"${version}"`}},"spec":${spec}}`

void t.test('an update that is equal as stored is no write', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes', '--resource=limitranges'] })
  const first = await send(url, 'POST', LIMITS, limits('"1000m"'))
  t.match(first, { code: 201, text: /"cpu":"1"/ })
  for (const same of ['1', '1.0', '"1"', '"1000m"', '"1000000u"']) {
    t.match(await send(url, 'PUT', `${LIMITS}/a`, limits(same)), { code: 200, version: first.version }, same)
  }
  const merged = await send(url, 'PATCH', `${LIMITS}/a`, limits('"1000m"'), 'application/merge-patch+json')
  t.equal(merged.version, first.version)
  t.not((await send(url, 'PUT', `${LIMITS}/a`, limits('2'))).version, first.version)
})

void t.test(
  'numbers of a custom resource are integers wherever they can be, and equal ones are no write',
  async (t) => {
    const app = await startApp(t, { flags: ['--enable-writes'] })
    const { url } = app
    const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
    const versions = [{ name: 'v1', storage: true, schema }]
    const definition = definitionObject({
      group: 'example.com',
      plural: 'widgets',
      kind: 'Widget',
      scope: 'Namespaced',
      versions,
    })
    await send(url, 'POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', JSON.stringify(definition))
    const spec = '{"a":1.0,"b":[1e3,-0.0,"\\ud800"],"t":"2020-01-01T01:00:00.5+01:00","q":"1000m"}'
    const first = await send(url, 'POST', CUSTOM, widget('', spec))
    t.match(first, { code: 201 })
    t.ok(first.text.includes('"a":1,"b":[1000,0,"\ufffd"],"t":"2020-01-01T01:00:00.5+01:00","q":"1000m"'), first.text)
    t.equal((await send(url, 'PUT', `${CUSTOM}/a`, widget(first.version, spec))).version, first.version)
    // What another writer stored is served as it stands, and compared as it would be stored.
    const foreign = JSON.parse(widget('', '{}')) as { metadata: object; spec: object }
    Object.assign(foreign.metadata, { name: 'b', namespace: 'default', uid: 'u' })
    const stored = app.put('example.com/widgets/default/b', { ...foreign, spec: { n: 1 } })
    const again = await send(
      url,
      'PUT',
      `${CUSTOM}/b`,
      widget(String(stored), '{"n":1.0}').replace('"name":"a"', '"name":"b"'),
    )
    t.match(again, { code: 200, version: String(stored) })
  },
)

void t.test('numbers in a definition’s schema are integers wherever they can be', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const schema = { type: 'object', properties: { spec: { type: 'array', items: { type: 'number', default: 7 } } } }
  const versions = [{ name: 'v1', storage: true, schema }]
  const definition = definitionObject({
    group: 'example.com',
    plural: 'gears',
    kind: 'Gear',
    scope: 'Namespaced',
    versions,
  })
  const body = JSON.stringify(definition).replace('"default":7', '"default":7.0,"enum":[7.0,1e1],"maximum":1e3')
  const { code, text } = await send(url, 'POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', body)
  t.equal(code, 201, text)
  t.ok(/"default":7,/.test(text) && /"enum":\[7,10\]/.test(text) && /"maximum":1000\b/.test(text), text)
})

void t.test('the port of a conversion webhook has a default', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes'] })
  const schema = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const versions = [{ name: 'v1', storage: true, schema }]
  const definition = definitionObject({
    group: 'example.com',
    plural: 'gears',
    kind: 'Gear',
    scope: 'Namespaced',
    versions,
  }) as { spec: object }
  const service = { name: 's', namespace: 'n' }
  const webhook = { conversionReviewVersions: ['v1'], clientConfig: { service } }
  Object.assign(definition.spec, { conversion: { strategy: 'Webhook', webhook } })
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
  const { code, text } = await send(url, 'POST', path, JSON.stringify(definition))
  t.equal(code, 201, text)
  t.match(JSON.parse(text), { spec: { conversion: { webhook: { clientConfig: { service: { port: 443 } } } } } })
})

void t.test('values of a declared prefix are stored as sent', async (t) => {
  const { url } = await startApp(t, { flags: ['--enable-writes', '--resource=flags=/flags/'] })
  const { text } = await send(
    url,
    'POST',
    '/apis/distributary.io/v1/flags',
    '{"metadata":{"name":"a"},"value":[1.0,1e3,-0.0,"\\ud800"]}',
  )
  t.ok(text.includes('[1.0,1e3,-0.0,"\\ud800"]'), text)
})
