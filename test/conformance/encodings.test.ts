/** PROTOCOL section 4: encodings. */
import t from 'tap'
import { parse } from 'yaml'
import { decodeObject } from '../../src/kubernetes/codec/protobuf/decode.js'
import { isProtobuf, openEnvelope, rawOf } from '../../src/kubernetes/codec/protobuf/envelope.js'
import { kubernetesSchema } from '../../src/kubernetes/codec/protobuf/schema.js'
import { pod } from '../support/pod.js'
import { apiServer120, apiTestData } from '../support/protobuf-data.js'
import { type Check, type Row, checkRows, status } from './row.js'
import { type Answer, type World, overEveryUpstream } from './world.js'

const PODS = '/api/v1/namespaces/default/pods'
const DEPLOYMENTS = '/apis/apps/v1/namespaces/team-a/deployments'
const PROTOBUF = 'application/vnd.kubernetes.protobuf'
const TABLE = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const PARTIAL = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'
const PARTIAL_LIST = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'

const storedDeployment = apiServer120().stored.find(({ key }) => key === '/registry/deployments/team-a/web')!.value
const CREATED = new Date(Date.now() - 3 * 24 * 3_600_000).toISOString()
const podA = {
  kind: 'Pod',
  apiVersion: 'v1',
  metadata: { name: 'a', namespace: 'default', uid: 'u', labels: { app: 'web' }, creationTimestamp: CREATED },
  spec: { nodeName: 'n1', containers: [{ name: 'c' }] },
  status: { phase: 'Running', podIP: '10.0.0.1' },
}
const SEEDS = [
  { 'pods/default/a': podA },
  { 'pods/default/b': pod('b') },
  { 'deployments/team-a/web': storedDeployment },
]

const isA = (contentType: string): Pick<Row, 'code' | 'sends'> => ({
  code: 200,
  sends: {
    'content-type': new RegExp(`^${contentType.replaceAll(/[.+]/g, '\\$&')}$`),
    'cache-control': 'no-cache, private',
  },
})
const json = isA('application/json')
const yaml = isA('application/yaml')
const protobuf = isA(PROTOBUF)
const notAcceptable = status(
  406,
  'NotAcceptable',
  /^only the following media types are accepted: application\/json, application\/yaml/,
)

const ACCEPT: readonly (readonly [promise: string, accept: string, form: Pick<Row, 'code' | 'sends'>])[] = [
  ['an empty Accept is JSON', '', json],
  ['anything is JSON', '*/*', json],
  ['any application is JSON', 'application/*', json],
  ['JSON', 'application/json', json],
  ['JSON with stream=watch', 'application/json;stream=watch', json],
  ['YAML', 'application/yaml', yaml],
  ['a browser gets JSON', 'text/html,application/xhtml+xml,*/*;q=0.8', json],
  ['the best q wins', 'application/json;q=0.5,application/yaml;q=0.9', yaml],
  ['the first of equals wins', 'application/yaml,application/json', yaml],
  ['a full type before a wildcard', '*/*,application/yaml', yaml],
  ['a clause nobody serves is passed over', 'text/csv,application/yaml', yaml],
  [
    'a Table in protobuf, which nobody has, is passed over',
    `${PROTOBUF};as=Table;v=v1;g=meta.k8s.io,application/yaml`,
    yaml,
  ],
  ['q=0 refuses', 'application/json;q=0,*/*;q=0.1', yaml],
  ['what is not a media range is passed over', 'json,,;q=1,application/yaml', yaml],
]

overEveryUpstream(t, 'the media type that Accept selects', { seeds: SEEDS }, async (t, w) => {
  await checkRows(t, w, [
    ...ACCEPT.map(([promise, accept, form]) => ({ promise, path: `${PODS}/a`, headers: { accept }, ...form })),
    {
      promise: 'YAML has the same content',
      path: PODS,
      headers: { accept: 'application/yaml' },
      ...yaml,
      check: sameAsJson(w, PODS),
    },
    {
      promise: 'YAML of one object',
      path: `${PODS}/a`,
      headers: { accept: 'application/yaml' },
      ...yaml,
      check: sameAsJson(w, `${PODS}/a`),
    },
    ...[
      'text/html',
      'application/xml',
      'image/*',
      `${PROTOBUF};as=Table;v=v1;g=meta.k8s.io`,
      'application/json;as=Nothing;v=v1;g=meta.k8s.io',
      'application/json;as=Table;v=v9;g=meta.k8s.io',
      `${PROTOBUF};as=Table;v=v1;g=meta.k8s.io`,
    ].map((accept) => ({
      promise: `${accept} is 406`,
      path: PODS,
      headers: { accept },
      code: 406,
      ...(accept.startsWith(PROTOBUF) ? {} : { has: notAcceptable }),
    })),
    {
      promise: 'built-in kinds that are stored as JSON come in protobuf',
      path: PODS,
      headers: { accept: PROTOBUF },
      code: 200,
      check: (t, { text }) => t.match(text, /^k8s\0[^]*PodList/),
    },
    {
      promise: 'a watch in YAML is 406',
      path: `${PODS}?watch=1`,
      headers: { accept: 'application/yaml' },
      code: 406,
      check: (t, { text }) =>
        t.match(text, 'only the following media types are accepted: application/json;stream=watch'),
    },
    {
      promise: 'an oversized Accept is 400',
      path: PODS,
      headers: { accept: 'a/b,'.repeat(4_000) },
      code: 400,
      has: status(400, 'BadRequest', /^Accept is \d+ characters long/),
    },
  ])
})

