/** Answers in CBOR, compared with those in JSON; the judge compares them with an API server's (`--cbor`). */
import { once } from 'node:events'
import t from 'tap'
import { WebSocket } from 'ws'
import { cborToJson } from '../../src/kubernetes/codec/cbor/cbor-to-json.js'
import { startApp } from '../support/app.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { only } from '../support/only.js'
import { pod } from '../support/pod.js'
import { startServer } from '../support/server-process.js'

const PODS = '/api/v1/namespaces/default/pods'
const CBOR = 'application/cbor'
const LIMIT = 1024 * 1024
const read = (bytes: Buffer): unknown => JSON.parse(cborToJson(bytes, LIMIT).toString())

void t.test('with --serve-cbor every answer in JSON is also available in CBOR', async (t) => {
  const objects = Object.fromEntries(['a', 'b', 'c'].map((name) => [`pods/default/${name}`, pod(name)]))
  const app = await startApp(t, { flags: ['--serve-cbor'], objects })
  const forms: [path: string, as: string, code: number][] = [
    [PODS, '', 200],
    [`${PODS}?limit=2`, '', 200],
    [`${PODS}?labelSelector=no`, '', 200],
    [`${PODS}/a`, '', 200],
    [`${PODS}/a`, ';as=PartialObjectMetadata;v=v1;g=meta.k8s.io', 200],
    [PODS, ';as=PartialObjectMetadataList;v=v1;g=meta.k8s.io', 200],
    [`${PODS}/nobody`, '', 404],
    [`${PODS}?limit=x`, '', 400],
    ['/api/v1', '', 200],
    ['/apis', ';g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList', 200],
  ]
  for (const [path, as, code] of forms) {
    const [json, cbor] = await Promise.all(
      ['application/json', CBOR].map(async (type) => await fetch(app.url + path, { headers: { accept: type + as } })),
    )
    t.equal(cbor!.status, code, path)
    t.match(cbor!.headers.get('content-type'), CBOR)
    if (code === 200) t.match(cbor!.headers.get('vary'), /Accept/)
    t.not(json!.headers.get('etag') ?? '1', cbor!.headers.get('etag') ?? '2', 'each form has its own tag')
    const withoutTokens = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value, (name, member: unknown) => (name === 'continue' ? '' : member)))
    const bytes = Buffer.from(await cbor!.arrayBuffer())
    t.same(withoutTokens(read(bytes)), withoutTokens(await json!.json()), `${path} ${as}`)
  }
})

void t.test('a long list in CBOR is sent in pieces, with an end marker instead of a length', async (t) => {
  const labels = { text: 'x'.repeat(1000) }
  const app = await startApp(t, {
    flags: ['--serve-cbor'],
    objects: Object.fromEntries(
      Array.from({ length: 400 }, (_, i) => [`pods/default/p${i}`, pod(`p${i}`, { labels })]),
    ),
  })
  const [json, cbor] = await Promise.all(
    ['application/json', CBOR].map(async (accept) => await fetch(app.url + PODS, { headers: { accept } })),
  )
  const bytes = Buffer.from(await cbor!.arrayBuffer())
  t.same(read(bytes), await json!.json())
  t.equal(bytes.at(-1), 0xff)
})

void t.test('Tables have no form in CBOR, as at an API server', async (t) => {
  const app = await startApp(t, { flags: ['--serve-cbor'], objects: { 'pods/default/a': pod('a') } })
  const table = (type: string): string => `${type};as=Table;v=v1;g=meta.k8s.io`
  for (const path of [PODS, `${PODS}/a`, `${PODS}?watch=1`]) {
    t.equal((await fetch(app.url + path, { headers: { accept: table(CBOR) } })).status, 406, path)
  }
  t.equal((await fetch(`${app.url}/version`, { headers: { accept: CBOR } })).status, 406, 'nor has the version')
  const both = await fetch(app.url + PODS, { headers: { accept: [CBOR, 'application/json'].map(table).join() } })
  t.match(await both.json(), { kind: 'Table' })
})

void t.test('a watch in CBOR is a sequence of events', async (t) => {
  const app = await startApp(t, { flags: ['--serve-cbor'], objects: { 'pods/default/a': pod('a') } })
  for (const as of ['', ';as=PartialObjectMetadata;v=v1;g=meta.k8s.io']) {
    const ask = async (type: string): Promise<Response> =>
      await fetch(`${app.url}${PODS}?watch=1&timeoutSeconds=1`, { headers: { accept: type + as } })
    const [json, cbor] = await Promise.all([ask('application/json'), ask(CBOR)])
    t.equal(cbor.headers.get('content-type'), 'application/cbor-seq')
    t.same(read(Buffer.from(await cbor.arrayBuffer())), JSON.parse(await json.text()), as)
  }
  const socket = new WebSocket(`${app.url.replace('http', 'ws')}${PODS}?watch=1`, { headers: { accept: CBOR } })
  t.teardown(() => socket.terminate())
  const [message, isBinary] = (await once(socket, 'message')) as [Buffer, boolean]
  t.ok(isBinary)
  t.match(read(message), { type: 'ADDED', object: { metadata: { name: 'a' } } })
})

