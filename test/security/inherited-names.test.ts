/**
 * Names that every JavaScript object inherits (`constructor`, `__proto__`) are ordinary keys and names in Kubernetes:
 * they are stored, selected and served like any other, in every format, and nothing reaches `Object.prototype`.
 */
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { startApp } from '../support/app.js'
import { APPLY, clientOf, JSON_PATCH, MERGE, STRATEGIC } from '../kubernetes/writes/client.js'
import { until } from '../support/until.js'
import { definitionObject, object } from '../support/definition.js'

const KEYS = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', '__defineGetter__', 'prototype']
/** The names that are valid label keys. */
const LABELS = KEYS.filter((key) => !key.startsWith('_'))
const data = `{${KEYS.map((key) => `${JSON.stringify(key)}:${JSON.stringify(`of ${key}`)}`).join(',')}}`
const labels = `{${LABELS.map((key) => `${JSON.stringify(key)}:"yes"`).join(',')}}`
const CONFIG_MAPS = '/api/v1/namespaces/constructor/configmaps'

const before = Object.getOwnPropertyNames(Object.prototype).sort().join()

/** Every key with its value, in text that has not passed through an object. */
function holds(t: Test, text: string, what: string): void {
  for (const key of KEYS) t.ok(text.includes(`"${key}":"of ${key}"`), `${what}: ${key}`)
}

void t.test('keys of a config map survive writes, patches, applies and every format', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  const send = clientOf(h.url)
  t.equal((await send('POST', '/api/v1/namespaces', { metadata: { name: 'constructor' } })).code, 201)
  const post = async (name: string): Promise<void> => {
    const answer = await fetch(`${h.url}${CONFIG_MAPS}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: `{"metadata":{"name":"${name}","labels":${labels}},"data":${data}}`,
    })
    const text = await answer.text()
    t.equal(answer.status, 201, text)
    holds(t, text, 'created')
  }
  await post('constructor')
  const path = `${CONFIG_MAPS}/constructor`
  const get = async (accept: string, at = path): Promise<Buffer> => {
    const answer = await fetch(`${h.url}${at}`, { headers: { accept } })
    t.equal(answer.status, 200, at)
    return Buffer.from(await answer.arrayBuffer())
  }
  holds(t, (await get('application/json')).toString(), 'JSON')
  const yaml = parse((await get('application/yaml')).toString(), { mapAsMap: true }) as Map<string, Map<string, string>>
  t.same([...yaml.get('data')!.keys()].sort(), [...KEYS].sort())
  const protobuf = (await get('application/vnd.kubernetes.protobuf')).toString('latin1')
  for (const key of KEYS) t.ok(protobuf.includes(`of ${key}`), `protobuf: ${key}`)

  for (const [body, headers] of [
    ['{"data":{"__proto__":"patched"}}', MERGE],
    ['[{"op":"replace","path":"/data/__proto__","value":"patched"}]', JSON_PATCH],
    ['{"data":{"__proto__":"patched"}}', STRATEGIC],
  ] as const) {
    await (await fetch(`${h.url}${path}`, { method: 'DELETE' })).text()
    await post('constructor')
    const answer = await fetch(`${h.url}${path}`, { method: 'PATCH', headers, body })
    const text = await answer.text()
    t.match(text, /"__proto__":"patched"/, headers['content-type'])
    t.match(text, /"constructor":"of constructor"/)
  }
  const apply = (body: string, manager: string) =>
    fetch(`${h.url}${CONFIG_MAPS}/applied?fieldManager=${manager}`, { method: 'PATCH', headers: APPLY, body })
  const object = (value: string) =>
    `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":${value}}`
  holds(t, await (await apply(object(data), 'prototype')).text(), 'applied')
  const conflict = await apply(object('{"__proto__":"mine"}'), 'constructor')
  t.equal(conflict.status, 409, await conflict.text())
  const dropped = await (await apply(object('{"constructor":"of constructor"}'), 'prototype')).text()
  t.notMatch(dropped, /of __proto__/, 'a key that is no longer applied goes')
  t.match(dropped, /"constructor":"of constructor"/)
})

void t.test('labels, names, namespaces, users and parameters may be called like that', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes'] })
  const pod = (name: string, extra: object): object => ({
    metadata: { namespace: 'constructor', name, uid: name, ...extra },
  })
  h.put(
    'pods/constructor/prototype',
    pod('prototype', { labels: Object.fromEntries(LABELS.map((key) => [key, 'yes'])) }),
  )
  h.put('pods/constructor/plain', pod('plain', { labels: { app: 'web' } }))
  const names = async (query: string, namespace = 'constructor'): Promise<string[]> => {
    const answer = await fetch(`${h.url}/api/v1/namespaces/${namespace}/pods?${query}`)
    const { items } = (await answer.json()) as { items: { metadata: { name: string } }[] }
    return items.map(({ metadata }) => metadata.name)
  }
  for (const key of LABELS) {
    t.same(await names(`labelSelector=${key}`), ['prototype'], key)
    t.same(await names(`labelSelector=!${key}`), ['plain'], `!${key}`)
    t.same(await names(`labelSelector=${key}%3Dyes`), ['prototype'], `${key}=yes`)
    t.same(await names(`labelSelector=${key}+notin+(yes)`), ['plain'], `${key} notin (yes)`)
  }
  for (const query of ['__proto__=1', 'constructor=1', '__proto__[limit]=1', 'labelSelector=app%3Dweb&toString=1']) {
    const found = await names(query)
    t.ok(found.includes('plain'), query)
  }
  t.same(await names('', 'prototype'), [])
  for (const path of [
    '/api/constructor',
    '/apis/__proto__/v1',
    '/apis/apps/constructor/deployments',
    '/api/v1/constructor',
    '/apis/constructor',
    '/openapi/v3/apis/__proto__/v1',
    '/api/v1/namespaces/x/__proto__',
  ]) {
    t.equal((await fetch(`${h.url}${path}`)).status, 404, path)
  }
})

void t.test('a definition may be called like that', async (t) => {
  const h = await startApp(t, { flags: ['--enable-writes', '--resource=api/all'] })
  const send = clientOf(h.url)
  const definition = definitionObject({
    group: 'constructor.io',
    plural: 'prototypes',
    singular: 'prototype',
    kind: 'Constructor',
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        storage: true,
        schema: object({
          constructor: object({ toString: { type: 'string' } }),
          valueOf: { type: 'integer', default: 3 },
        }),
      },
    ],
  })
  const created = await send('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
  t.equal(created.code, 201, created.text)
  await send('POST', '/api/v1/namespaces', { metadata: { name: 'default' } })
  const path = '/apis/constructor.io/v1/namespaces/default/prototypes'
  await until(async () => (await fetch(`${h.url}${path}`)).status === 200, 'it is served')
  const answer = await fetch(`${h.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"apiVersion":"constructor.io/v1","kind":"Constructor","metadata":{"name":"constructor"},"constructor":{"toString":"a","__proto__":{"x":1},"hasOwnProperty":1},"__proto__":{"polluted":1},"toString":"pruned"}',
  })
  const text = await answer.text()
  t.equal(answer.status, 201, text)
  t.match(text, /"constructor":\{"toString":"a"\}/)
  t.match(text, /"valueOf":3/)
  t.notMatch(text, /polluted|pruned|hasOwnProperty|__proto__/)
})

void t.test('none of these requests has changed the prototype of objects', (t) => {
  t.equal(Object.getOwnPropertyNames(Object.prototype).sort().join(), before)
  t.end()
})