function sameAsJson(w: World, path: string): Check {
  return async (t, { text }) => t.same(parse(text, { maxAliasCount: 0 }), (await w.ask(path)).json)
}

const schema = kubernetesSchema()
const decoded = (bytes: Buffer): unknown => JSON.parse(decodeObject(bytes, schema).bytes.toString())

// Without a cache, a watch from before the first object cannot know that protobuf will follow.
overEveryUpstream(t, 'objects stored as protobuf', { seeds: SEEDS, uncached: false }, async (t, w) => {
  const revision = String(w.seeds.at(-1))
  const { resourceVersion: _, ...metadata } = (await w.ask(`${DEPLOYMENTS}/web`)).json.metadata
  // Our decoder omits the resourceVersion, which is added last; on the wire it is field 6 of the metadata.
  const withoutVersion = { ...(await w.ask(`${DEPLOYMENTS}/web`)).json, metadata }
  const versionField = Buffer.concat([Buffer.from([0x32, revision.length]), Buffer.from(revision)])
  await checkRows(t, w, [
    {
      promise: 'is sent unchanged, with its resourceVersion',
      path: `${DEPLOYMENTS}/web`,
      headers: { accept: PROTOBUF },
      ...protobuf,
      check: (t, { body }) => {
        t.ok(isProtobuf(body))
        t.same(decoded(body), withoutVersion)
        t.ok(body.includes(versionField))
        // Except for the resourceVersion the object is unchanged.
        t.ok(body.length - storedDeployment.length < 20)
      },
    },
    {
      promise: 'with client-go’s Accept header',
      path: `${DEPLOYMENTS}/web`,
      headers: { accept: `${PROTOBUF},application/json` },
      ...protobuf,
    },
    {
      promise: 'JSON for clients that ask for JSON',
      path: `${DEPLOYMENTS}/web`,
      ...json,
      has: { kind: 'Deployment', apiVersion: 'apps/v1', metadata: { name: 'web', resourceVersion: revision } },
    },
    {
      promise: 'a list has its own envelope',
      path: DEPLOYMENTS,
      headers: { accept: PROTOBUF },
      ...protobuf,
      check: (t, { body }) => {
        const envelope = openEnvelope(body)
        t.match(envelope, { apiVersion: 'apps/v1', kind: 'DeploymentList' })
        t.ok(body.includes('web'))
      },
    },
    {
      promise: 'PartialObjectMetadata in protobuf',
      path: `${DEPLOYMENTS}/web`,
      headers: { accept: `${PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io` },
      ...protobuf,
      check: (t, { body }) =>
        t.match(openEnvelope(body), { apiVersion: 'meta.k8s.io/v1', kind: 'PartialObjectMetadata' }),
    },
    {
      promise: 'an error for a protobuf client is a Status in protobuf',
      path: `${DEPLOYMENTS}/nobody`,
      headers: { accept: PROTOBUF },
      code: 404,
      sends: { 'content-type': PROTOBUF },
      check: (t, { body }) => {
        t.match(openEnvelope(body), { apiVersion: 'v1', kind: 'Status' })
        t.ok(body.includes('deployments.apps "nobody" not found'))
      },
    },
    {
      promise: 'a Table of it is JSON',
      path: DEPLOYMENTS,
      headers: { accept: `${PROTOBUF};as=Table;v=v1;g=meta.k8s.io,${TABLE}` },
      ...json,
      has: { kind: 'Table' },
    },
    {
      promise: 'selectors see into it',
      path: '/apis/apps/v1/deployments?fieldSelector=metadata.name%3Dweb',
      ...json,
      names: ['web'],
    },
  ])
  await t.test('a watch in protobuf sends frames of length and WatchEvent around enveloped objects', async (t) => {
    const answer = await w.ask(`${DEPLOYMENTS}?watch=1&timeoutSeconds=1&resourceVersion=${Number(revision) - 1}`, {
      headers: { accept: `${PROTOBUF};stream=watch` },
    })
    t.match(answer.headers['content-type'], `${PROTOBUF};stream=watch`)
    const length = answer.body.readUInt32BE(0)
    t.equal(answer.body.length, length + 4, 'one frame')
    const event = answer.body.subarray(4)
    t.notOk(isProtobuf(event), 'a WatchEvent has no magic')
    t.same(event.subarray(0, 7), Buffer.concat([Buffer.from([0x0a, 5]), Buffer.from('ADDED')]), 'type')
    const at = event.indexOf('k8s\0')
    t.same(decoded(event.subarray(at)), withoutVersion)
    t.ok(event.includes(versionField))
  })
  await t.test('an expired watch in protobuf ends with a Status in protobuf', async (t) => {
    const far = await w.ask(
      `${DEPLOYMENTS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999`,
      { headers: { accept: `${PROTOBUF};stream=watch` } },
    )
    t.equal(far.code, 200)
    t.ok(far.body.includes('ERROR'))
    t.ok(far.body.includes('Too large resource version'))
    t.equal(far.body.readUInt32BE(0) + 4, far.body.length)
  })
})

