/** Values among Kubernetes' objects that this server cannot read: they are never served as something else. */
import t, { type Test } from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../../support/app.js'
import { startApiServer } from '../../../support/api-server-stand-in.js'
import { until } from '../../../support/until.js'
import { definitionObject, ESTABLISHED, object } from '../../../support/definition.js'

const WIDGETS = '/apis/example.com/v1/namespaces/default/widgets'
const DEFINITION = {
  ...definitionObject({
    group: 'example.com',
    plural: 'widgets',
    kind: 'Widget',
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        storage: true,
        schema: object({ spec: object({ size: { type: 'integer', default: 1 } }, { default: {} }) }),
      },
    ],
  }),
  status: ESTABLISHED,
}

/**
 * As an API server with CBORServingAndStorage stores {"metadata":{"name":"b"},"spec":{"size":SIZE}} and its type.
 * @param size in CBOR.
 */
const cborOf = (size: string): Buffer =>
  Buffer.concat([
    Buffer.from('d9d9f7a4', 'hex'),
    ...['apiVersion', 'example.com/v1', 'kind', 'Widget', 'metadata'].map((text) =>
      Buffer.concat([Buffer.from([0x40 + text.length]), Buffer.from(text)]),
    ),
    Buffer.from('a1446e616d654162', 'hex'),
    Buffer.from(`4473706563a14473697a65${size}`, 'hex'),
  ])
const NAN = cborOf('f97e00')
const SEVEN = cborOf('07')

async function start(t: Test, options: AppHarnessOptions = {}): Promise<AppHarness> {
  const app = await startApp(t, {
    objects: {
      'apiextensions.k8s.io/customresourcedefinitions/widgets.example.com': DEFINITION,
      'example.com/widgets/default/b': {
        kind: 'Widget',
        apiVersion: 'example.com/v1',
        metadata: { name: 'b', namespace: 'default' },
      },
    },
    ...options,
  })
  await until(async () => (await fetch(`${app.url}${WIDGETS}`)).status === 200, 'widgets are served')
  return app
}

const storeCbor = (app: AppHarness, value: Buffer): void => {
  app.upstream.commit([{ type: 'put', key: keyFromText('/registry/example.com/widgets/default/b'), value }])
}

void t.test(
  'custom resources stored as damaged CBOR are an error, in every form, and never an object without its fields',
  async (t) => {
    const app = await start(t)
    const watch = await fetch(`${app.url}${WIDGETS}?watch=1&timeoutSeconds=30&resourceVersion=${app.upstream.revision}`)
    storeCbor(app, NAN)
    const events = (await watch.text()).trim().split('\n')
    t.equal(events.length, 1, 'the object that was there is not reported deleted')
    t.match(JSON.parse(events[0]!), {
      type: 'ERROR',
      object: { kind: 'Status', code: 501, message: /cannot be read as CBOR: NaN/ },
    })
    for (const [path, accept] of [
      ['', 'application/json'],
      ['/b', 'application/json'],
      ['/b', 'application/yaml'],
      ['?limit=1', 'application/json'],
      ['?resourceVersion=0', 'application/json'],
      ['', 'application/json;as=Table;v=v1;g=meta.k8s.io'],
      ['', 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'],
      ['?watch=1', 'application/json'],
    ] as const) {
      const answer = await fetch(`${app.url}${WIDGETS}${path}`, { headers: { accept } })
      t.equal(answer.status, 501, `${path} ${accept}`)
      t.match(await answer.text(), 'cannot be read as CBOR: NaN', `${path} ${accept}`)
    }
    app.delete('example.com/widgets/default/b')
    await until(async () => (await fetch(`${app.url}${WIDGETS}`)).status === 200, 'they are served again without it')
  },
)

void t.test('custom resources stored as CBOR are served like those stored as JSON', async (t) => {
  const app = await start(t)
  const watch = await fetch(`${app.url}${WIDGETS}?watch=1&timeoutSeconds=1&resourceVersion=${app.upstream.revision}`)
  storeCbor(app, SEVEN)
  const revision = String(app.upstream.revision)
  const object = {
    apiVersion: 'example.com/v1',
    kind: 'Widget',
    metadata: { name: 'b', resourceVersion: revision, generation: 1 },
    spec: { size: 7 },
  }
  t.same(JSON.parse((await watch.text()).trim()), { type: 'MODIFIED', object })
  const get = async (path: string, accept = 'application/json'): Promise<string> =>
    await (await fetch(`${app.url}${WIDGETS}${path}`, { headers: { accept } })).text()
  t.same(JSON.parse(await get('/b')), object)
  t.match(JSON.parse(await get('?fieldSelector=metadata.name%3Db')), { items: [object] })
  t.match(await get('/b', 'application/yaml'), 'size: 7')
  const table = await get('', 'application/json;as=Table;v=v1;g=meta.k8s.io')
  t.match(JSON.parse(table), { kind: 'Table', rows: [{ cells: ['b'] }] })
})

void t.test('with --passthrough the API server answers for objects that are unreadable here', async (t) => {
  const behind = await startApiServer(t)
  const app = await start(t, { flags: ['--passthrough', behind.url] })
  t.equal(behind.seen.length, 0)
  storeCbor(app, NAN)
  await until(async () => {
    await (await fetch(`${app.url}${WIDGETS}/b`)).text()
    return behind.seen.length > 0
  }, 'a get is passed on')
  for (const path of ['', '/b', '?watch=1']) {
    t.match(await (await fetch(`${app.url}${WIDGETS}${path}`)).json(), { kind: 'Stand' })
    t.equal(behind.last().url, `${WIDGETS}${path}`)
  }
})
