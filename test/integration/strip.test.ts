/** Fields that the operator leaves out of everything (`strip`), in every form, arrangement of processes and check. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import { type AppHarness, startApp } from '../support/app.js'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { EventReader } from '../support/event-reader.js'
import { startNats } from '../support/nats-process.js'
import { apiServer120 } from '../support/protobuf-data.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { ask } from '../conformance/world.js'

const { stored, answers } = apiServer120()
const NOTE = 'metadata.annotations.example\\.com/note'
const DROP = ';drop=metadata.managedFields'
const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const EVERYTHING = ['"*=metadata.managedFields"']

function configFile(t: Test, strip: readonly string[], more = ''): string {
  const file = join(t.testdir({}), 'config.yaml')
  writeFileSync(file, `strip: [${strip.join(', ')}]\n${more}`)
  return `--config=${file}`
}

type Store = ReturnType<typeof createEmbeddedUpstream>

function storeOf(objects: Readonly<Record<string, Buffer | object>>): Store {
  const upstream = createEmbeddedUpstream()
  for (const [key, object] of Object.entries(objects)) put(upstream, key, object)
  return upstream
}

function put(upstream: Store, key: string, object: Buffer | object): void {
  const value = Buffer.isBuffer(object) ? object : Buffer.from(JSON.stringify(object))
  upstream.commit([{ type: 'put', key: keyFromText(key), value }])
}

const realObjects = (): Store => storeOf(Object.fromEntries(stored.map(({ key, value }) => [key, value])))

const managed = [{ manager: 'kubectl', operation: 'Update', apiVersion: 'v1', fieldsV1: { 'f:data': {} } }]
const configMap = (name: string, annotations: object = {}, manager = 'kubectl'): object => ({
  kind: 'ConfigMap',
  apiVersion: 'v1',
  metadata: { name, namespace: 'default', annotations, managedFields: [{ ...managed[0], manager }] },
})

void t.test('each response equals that of a server that strips nothing, without the field', async (t) => {
  const upstream = realObjects()
  const stripping = await startApp(t, { upstream, flags: [configFile(t, EVERYTHING)] })
  const whole = await startApp(t, { upstream })
  for (const { url } of [stripping, whole])
    await until(async () => (await ask(`${url}/apis/edge.example.com/v1/caches`)).code === 200, 'definitions are read')
  const listOf = (path: string): string => path.slice(0, path.lastIndexOf('/'))
  const all = [...answers.values()].map(({ path }) => path).filter((path) => !path.includes('/v1beta1/'))
  const paths = [...new Map(all.map((path) => [listOf(path), path])).values()]
  const types = ['application/json', 'application/yaml', PROTOBUF]
  let compared = 0
  for (const path of paths.flatMap((one) => [one, listOf(one)])) {
    const kind = paths.includes(path) ? 'PartialObjectMetadata' : 'PartialObjectMetadataList'
    for (const type of [...types, ...types.map((one) => `${one};as=${kind};v=v1;g=meta.k8s.io`)]) {
      const [ours, theirs] = [
        await ask(stripping.url + path, { headers: { accept: type } }),
        await ask(whole.url + path, { headers: { accept: type + DROP } }),
      ]
      t.equal(ours.code, theirs.code, `${path} as ${type}`)
      t.same(ours.body, theirs.body, `${path} as ${type}`)
      t.equal(ours.headers['x-distributary-stripped'], 'metadata.managedFields')
      t.equal(theirs.headers['x-distributary-stripped'], undefined)
      t.not(ours.headers.etag ?? '1', theirs.headers.etag ?? '2')
      compared++
    }
  }
  t.ok(compared > 150, `${compared}`)
  const table = await ask(`${stripping.url}/apis/apps/v1/deployments?includeObject=Object`, {
    headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' },
  })
  t.match(table.text, /"metadata":/)
  t.notMatch(table.text, /managedFields/)
})

async function watch(app: AppHarness, query: string): Promise<EventReader> {
  const { Readable } = await import('node:stream')
  const response = await fetch(`${app.url}/api/v1/configmaps?watch=1&${query}`)
  t.equal(response.headers.get('x-distributary-stripped'), [NOTE, 'metadata.managedFields'].join(','))
  return new EventReader(Readable.fromWeb(response.body as never))
}

const NOTES = [`'configmaps=metadata.managedFields+${NOTE}'`]

void t.test('annotations by name, and updates of nothing else', async (t) => {
  const upstream = storeOf({
    '/registry/configmaps/default/a': configMap('a', { 'example.com/note': 'x', 'example.com/other': 'y' }),
    '/registry/configmaps/default/b': configMap('b', { 'example.com/note': 'x' }),
    '/registry/secrets/default/c': configMap('c', { 'example.com/note': 'x' }),
  })
  const app = await startApp(t, {
    upstream,
    flags: [
      configFile(t, NOTES, 'stripAnnotations: true\n'),
      '--select-any-field',
      '--resource=secrets',
      '--enable-writes=false',
    ],
  })
  const list = await ask(`${app.url}/api/v1/configmaps`)
  t.same(
    list.json.items.map(({ metadata }) => metadata),
    [
      { resourceVersion: '2', name: 'a', namespace: 'default', annotations: { 'example.com/other': 'y' } },
      { resourceVersion: '3', name: 'b', namespace: 'default' },
    ],
  )
  const others = await ask(`${app.url}/api/v1/secrets`)
  t.match(others.text, /example.com\/note.*managedFields/, 'other resources keep everything')
  t.equal(others.headers['x-distributary-stripped'], undefined)

  const events = await watch(app, 'resourceVersion=4')
  put(upstream, '/registry/configmaps/default/b', configMap('b', { 'example.com/note': 'changed' }, 'helm'))
  const [event] = await events.first(1)
  t.match(event, { type: 'MODIFIED', object: { metadata: { name: 'b', resourceVersion: '5' } } })
  t.notOk('annotations' in event!.object.metadata)

  const selects = async (selector: string): Promise<number> => {
    const { code } = await ask(`${app.url}/api/v1/configmaps?fieldSelector=${encodeURIComponent(selector)}`)
    return code
  }
  for (const path of [NOTE, 'metadata.managedFields', 'metadata.managedFields.manager'])
    t.equal(await selects(`${path}=x`), 400, path)
  for (const path of ['metadata.annotations.example\\.com/other', 'metadata.annotations', 'metadata.name'])
    t.equal(await selects(`${path}=x`), 200, path)
})

/** Reads one event, and ends the watch. */
async function firstLine(response: Response): Promise<string> {
  let text = ''
  for await (const part of response.body!) {
    text += Buffer.from(part).toString()
    if (text.includes('\n')) break
  }
  return text
}