overEveryUpstream(
  t,
  'protobuf of an unknown kind',
  {
    flags: ['--resource', 'secrets'],
    seeds: [{ 'configmaps/default/odd': renamedKind() }],
  },
  async (t, w) => {
    await checkRows(t, w, [
      {
        promise: 'as JSON it is 406, with the types that work',
        path: '/api/v1/namespaces/default/configmaps',
        code: 406,
        has: status(406, 'NotAcceptable', /stored as protobuf \(Oddity of example\.com\/v1\).*--proto-descriptors/),
      },
      {
        promise: 'a Table of it is 406',
        path: '/api/v1/namespaces/default/configmaps',
        headers: { accept: TABLE },
        code: 406,
      },
      { promise: 'a watch of it is 406', path: '/api/v1/namespaces/default/configmaps?watch=1', code: 406 },
    ])
  },
)

/** A ConfigMap's bytes under a kind that has no schema here. */
function renamedKind(): Buffer {
  const { protobuf: stored } = apiTestData('head').find(({ name }) => name === 'core.v1.ConfigMap')!
  const field = (number: number, bytes: Buffer): Buffer => {
    const head = bytes.length < 128 ? [bytes.length] : [(bytes.length & 127) | 128, bytes.length >> 7]
    return Buffer.concat([Buffer.from([(number << 3) | 2, ...head]), bytes])
  }
  const type = Buffer.concat([field(1, Buffer.from('example.com/v1')), field(2, Buffer.from('Oddity'))])
  const raw = rawOf(openEnvelope(stored))
  return Buffer.concat([Buffer.from('k8s\0'), field(1, type), field(2, raw)])
}

interface Table {
  readonly columnDefinitions: readonly { readonly name: string }[]
  readonly rows: readonly { readonly cells: readonly unknown[]; readonly object?: { readonly kind: string } }[]
}
const table = (answer: Answer): Table => answer.json as unknown as Table