void t.test(
  'a write is answered in CBOR, and one with a body in CBOR is refused before anything is written',
  async (t) => {
    const app = await startApp(t, { flags: ['--serve-cbor', '--enable-writes'] })
    const post = async (type: string, body: string): Promise<Response> =>
      await fetch(app.url + '/api/v1/namespaces/default/configmaps', {
        method: 'POST',
        headers: { accept: CBOR, 'content-type': type },
        body,
      })
    const created = await post('application/json', JSON.stringify({ metadata: { name: 'a' }, data: { b: 'c' } }))
    t.equal(created.status, 201)
    t.match(read(Buffer.from(await created.arrayBuffer())), { kind: 'ConfigMap', data: { b: 'c' } })
    const refused = await post(CBOR, 'x')
    t.equal(refused.status, 415)
    t.match(read(Buffer.from(await refused.arrayBuffer())), { kind: 'Status', reason: 'UnsupportedMediaType' })
  },
)

void t.test('by default CBOR is not acceptable, as at an API server', async (t) => {
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  for (const path of [PODS, `${PODS}?watch=1`, '/apis']) {
    const refused = await fetch(app.url + path, { headers: { accept: CBOR } })
    t.equal(refused.status, 406, path)
    t.match(await refused.json(), { kind: 'Status', reason: 'NotAcceptable' })
  }
  const other = await fetch(app.url + PODS, { headers: { accept: `${CBOR},application/json;q=0.9` } })
  t.equal(other.headers.get('content-type'), 'application/json')
})

void t.test('no two formats of an answer share an ETag, and the ETag of one never matches another', async (t) => {
  const app = await startApp(t, { flags: ['--serve-cbor'], objects: { 'pods/default/a': pod('a') } })
  const accepts = ['json', 'yaml', 'cbor'].flatMap((form) =>
    ['', 'PartialObjectMetadata'].map((as) => `application/${form}${as === '' ? '' : `;as=${as};v=v1;g=meta.k8s.io`}`),
  )
  const discovery = ';g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
  const ofPaths: [path: string, accepts: readonly string[]][] = [
    [`${PODS}/a`, accepts],
    [PODS, accepts.map((accept) => accept.replace('Metadata;', 'MetadataList;'))],
    ['/apis', ['json', 'yaml', 'cbor'].map((form) => `application/${form}${discovery}`)],
  ]
  for (const [path, forms] of ofPaths) {
    const seen = new Map<string, string>()
    for (const accept of [...forms, ...forms]) {
      const answer = await fetch(app.url + path, { headers: { accept } })
      t.equal(answer.headers.get('content-type')?.split(';')[0], accept.split(';')[0], `${path} ${accept}`)
      const tag = answer.headers.get('etag')!
      t.equal(seen.get(tag) ?? accept, accept, `the tag of ${accept}`)
      seen.set(tag, accept)
    }
    t.equal(seen.size, forms.length, path)
    for (const accept of forms) {
      for (const [tag, of] of seen) {
        const { status } = await fetch(app.url + path, { headers: { accept, 'if-none-match': tag } })
        t.equal(status, of === accept ? 304 : 200, `${accept} with the tag of ${of}`)
      }
    }
  }
})

void t.test('the best of several forms is chosen by their weights', async (t) => {
  const app = await startApp(t, { flags: ['--serve-cbor'], objects: { 'pods/default/a': pod('a') } })
  const table = 'as=Table;v=v1;g=meta.k8s.io'
  const cases: [accept: string, get: string, watch: string][] = [
    ['application/cbor, application/json', 'application/cbor', 'application/cbor-seq'],
    ['application/cbor;q=0.5, application/json', 'application/json', 'application/json'],
    ['application/cbor;q=0, */*', 'application/json', 'application/json'],
    ['application/json;q=0, application/*', 'application/yaml', 'application/vnd.kubernetes.protobuf;stream=watch'],
    [`application/cbor;${table}, application/json;${table};q=0.9`, 'application/json', 'application/json'],
    [`application/cbor;${table}, application/cbor;q=0.9`, 'application/cbor', 'application/cbor-seq'],
    ['application/cbor-seq, application/json;q=0.1', 'application/json', 'application/json'],
  ]
  for (const [accept, get, watch] of cases) {
    const answers = ['/a', '?watch=1&timeoutSeconds=1'].map(async (rest) => {
      const answer = await fetch(app.url + PODS + rest, { headers: { accept } })
      await answer.arrayBuffer()
      return answer.headers.get('content-type')
    })
    t.same(await Promise.all(answers), [get, watch], accept)
  }
})

void t.test('workers serve CBOR as well', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  await writer.put('/registry/pods/default/a', pod('a'))
  const flags = [...only('pods'), '--etcd-servers', etcd.url, '--workers=2', '--serve-cbor']
  const server = await startServer(t, { flags })
  for (const path of [PODS, `${PODS}/a`, `${PODS}?watch=1&timeoutSeconds=1`]) {
    const [json, cbor] = await Promise.all(
      ['application/json', CBOR].map(async (accept) => await fetch(server.url + path, { headers: { accept } })),
    )
    t.match(cbor!.headers.get('content-type'), CBOR)
    t.same(read(Buffer.from(await cbor!.arrayBuffer())), await json!.json(), path)
  }
})
