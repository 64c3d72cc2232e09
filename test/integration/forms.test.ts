/** Which form of an answer a client gets, and that no two forms are mistaken for each other. */
import t from 'tap'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'

const PODS = '/api/v1/namespaces/default/pods'
const CBOR = 'application/cbor'
const PROTOBUF = 'application/vnd.kubernetes.protobuf'

void t.test('CBOR is not acceptable, as at an API server by default', async (t) => {
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
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const types = ['application/json', 'application/yaml', PROTOBUF]
  const accepts = types.flatMap((type) =>
    ['', 'PartialObjectMetadata'].map((as) => `${type}${as === '' ? '' : `;as=${as};v=v1;g=meta.k8s.io`}`),
  )
  const discovery = ';g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
  const ofPaths: [path: string, accepts: readonly string[]][] = [
    [`${PODS}/a`, accepts],
    [PODS, accepts.map((accept) => accept.replace('Metadata;', 'MetadataList;'))],
    ['/apis', types.map((type) => type + discovery)],
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
  const app = await startApp(t, { objects: { 'pods/default/a': pod('a') } })
  const table = 'as=Table;v=v1;g=meta.k8s.io'
  const cases: [accept: string, get: string, watch: string][] = [
    ['application/cbor, application/json', 'application/json', 'application/json'],
    ['application/yaml;q=0.5, application/json', 'application/json', 'application/json'],
    ['application/yaml, application/json;q=0.5', 'application/yaml', 'application/json'],
    ['application/json;q=0, application/*', 'application/yaml', 'application/vnd.kubernetes.protobuf;stream=watch'],
    [`${PROTOBUF};${table}, application/json;${table};q=0.9`, 'application/json', 'application/json'],
    [`${PROTOBUF};${table}, ${PROTOBUF};q=0.9`, PROTOBUF, `${PROTOBUF};stream=watch`],
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