overEveryUpstream(t, 'Table and PartialObjectMetadata', { seeds: SEEDS }, async (t, w) => {
  const rowOf = (include: string, object: object | null): Row => ({
    promise: `includeObject=${include}`,
    path: `${PODS}?includeObject=${include}`,
    headers: { accept: TABLE },
    ...json,
    check: (t, answer) => {
      const [first] = table(answer).rows
      if (object === null) t.notOk(first?.object)
      else t.match(first?.object, object)
    },
  })
  const partial = {
    kind: 'PartialObjectMetadata',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { name: 'a', labels: { app: 'web' }, resourceVersion: String(w.seeds[0]) },
  }
  await checkRows(t, w, [
    {
      promise: 'a Table has the columns of kubectl get, and rows with metadata',
      path: PODS,
      headers: { accept: `${TABLE},application/json` },
      ...json,
      has: { kind: 'Table', apiVersion: 'meta.k8s.io/v1', metadata: { resourceVersion: String } },
      check: (t, answer) => {
        const { columnDefinitions, rows } = table(answer)
        t.same(
          columnDefinitions.slice(0, 5).map(({ name }) => name),
          ['Name', 'Ready', 'Status', 'Restarts', 'Age'],
        )
        t.same(rows[0]?.cells.slice(0, 5), ['a', '0/1', 'Running', '0', '3d'])
        t.match(rows[0]?.object, partial)
        t.notOk('spec' in (rows[0]?.object ?? {}))
      },
    },
    {
      promise: 'one object as a Table',
      path: `${PODS}/a`,
      headers: { accept: TABLE },
      ...json,
      has: { kind: 'Table', rows: [{ cells: ['a'] }] },
    },
    {
      promise: 'a Table in YAML',
      path: PODS,
      headers: { accept: 'application/yaml;as=Table;v=v1;g=meta.k8s.io' },
      ...yaml,
      check: (t, { text }) => t.match(parse(text), { kind: 'Table' }),
    },
    rowOf('None', null),
    rowOf('Metadata', partial),
    rowOf('Object', { kind: 'Pod', spec: { nodeName: 'n1' } }),
    {
      promise: 'an unknown includeObject is 400 for a Table',
      path: `${PODS}?includeObject=All`,
      headers: { accept: TABLE },
      code: 400,
      has: status(
        400,
        'BadRequest',
        `Unable to convert to Table as requested: includeObject: Invalid value: "All": must be 'Metadata', 'Object', 'None', or empty`,
      ),
    },
    {
      promise: 'a page of a Table has a continue token',
      path: `${PODS}?limit=1`,
      headers: { accept: TABLE },
      ...json,
      has: { kind: 'Table', metadata: { continue: String, remainingItemCount: 1 } },
    },
    {
      promise: 'PartialObjectMetadata of one object',
      path: `${PODS}/a`,
      headers: { accept: PARTIAL },
      ...json,
      has: partial,
      check: (t, { json }) => t.same(Object.keys(json).sort(), ['apiVersion', 'kind', 'metadata']),
    },
    {
      promise: 'PartialObjectMetadataList of a list',
      path: PODS,
      headers: { accept: PARTIAL_LIST },
      ...json,
      has: { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1', items: [{ metadata: { name: 'a' } }] },
      names: ['a', 'b'],
    },
    {
      promise: 'for a list, PartialObjectMetadata falls through to the next clause',
      path: PODS,
      headers: { accept: `${PARTIAL},application/json` },
      ...json,
      has: { kind: 'PodList' },
    },
    {
      promise: 'a Status is never transformed',
      path: `${PODS}/nobody`,
      headers: { accept: TABLE },
      code: 404,
      has: status(404, 'NotFound', 'pods "nobody" not found'),
    },
    {
      promise: 'an error in YAML',
      path: `${PODS}/nobody`,
      headers: { accept: 'application/yaml' },
      code: 404,
      sends: { 'content-type': 'application/yaml' },
      check: (t, { text }) => t.match(parse(text), status(404, 'NotFound', 'pods "nobody" not found')),
    },
  ])

  const before = table(await w.ask(PODS, { headers: { accept: TABLE } })).rows[1]?.cells[4]
  t.equal(before, '<unknown>', 'what has no creation time has no age')

  await t.test('only the first event of a watch has the columns', async (t) => {
    const watch = await w.watch(`${PODS}?watch=1`, { accept: TABLE })
    await watch.events.first(2)
    await w.write({ 'pods/default/c': pod('c') })
    const objects = (await watch.events.first(3)).map(({ object }) => object as unknown as Table & { kind: string })
    t.ok(objects[0]!.columnDefinitions.length >= 5)
    for (const object of objects) t.equal(object.kind, 'Table')
    for (const { columnDefinitions } of objects.slice(1)) t.notOk(columnDefinitions?.length)
    t.match(objects[2], { rows: [{ cells: ['c'], object: { kind: 'PartialObjectMetadata' } }] })
    watch.close()
  })
  await t.test('a watch sends PartialObjectMetadata when asked to', async (t) => {
    const watch = await w.watch(`${PODS}?watch=1&allowWatchBookmarks=true`, { accept: PARTIAL })
    const events = await watch.events.first(4)
    t.match(events[0], { type: 'ADDED', object: partial })
    t.notOk('spec' in events[0]!.object)
    t.match(events[3], { type: 'BOOKMARK', object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1' } })
    watch.close()
  })
  await t.test('ages grow without writes', async (t) => {
    const young = {
      ...podA,
      metadata: { ...podA.metadata, name: 'young', creationTimestamp: new Date(Date.now() - 1_000).toISOString() },
    }
    await w.write({ 'pods/default/young': young })
    const ageOf = async (): Promise<unknown> => {
      const { rows } = table(await w.ask(`${PODS}?fieldSelector=metadata.name%3Dyoung`, { headers: { accept: TABLE } }))
      return rows[0]?.cells[4]
    }
    const first = await ageOf()
    const end = performance.now() + 5_000
    let age = first
    while (age === first && performance.now() < end) age = await ageOf()
    t.not(age, first)
  })
})