void t.test('a resource that is not cached is stripped too, and so are selected fields', async (t) => {
  const upstream = storeOf({ '/registry/configmaps/default/a': configMap('a', { note: 'x' }) })
  const flags = [configFile(t, EVERYTHING), '--watch-cache-sizes=configmaps#0']
  const app = await startApp(t, { upstream, flags })
  const path = `${app.url}/api/v1/configmaps`
  for (const query of ['', '?watch=1', '?fields=metadata', '?fields=metadata.managedFields']) {
    const response = await fetch(path + query)
    t.equal(response.status, 200, query)
    const text = query === '?watch=1' ? await firstLine(response) : await response.text()
    t.match(text, '"name":"a"', query)
    t.notMatch(text, 'kubectl', query)
    t.equal(response.headers.get('x-distributary-stripped'), 'metadata.managedFields', query)
  }
})

void t.test('a definition whose columns read a stripped field keeps its objects whole', async (t) => {
  const definition = (plural: string, columns: object[]): object => ({
    kind: 'CustomResourceDefinition',
    apiVersion: 'apiextensions.k8s.io/v1',
    metadata: { name: `${plural}.example.com`, managedFields: managed },
    spec: {
      group: 'example.com',
      scope: 'Namespaced',
      names: { plural, singular: plural, kind: plural, listKind: `${plural}List` },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
          additionalPrinterColumns: columns,
        },
      ],
    },
    status: {
      acceptedNames: { plural, singular: plural, kind: plural, listKind: `${plural}List` },
      conditions: [{ type: 'Established', status: 'True' }],
    },
  })
  const object = (kind: string): object => ({
    kind,
    apiVersion: 'example.com/v1',
    metadata: { name: 'a', namespace: 'default', managedFields: managed },
  })
  const column = { name: 'By', type: 'string', jsonPath: '.metadata.managedFields[0].manager' }
  const age = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' }
  const DEFINITIONS = '/registry/apiextensions.k8s.io/customresourcedefinitions'
  const upstream = storeOf({
    [`${DEFINITIONS}/plains.example.com`]: definition('plains', [age]),
    [`${DEFINITIONS}/readers.example.com`]: definition('readers', [age, column]),
    '/registry/example.com/plains/default/a': object('plains'),
    '/registry/example.com/readers/default/a': object('readers'),
  })
  const app = await startApp(t, { upstream, flags: [configFile(t, EVERYTHING)] })
  const get = async (plural: string): Promise<{ text: string; stripped: unknown; code: number }> => {
    const { text, headers, code } = await ask(`${app.url}/apis/example.com/v1/namespaces/default/${plural}/a`)
    return { text, stripped: headers['x-distributary-stripped'], code }
  }
  await until(async () => (await get('plains')).code === 200 && (await get('readers')).code === 200, 'both are served')
  const [plain, reader] = [await get('plains'), await get('readers')]
  t.notMatch(plain.text, /managedFields/)
  t.equal(plain.stripped, 'metadata.managedFields')
  t.match(reader.text, /managedFields/)
  t.equal(reader.stripped, undefined)
  put(upstream, `${DEFINITIONS}/plains.example.com`, definition('plains', [age, column]))
  await until(async () => (await get('plains')).text.includes('managedFields'), 'a new column brings the field back')
})

