/** Values among Kubernetes' objects that this server cannot read: they are never served as something else. */
import t, { type Test } from 'tap'
import { keyFromText } from '../../../../src/engine/model/event.js'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../../support/app.js'
import { startApiServer } from '../../../support/api-server-stand-in.js'
import { until } from '../../../support/until.js'

const WIDGETS = '/apis/example.com/v1/namespaces/default/widgets'
const DEFINITION = {
  kind: 'CustomResourceDefinition',
  apiVersion: 'apiextensions.k8s.io/v1',
  metadata: { name: 'widgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', kind: 'Widget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: { type: 'object', default: {}, properties: { size: { type: 'integer', default: 1 } } },
            },
          },
        },
      },
    ],
  },
  status: {
    acceptedNames: { plural: 'widgets', kind: 'Widget' },
    conditions: [{ type: 'Established', status: 'True' }],
  },
}

/** As an API server with CBORServingAndStorage stores {"metadata":{"name":"a"},"spec":{"size":7}} and its type. */
const CBOR = Buffer.concat([
  Buffer.from('d9d9f7a4', 'hex'),
  ...['apiVersion', 'example.com/v1', 'kind', 'Widget', 'metadata'].map((text) =>
    Buffer.concat([Buffer.from([0x40 + text.length]), Buffer.from(text)]),
  ),
  Buffer.from('a1446e616d654161', 'hex'),
  Buffer.from('4473706563a14473697a6507', 'hex'),
])

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

const storeCbor = (app: AppHarness): void => {
  app.upstream.commit([{ type: 'put', key: keyFromText('/registry/example.com/widgets/default/b'), value: CBOR }])
}

void t.test(
  'custom resources stored as CBOR are an error, in every form, and never an object without its fields',
  async (t) => {
    const app = await start(t)
    const watch = await fetch(`${app.url}${WIDGETS}?watch=1&timeoutSeconds=30&resourceVersion=${app.upstream.revision}`)
    storeCbor(app)
    const events = (await watch.text()).trim().split('\n')
    t.equal(events.length, 1, 'the object that was there is not reported deleted')
    t.match(JSON.parse(events[0]!), { type: 'ERROR', object: { kind: 'Status', code: 501, message: /stored as CBOR/ } })
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
      t.match(await answer.text(), 'stored as CBOR', `${path} ${accept}`)
    }
    app.delete('example.com/widgets/default/b')
    await until(async () => (await fetch(`${app.url}${WIDGETS}`)).status === 200, 'they are served again without it')
  },
)

void t.test('with --passthrough the API server answers for what is unreadable here', async (t) => {
  const behind = await startApiServer(t)
  const app = await start(t, { flags: ['--passthrough', behind.url] })
  t.equal(behind.seen.length, 0)
  storeCbor(app)
  await until(async () => {
    await (await fetch(`${app.url}${WIDGETS}/b`)).text()
    return behind.seen.length > 0
  }, 'a get is passed on')
  for (const path of ['', '/b', '?watch=1']) {
    t.match(await (await fetch(`${app.url}${WIDGETS}${path}`)).json(), { kind: 'Stand' })
    t.equal(behind.last().url, `${WIDGETS}${path}`)
  }
})