async function write(etcd: EtcdProcess, name: string, manager: string): Promise<void> {
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const value = base64(JSON.stringify(configMap(name, {}, manager)))
  await etcd.call('kv/put', { key: base64(`/registry/configmaps/default/${name}`), value })
}

async function listed(server: ServerProcess): Promise<{ text: string; position: string; stripped: string | null }> {
  const answer = await fetch(`${server.url}/api/v1/configmaps?history=`)
  const position = answer.headers.get('x-distributary-position') ?? `status ${answer.status}`
  return { text: await answer.text(), position, stripped: answer.headers.get('x-distributary-stripped') }
}

void t.test('workers, a fleet over NATS and a chain strip alike, and name their positions alike', async (t) => {
  const [etcd, nats] = await Promise.all([startEtcd(t), startNats(t)])
  for (let i = 0; i < 5; i++) await write(etcd, `c-${i}`, 'kubectl')
  const strip = configFile(t, EVERYTHING)
  const fromEtcd = `--etcd-servers=${etcd.url}`
  const overNats = [`--nats-servers=${nats.url}`, '--nats-cluster=strips', '--nats-stream-bytes=8MiB']
  const alone = await startServer(t, { flags: [strip, fromEtcd] })
  const servers = {
    alone,
    workers: await startServer(t, { flags: [strip, fromEtcd, '--workers=2'] }),
    'a candidate': await startServer(t, { flags: [strip, fromEtcd, ...overNats] }),
    'an edge': await startServer(t, { flags: [strip, ...overNats, '--nats-role=edge'] }),
  }
  // A chain needs no option of its own.
  const chain = await startServer(t, { flags: [`--upstream=${alone.url}`] })
  const last = await startServer(t, { flags: [`--upstream=${chain.url}`] })
  const whole = await startServer(t, { flags: [fromEtcd] })
  await write(etcd, 'c-3', 'helm')
  await until(async () => (await listed(last)).text.includes('"6"'), 'the last of the chain has the last event')
  const { position } = await listed(alone)
  for (const [name, server] of Object.entries(servers)) {
    await until(async () => (await listed(server)).position === position, `${name} names its position like the others`)
  }
  for (const [name, server] of Object.entries({ ...servers, chain, last })) {
    const { text, stripped } = await listed(server)
    t.match(text, /c-4/, name)
    t.notMatch(text, /managedFields/, name)
    t.equal(stripped, 'metadata.managedFields', name)
  }
  const unstripped = await listed(whole)
  t.match(unstripped.text, /managedFields/)
  t.not(unstripped.position, position, 'a position of another form is another one')
  t.equal(unstripped.position.split('.')[0], position.split('.')[0])
})
