/** Tests every verb and its errors, as clients see them, over the in-process store and over a real etcd. */
import t, { type Test } from 'tap'
import { silentLogger } from '../../../src/support/log.js'
import { connectEtcd } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import { startApp } from '../../support/app.js'
import { definitionObject } from '../../support/definition.js'
import { startEtcd } from '../../support/etcd-process.js'
import { until } from '../../support/until.js'
import {
  APPLY,
  type Answer,
  clientOf,
  CONFIG_MAPS,
  configMap,
  eventsOf,
  JSON_PATCH,
  MERGE,
  type Send,
  STRATEGIC,
  type WatchedEvent,
} from './client.js'

interface World {
  readonly send: Send
  readonly url: string
}

type Row = readonly [
  promise: string,
  code: number,
  reason: string | RegExp,
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
]

const one = (name: string): string => `${CONFIG_MAPS}/${name}`

/** The object `there` exists; the rows are independent. */
const REFUSED: readonly Row[] = [
  ['a name that is taken', 409, 'AlreadyExists', 'POST', CONFIG_MAPS, configMap('there')],
  ['no name', 422, 'Invalid', 'POST', CONFIG_MAPS, { metadata: {} }],
  ['a namespace that is not there', 404, 'NotFound', 'POST', '/api/v1/namespaces/nowhere/configmaps', configMap('a')],
  ['the name in the path of a create', 405, 'MethodNotAllowed', 'POST', one('there'), configMap('there')],
  [
    'a create with a resourceVersion',
    400,
    'BadRequest',
    'POST',
    CONFIG_MAPS,
    configMap('a', {}, { resourceVersion: '1' }),
  ],
  ['another namespace than the path', 400, 'BadRequest', 'POST', CONFIG_MAPS, configMap('a', {}, { namespace: 'b' })],
  ['another kind than the path', 400, 'BadRequest', 'POST', CONFIG_MAPS, { kind: 'Pod', metadata: { name: 'a' } }],
  [
    'another version than the path',
    400,
    'BadRequest',
    'POST',
    CONFIG_MAPS,
    { apiVersion: 'v2', metadata: { name: 'a' } },
  ],
  ['a body that is no JSON', 400, 'BadRequest', 'POST', CONFIG_MAPS, '{'],
  ['a body that is not an object', 400, 'BadRequest', 'POST', CONFIG_MAPS, '[]'],
  ['metadata that is not an object', 400, 'BadRequest', 'POST', CONFIG_MAPS, { metadata: 'x' }],
  ['no body', 400, 'BadRequest', 'POST', CONFIG_MAPS, ''],
  [
    'a body that says it is protobuf',
    415,
    'UnsupportedMediaType',
    'POST',
    CONFIG_MAPS,
    'k8s',
    { 'content-type': 'application/vnd.kubernetes.protobuf' },
  ],
  ['a compressed body', 415, 'UnsupportedMediaType', 'POST', CONFIG_MAPS, 'x', { 'content-encoding': 'gzip' }],
  [
    'a body above 3 MiB',
    413,
    'RequestEntityTooLarge',
    'POST',
    CONFIG_MAPS,
    configMap('a', { x: 'x'.repeat(3 * 1024 * 1024) }),
  ],
  [
    'an object above what etcd takes',
    413,
    'RequestEntityTooLarge',
    'POST',
    '/api/v1/namespaces/default/events',
    { metadata: { name: 'a' }, message: 'x'.repeat(1.6 * 1024 * 1024) },
  ],
  ['a ConfigMap above 1 MiB', 422, 'Invalid', 'POST', CONFIG_MAPS, configMap('a', { x: 'x'.repeat(1024 * 1024 + 1) })],
  ['an answer nobody can give', 406, 'NotAcceptable', 'POST', CONFIG_MAPS, configMap('a'), { accept: 'image/png' }],
  [
    'a page of another origin',
    403,
    'Forbidden',
    'POST',
    CONFIG_MAPS,
    configMap('a'),
    { origin: 'https://elsewhere.example' },
  ],
  [
    'an unknown field, strictly',
    400,
    /strict decoding error: unknown field "spice"/,
    'POST',
    `${CONFIG_MAPS}?fieldValidation=Strict`,
    { metadata: { name: 'a' }, spice: 1 },
  ],
  [
    'a field given twice, strictly',
    400,
    /duplicate field "data.k"/,
    'POST',
    `${CONFIG_MAPS}?fieldValidation=Strict`,
    '{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}',
  ],
  ['a dryRun that is not All', 422, 'Invalid', 'POST', `${CONFIG_MAPS}?dryRun=Some`, configMap('a')],
  [
    'a fieldManager above 128 bytes',
    422,
    'Invalid',
    'POST',
    `${CONFIG_MAPS}?fieldManager=${'m'.repeat(129)}`,
    configMap('a'),
  ],
  ['a time to live that is none', 422, 'Invalid', 'POST', `${CONFIG_MAPS}?ttl=soon`, configMap('a')],
  [
    'an invalid time to live in an annotation',
    422,
    'Invalid',
    'POST',
    CONFIG_MAPS,
    configMap('a', {}, { annotations: { 'distributary.io/ttl': '-1' } }),
  ],
  ['an unknown subresource', 404, 'NotFound', 'PUT', `${one('there')}/log`, {}],
  ['a status where there is none', 404, 'NotFound', 'PUT', `${one('there')}/status`, {}],
  ['an update of what is not there', 404, 'NotFound', 'PUT', one('gone'), configMap('gone')],
  ['an update of a collection', 405, 'MethodNotAllowed', 'PUT', CONFIG_MAPS, configMap('a')],
  [
    'an update with an old resourceVersion',
    409,
    'Conflict',
    'PUT',
    one('there'),
    configMap('there', {}, { resourceVersion: '1' }),
  ],
  ['an update of another name', 400, 'BadRequest', 'PUT', one('there'), configMap('other')],
  ['an update of another uid', 409, 'Conflict', 'PUT', one('there'), configMap('there', {}, { uid: 'other' })],
  ['a patch of what is not there', 404, 'NotFound', 'PATCH', one('gone'), {}, MERGE],
  ['a patch of a collection', 405, 'MethodNotAllowed', 'PATCH', CONFIG_MAPS, {}, MERGE],
  ['a patch in no known form', 415, 'UnsupportedMediaType', 'PATCH', one('there'), {}],
  ...['', ' '].map((type): Row => [
    'a patch with an empty type',
    415,
    'UnsupportedMediaType',
    'PATCH',
    one('there'),
    [],
    { 'content-type': type },
  ]),
  ['a patch of the name', 400, 'BadRequest', 'PATCH', one('there'), { metadata: { name: 'other' } }, MERGE],
  ['a patch of the uid', 422, 'Invalid', 'PATCH', one('there'), { metadata: { uid: 'other' } }, MERGE],
  [
    'a patch with an old resourceVersion',
    409,
    'Conflict',
    'PATCH',
    one('there'),
    { metadata: { resourceVersion: '1' } },
    MERGE,
  ],
  ['a JSON patch that is not an array', 400, 'BadRequest', 'PATCH', one('there'), {}, JSON_PATCH],
  [
    'a JSON patch whose test fails',
    422,
    'Invalid',
    'PATCH',
    one('there'),
    [{ op: 'test', path: '/data/k', value: 'no' }],
    JSON_PATCH,
  ],
  [
    'a JSON patch of a path that is not there',
    422,
    'Invalid',
    'PATCH',
    one('there'),
    [{ op: 'remove', path: '/data/none' }],
    JSON_PATCH,
  ],
  [
    'a JSON patch of an unknown operation',
    422,
    'Invalid',
    'PATCH',
    one('there'),
    [{ op: 'mend', path: '/data' }],
    JSON_PATCH,
  ],
  [
    'a JSON patch that leaves no object',
    422,
    'Invalid',
    'PATCH',
    one('there'),
    [{ op: 'replace', path: '', value: 1 }],
    JSON_PATCH,
  ],
  [
    'a strategic patch without its merge key',
    400,
    'BadRequest',
    'PATCH',
    '/api/v1/namespaces/default/pods/web',
    { spec: { containers: [{ image: 'x' }] } },
    STRATEGIC,
  ],
  ['force where nothing is applied', 422, 'Invalid', 'PATCH', `${one('there')}?force=true`, {}, MERGE],
  [
    'an apply by nobody',
    422,
    /fieldManager: Required value/,
    'PATCH',
    one('there'),
    'apiVersion: v1\nkind: ConfigMap\n',
    APPLY,
  ],
  ['an apply without a kind', 400, 'BadRequest', 'PATCH', `${one('there')}?fieldManager=m`, 'apiVersion: v1\n', APPLY],
  [
    'an apply with managed fields',
    400,
    'BadRequest',
    'PATCH',
    `${one('there')}?fieldManager=m`,
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { managedFields: [] } },
    APPLY,
  ],
  [
    'an apply over another manager',
    409,
    /conflict with "setup" using v1.*: \.data\.k/,
    'PATCH',
    `${one('there')}?fieldManager=m`,
    { ...configMap('there', { k: 'mine' }) },
    APPLY,
  ],
  ['YAML that is none', 400, 'BadRequest', 'PATCH', `${one('there')}?fieldManager=m`, 'a: [', APPLY],
  ['a delete of what is not there', 404, 'NotFound', 'DELETE', one('gone')],
  ['a delete of another uid', 409, 'Conflict', 'DELETE', one('there'), { preconditions: { uid: 'other' } }],
  ['a delete of another version', 409, 'Conflict', 'DELETE', one('there'), { preconditions: { resourceVersion: '1' } }],
  ['a delete with a policy that is none', 422, 'Invalid', 'DELETE', `${one('there')}?propagationPolicy=Maybe`],
  ['a delete with a body that is something else', 400, 'BadRequest', 'DELETE', one('there'), configMap('there')],
  ['a delete with a dry run that is not a list', 400, 'BadRequest', 'DELETE', one('there'), { dryRun: 'All' }],
  ['a delete of a uid that is not text', 400, 'BadRequest', 'DELETE', one('there'), { preconditions: { uid: 1 } }],
  ['a delete of another uid in the query', 409, 'Conflict', 'DELETE', `${one('there')}?uid=other`],
  ['a delete of another version in the query', 409, 'Conflict', 'DELETE', `${one('there')}?resourceVersion=1`],
  ['a delete of a collection of another uid', 409, 'Conflict', 'DELETE', `${CONFIG_MAPS}?uid=other`],
  ['a delete with options whose kind is not text', 400, 'BadRequest', 'DELETE', one('there'), { kind: 1 }],
  ['a delete with a text as preconditions', 400, 'BadRequest', 'DELETE', one('there'), { preconditions: 'uid' }],
  [
    'an eviction with a dry run that is not a list',
    400,
    'BadRequest',
    'POST',
    '/api/v1/namespaces/default/pods/web/eviction',
    { metadata: { name: 'web' }, deleteOptions: { dryRun: 'All' } },
  ],
  ['a delete of a collection of which limit', 400, 'BadRequest', 'DELETE', `${CONFIG_MAPS}?limit=x`],
  ['a delete of a collection from where', 400, 'BadRequest', 'DELETE', `${CONFIG_MAPS}?continue=x`],
  [
    'a delete of a collection at exactly which revision',
    422,
    'Invalid',
    'DELETE',
    `${CONFIG_MAPS}?resourceVersionMatch=Exact`,
  ],
  [
    'a delete of a collection that is older than asked',
    504,
    'Timeout',
    'DELETE',
    `${CONFIG_MAPS}?resourceVersion=1000000&resourceVersionMatch=NotOlderThan`,
  ],
  [
    'a delete of a collection at a revision of the future',
    504,
    'Timeout',
    'DELETE',
    `${CONFIG_MAPS}?resourceVersion=1000000&resourceVersionMatch=Exact`,
  ],
  ['a delete of the namespace default', 403, 'Forbidden', 'DELETE', '/api/v1/namespaces/default'],
  ['a delete of the namespace kube-system', 403, 'Forbidden', 'DELETE', '/api/v1/namespaces/kube-system'],
  ['a delete of all namespaces', 405, 'MethodNotAllowed', 'DELETE', '/api/v1/namespaces'],
  ['a delete of a collection in every namespace', 405, 'MethodNotAllowed', 'DELETE', '/api/v1/configmaps'],
  [
    'a create outside the namespaces',
    405,
    'MethodNotAllowed',
    'POST',
    '/api/v1/configmaps',
    configMap('a', {}, { namespace: 'default' }),
  ],
  ['a resource that is not served', 404, 'NotFound', 'POST', '/api/v1/namespaces/default/bindings', {}],
  [
    'a scale below zero',
    422,
    'Invalid',
    'PUT',
    '/apis/apps/v1/namespaces/default/deployments/web/scale',
    { metadata: { name: 'web' }, spec: { replicas: -1 } },
  ],
  [
    'a scale that is not a number',
    422,
    'Invalid',
    'PATCH',
    '/apis/apps/v1/namespaces/default/deployments/web/scale',
    { spec: { replicas: 'x' } },
    MERGE,
  ],
  ['a name that is none', 422, 'Invalid', 'POST', CONFIG_MAPS, configMap('Not_A_Name')],
  [
    'a service named like no DNS label',
    422,
    'Invalid',
    'POST',
    '/api/v1/namespaces/default/services',
    { metadata: { name: '1a' } },
  ],
  ['a slash in a name, which is one of the path', 404, 'NotFound', 'PUT', `${CONFIG_MAPS}/a%2Fb`, configMap('a/b')],
]

/** Each wrong field has its own cause. */
const CAUSES: readonly (readonly [object: object, fields: readonly string[]])[] = [
  [{ metadata: { name: 'a', labels: { 'x y': 'v' } } }, ['metadata.labels']],
  [{ metadata: { name: 'a', labels: { x: 'a b', y: 'v'.repeat(64) } } }, ['metadata.labels', 'metadata.labels']],
  [{ metadata: { name: 'a', annotations: { 'a/b/c': 'v' } } }, ['metadata.annotations']],
  [{ metadata: { name: 'a', annotations: { x: 'v'.repeat(256 * 1024) } } }, ['metadata.annotations']],
  [{ metadata: { name: 'x'.repeat(254) } }, ['metadata.name']],
  [
    { metadata: { name: 'a', finalizers: ['x/y', 'x/y', 'no good'] } },
    ['metadata.finalizers', 'metadata.finalizers[2]'],
  ],
  [
    { metadata: { name: 'A', ownerReferences: [{ name: 'o', kind: 'Pod', uid: 'u' }] } },
    ['metadata.name', 'metadata.ownerReferences[0].apiVersion'],
  ],
]

const upstreams: readonly (readonly [name: string, start: (t: Test) => Promise<World>])[] = [
  [
    'the in-process store',
    async (t) => {
      const h = await startApp(t, { flags: ['--enable-writes'] })
      return { send: clientOf(h.url), url: h.url }
    },
  ],
  [
    'a real etcd',
    async (t) => {
      const etcd = await startEtcd(t)
      const upstream = connectEtcd({ endpoints: [etcd.url], logger: silentLogger })
      const h = await startApp(t, { upstream, flags: ['--enable-writes'] })
      return { send: clientOf(h.url), url: h.url }
    },
  ],
]

for (const [name, start] of upstreams) {
  void t.test(`over ${name}`, async (t) => {
    const { send, url } = await start(t)
    await setUp(send)
    await t.test('wrong requests are rejected', async (t) => {
      for (const [promise, code, reason, method, path, body, headers] of REFUSED) {
        const answer = await send(method, path, body, headers)
        t.equal(answer.code, code, `${promise}: ${answer.text.slice(0, 300)}`)
        t.match(answer.body, { kind: 'Status', status: 'Failure', code }, promise)
        if (typeof reason === 'string') t.equal(answer.body.reason, reason, promise)
        else t.match(answer.body.message, reason, promise)
      }
      const there = await send('GET', one('there'))
      t.match(there.body, { data: { k: 'v' } }, 'nothing that was refused has changed anything')
    })
    await t.test('a 422 has a cause for every field', async (t) => {
      for (const [object, fields] of CAUSES) {
        const { code, body, text } = await send('POST', CONFIG_MAPS, object)
        t.equal(code, 422, text.slice(0, 300))
        const { details } = body as { details: { causes: { field: string; reason: string; message: string }[] } }
        t.same(
          details.causes.map(({ field }) => field),
          fields,
        )
        for (const cause of details.causes) t.ok(cause.reason !== '' && cause.message !== '')
      }
    })
    await createsAndUpdates(t, send)
    await patches(t, send)
    await deletes(t, send)
    await changedDefinition(t, send)
    await deletedDefinition(t, send)
    await keyedList(t, send)
    await subresources(t, send)
    await metadataOfStatus(t, send)
    await watched(t, send, url)
  })
}

async function setUp(send: Send): Promise<void> {
  await send('POST', `${CONFIG_MAPS}?fieldManager=setup`, configMap('there', { k: 'v' }))
  await send('POST', '/api/v1/namespaces/default/pods', {
    metadata: { name: 'web' },
    spec: { containers: [{ name: 'a', image: 'a:1' }] },
  })
  await send('POST', '/apis/apps/v1/namespaces/default/deployments', {
    metadata: { name: 'web' },
    spec: { replicas: 2, selector: { matchLabels: { app: 'web' } } },
  })
}

async function createsAndUpdates(t: Test, send: Send): Promise<void> {
  await t.test('a create stores the object', async (t) => {
    const { code, body } = await send('POST', CONFIG_MAPS, {
      metadata: { name: 'new', uid: 'mine', creationTimestamp: '2000-01-01T00:00:00Z', generation: 9 },
      data: { a: '1' },
    })
    t.equal(code, 201)
    t.match(body, {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { name: 'new', namespace: 'default' },
    })
    t.notOk('generation' in (body.metadata ?? {}), 'as in the API server, which counts none of this kind')
    t.match(body.metadata?.uid, /^[0-9a-f]{8}-[0-9a-f]{4}-4/)
    t.match(body.metadata?.['creationTimestamp'], /^20[2-9]\d-.*:\d\dZ$/)
    t.match(body.metadata?.resourceVersion, /^\d+$/)
    t.same((await send('GET', one('new'))).body, body, 'a consistent read has what was answered')

    const generated = await send('POST', CONFIG_MAPS, { metadata: { generateName: 'some-' } })
    t.match(generated.body.metadata?.['name'], /^some-[a-z0-9]{5}$/)

    const dry = await send('POST', `${CONFIG_MAPS}?dryRun=All`, configMap('dry'))
    t.equal(dry.code, 201)
    t.equal(dry.body.metadata?.resourceVersion, undefined)
    t.equal((await send('GET', one('dry'))).code, 404, 'a dry run writes nothing')
    const elsewhere = '/api/v1/namespaces/kube-public'
    t.equal((await send('POST', `${elsewhere}/configmaps?dryRun=All`, configMap('dry'))).code, 201)
    t.equal((await send('GET', elsewhere)).code, 404, 'not even the namespace that a create would make')

    const yaml = await send('POST', CONFIG_MAPS, 'metadata: {name: in-yaml}\ndata: {a: "1"}\n', {
      'content-type': 'application/yaml',
      accept: 'application/yaml',
    })
    t.equal(yaml.code, 201)
    t.match(yaml.text, /^ {2}name: in-yaml$/m)

    const warned = await send('POST', CONFIG_MAPS, { metadata: { name: 'warned' }, spice: 1 })
    t.match(warned.headers.get('warning'), /^299 - "unknown field \\"spice\\""$/)
    t.equal(warned.body['spice'], undefined, 'what the kind does not have is dropped')
    const table = await send('POST', CONFIG_MAPS, configMap('in-a-table'), {
      accept: 'application/json;as=Table;v=v1;g=meta.k8s.io',
    })
    t.match(table.body, { kind: 'Table', rows: [{ cells: ['in-a-table'] }] })
  })

  await t.test('the generation of a kind that has one counts changes of the spec', async (t) => {
    const path = '/apis/apps/v1/namespaces/default/deployments'
    const spec = { replicas: 1, selector: { matchLabels: { app: 'counted' } } }
    const { body: first } = await send('POST', path, { metadata: { name: 'counted' }, spec })
    t.match(first.metadata, { generation: 1 })
    const labelled = { metadata: { name: 'counted', labels: { a: 'b' } }, spec }
    t.match((await send('PUT', `${path}/counted`, labelled)).body.metadata, { generation: 1 })
    const scaled = { ...labelled, spec: { ...spec, replicas: 2 } }
    t.match((await send('PUT', `${path}/counted`, scaled)).body.metadata, { generation: 2 })
  })

  await t.test('an update replaces the object', async (t) => {
    const { body: first } = await send('POST', CONFIG_MAPS, configMap('up', { n: '1' }))
    const metadata = { resourceVersion: first.metadata?.resourceVersion }
    const { code, body: second } = await send('PUT', one('up'), configMap('up', { n: '2' }, metadata))
    t.equal(code, 200)
    t.match(second, { data: { n: '2' }, metadata: { uid: first.metadata?.uid } })
    t.ok(Number(second.metadata?.resourceVersion) > Number(first.metadata?.resourceVersion))
    t.equal((await send('PUT', one('up'), configMap('up', { n: '3' }, metadata))).code, 409, 'the version has moved on')
    t.equal((await send('PUT', one('up'), configMap('up', { n: '3' }))).code, 200, 'no version: unconditional')
    const { body: third } = await send('GET', one('up'))
    const { body: same } = await send('PUT', one('up'), configMap('up', { n: '3' }))
    t.equal(same.metadata?.resourceVersion, third.metadata?.resourceVersion, 'what changes nothing writes nothing')

    const lease = '/apis/coordination.k8s.io/v1/namespaces/default/leases/leader'
    const made = await send('PUT', lease, { metadata: { name: 'leader' }, spec: { holderIdentity: 'a' } })
    t.equal(made.code, 201, 'a PUT makes a Lease, as in Kubernetes')
    const next = (resourceVersion?: string): object => ({ metadata: { name: 'leader', resourceVersion }, spec: {} })
    t.equal((await send('PUT', lease, next())).code, 422, 'the next one names the version that it replaces')
    t.equal((await send('PUT', lease, next(made.body.metadata?.resourceVersion))).code, 200)

    await send('POST', CONFIG_MAPS, { ...configMap('fixed', { a: '1' }), immutable: true })
    const refused = await send('PATCH', one('fixed'), { data: { a: '2' } }, MERGE)
    t.match(refused.body, { code: 422, details: { causes: [{ field: 'data', reason: 'FieldValueForbidden' }] } })
  })
}

async function patches(t: Test, send: Send): Promise<void> {
  await t.test('patches keep numbers', async (t) => {
    const path = '/apis/apps/v1/namespaces/default/deployments'
    // Annotations are text; a number of 19 digits must stay a number.
    const object =
      '{"metadata":{"name":"numbers"},"spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"a",' +
      '"securityContext":{"runAsUser":9223372036854775807}}],"terminationGracePeriodSeconds":9007199254740993}}}}'
    t.equal((await send('POST', path, object)).code, 201)
    for (const [patch, headers] of [
      [{ metadata: { labels: { a: '1' } } }, MERGE],
      [[{ op: 'add', path: '/metadata/labels/b', value: '2' }], JSON_PATCH],
      [{ metadata: { labels: { c: '3' } } }, STRATEGIC],
      [{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { labels: { d: '4' } } }, APPLY],
    ] as const) {
      const { code, text } = await send('PATCH', `${path}/numbers?fieldManager=m`, patch, headers)
      t.equal(code, 200, text)
      t.match(text, /"runAsUser":9223372036854775807\b/)
      t.match(text, /"terminationGracePeriodSeconds":9007199254740993\b/)
    }
    const moved = [
      {
        op: 'copy',
        from: '/spec/template/spec/terminationGracePeriodSeconds',
        path: '/spec/template/spec/activeDeadlineSeconds',
      },
    ]
    t.match(
      (await send('PATCH', `${path}/numbers`, moved, JSON_PATCH)).text,
      /"activeDeadlineSeconds":9007199254740993\b/,
    )
  })

  await t.test('an apply merges and owns fields', async (t) => {
    const apply = (manager: string, data: Readonly<Record<string, string>>, query = ''): Promise<Answer> =>
      send('PATCH', `${one('applied')}?fieldManager=${manager}${query}`, configMap('applied', data), APPLY)
    t.equal((await apply('one', { a: '1', b: '1' })).code, 201, 'an apply makes what is not there')
    t.match((await apply('one', { a: '2', b: '1' })).body, { data: { a: '2', b: '1' } })
    const conflict = await apply('two', { a: '3', c: '3' })
    t.match(conflict.body, {
      code: 409,
      reason: 'Conflict',
      details: {
        causes: [{ reason: 'FieldManagerConflict', message: 'conflict with "one"', field: '.data.a' }],
      },
    })
    t.match((await apply('two', { a: '3', c: '3' }, '&force=true')).body, { data: { a: '3', b: '1', c: '3' } })
    const rest = await apply('one', { b: '1' })
    t.same(rest.body['data'], { a: '3', b: '1', c: '3' }, 'what another owns now stays')
    t.same((await apply('two', {})).body['data'], { b: '1' }, 'what is applied no longer goes')
    const before = await send('GET', one('applied'))
    const again = await apply('one', { b: '1' })
    t.same(again.body, before.body, 'the same again writes nothing')
  })
}

async function deletes(t: Test, send: Send): Promise<void> {
  await t.test('a manager moves from client-side to server-side apply', async (t) => {
    const [client, server] = ['kubectl-client-side-apply', 'kubectl']
    await send('POST', `${CONFIG_MAPS}?fieldManager=${client}`, configMap('moved', { a: '1', b: '1' }))
    const { metadata } = (await send('GET', one('moved'))).body
    const entries = metadata?.['managedFields'] as readonly object[]
    const own = entries.map((entry) => ({ ...entry, manager: server, operation: 'Apply' }))
    const { code, body } = await send(
      'PATCH',
      one('moved'),
      [
        { op: 'replace', path: '/metadata/managedFields', value: own },
        { op: 'replace', path: '/metadata/resourceVersion', value: metadata?.resourceVersion },
      ],
      JSON_PATCH,
    )
    t.equal(code, 200)
    t.same(body.metadata?.['managedFields'], own)
    t.not(body.metadata?.resourceVersion, metadata?.resourceVersion)
    const applied = { apiVersion: 'v1', ...configMap('moved', { a: '1' }) }
    const after = await send('PATCH', `${one('moved')}?fieldManager=${server}`, applied, APPLY)
    t.match(after.body, { data: { b: undefined } }, 'a field that is no longer applied is removed')
    const unnamed = own.map((entry) => ({ ...entry, manager: 'x'.repeat(129) }))
    t.match((await send('PATCH', one('moved'), { metadata: { managedFields: unnamed } }, MERGE)).body, {
      code: 422,
      details: { causes: [{ field: 'metadata.managedFields[0].manager' }] },
    })
  })

  await t.test('a delete removes the object or marks it', async (t) => {
    const { body: made } = await send('POST', CONFIG_MAPS, configMap('victim'))
    const { code, body } = await send('DELETE', one('victim'), {
      kind: 'DeleteOptions',
      apiVersion: 'v1',
      preconditions: { uid: made.metadata?.uid, resourceVersion: made.metadata?.resourceVersion },
      gracePeriodSeconds: 30,
      propagationPolicy: 'Foreground',
    })
    t.equal(code, 200)
    t.match(body, {
      kind: 'Status',
      status: 'Success',
      details: { name: 'victim', kind: 'configmaps', uid: made.metadata?.uid },
    })
    t.equal((await send('GET', one('victim'))).code, 404)

    await send('POST', CONFIG_MAPS, configMap('held', {}, { finalizers: ['example.com/a', 'example.com/b'] }))
    const marked = await send('DELETE', one('held'))
    t.match(marked.body, { kind: 'ConfigMap', metadata: { deletionGracePeriodSeconds: 0, deletionTimestamp: /Z$/ } })
    const again = await send('DELETE', one('held'))
    t.equal(again.body.metadata?.resourceVersion, marked.body.metadata?.resourceVersion, 'once marked is marked')
    const more = { metadata: { finalizers: ['example.com/a', 'example.com/c'] } }
    t.match((await send('PATCH', one('held'), more, MERGE)).body, {
      code: 422,
      details: { causes: [{ field: 'metadata.finalizers' }] },
    })
    t.equal((await send('PATCH', one('held'), { metadata: { finalizers: ['example.com/b'] } }, MERGE)).code, 200)
    t.equal((await send('GET', one('held'))).code, 200)
    t.equal((await send('PATCH', one('held'), { metadata: { finalizers: null } }, MERGE)).code, 200)
    t.equal((await send('GET', one('held'))).code, 404, 'it goes with the last finalizer')

    for (const n of [1, 2, 3])
      await send('POST', CONFIG_MAPS, configMap(`set-${n}`, {}, { labels: { set: n < 3 ? 'a' : 'b' } }))
    const dry = await send('DELETE', `${CONFIG_MAPS}?labelSelector=set=a&dryRun=All`)
    t.equal((dry.body as { items?: unknown[] }).items?.length, 2)
    t.equal((await send('GET', one('set-1'))).code, 200)
    const some = await send('DELETE', `${CONFIG_MAPS}?labelSelector=set=a`)
    t.match(some.body, {
      kind: 'ConfigMapList',
      items: [{ metadata: { name: 'set-1' } }, { metadata: { name: 'set-2' } }],
    })
    t.equal((await send('DELETE', `${CONFIG_MAPS}?fieldSelector=metadata.name=set-3`)).code, 200)
    const left = await send('GET', `${CONFIG_MAPS}?labelSelector=set`)
    t.same((left.body as { items?: unknown[] }).items, [])
  })

  await t.test('a delete of a collection removes what a list with its options would contain', async (t) => {
    const labelled = { labels: { paged: 'yes' } }
    for (const name of ['page-1', 'page-2', 'page-3', 'page-4', 'page-5'])
      await send('POST', CONFIG_MAPS, configMap(name, {}, labelled))
    const { body: list } = await send('GET', `${CONFIG_MAPS}?labelSelector=paged`)
    await send('POST', CONFIG_MAPS, configMap('page-0', {}, labelled))
    const path = `${CONFIG_MAPS}?labelSelector=paged`
    const removed = async (query: string): Promise<readonly [names: readonly unknown[], next: unknown]> => {
      const { code, body, text } = await send('DELETE', path + query, {})
      t.equal(code, 200, text)
      const { items } = body as unknown as { items: readonly Answer['body'][] }
      return [items.map(({ metadata }) => metadata?.['name']), body.metadata?.['continue']]
    }
    const [first, token] = await removed('&limit=2')
    t.same(first, ['page-0', 'page-1'], 'one page')
    t.match(token, /^\w+$/)
    t.same((await removed(`&limit=1&continue=${String(token)}`))[0], ['page-2'], 'the next one')
    const exactly = `&resourceVersion=${list.metadata?.resourceVersion}&resourceVersionMatch=Exact`
    await send('POST', CONFIG_MAPS, configMap('page-0', {}, labelled))
    t.same(await removed(exactly), [['page-3', 'page-4', 'page-5'], undefined], 'what was there then')
    t.same(await removed('&limit=9'), [['page-0'], undefined], 'the rest')
  })

  await t.test('a namespace is deleted with everything in it', async (t) => {
    t.match((await send('POST', '/api/v1/namespaces', { metadata: { name: 'full' } })).body, {
      status: { phase: 'Active' },
    })
    const inside = '/api/v1/namespaces/full/configmaps'
    for (const name of ['a', 'b']) await send('POST', inside, configMap(name))
    await send('POST', inside, configMap('stays', {}, { finalizers: ['example.com/x'] }))
    t.match((await send('DELETE', '/api/v1/namespaces/full')).body, { status: { phase: 'Terminating' } })
    t.equal((await send('GET', `${inside}/a`)).code, 404)
    t.match((await send('POST', inside, configMap('late'))).body, { code: 403, reason: 'Forbidden' })
    t.equal((await send('GET', '/api/v1/namespaces/full')).code, 200, 'it waits for what has finalizers')
    await send('PATCH', `${inside}/stays`, { metadata: { finalizers: [] } }, MERGE)
    t.equal((await send('GET', '/api/v1/namespaces/full')).code, 404)
  })

  await t.test('a namespace has the finalizer without which an API server would not empty it', async (t) => {
    const path = '/api/v1/namespaces/finalized'
    const spec = { finalizers: ['kubernetes'] }
    t.match((await send('POST', '/api/v1/namespaces', { metadata: { name: 'finalized' } })).body, { spec })
    const bare = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'finalized' } }
    t.match((await send('PUT', path, bare)).body, { spec })
    t.match((await send('PATCH', path, { spec: { finalizers: ['example.com/other'] } }, MERGE)).body, { spec })
    const terminating = { status: { phase: 'Terminating' } }
    t.equal((await send('PATCH', `${path}/status`, terminating, MERGE)).code, 422, 'nothing could be created in it')
    const { metadata } = (await send('DELETE', path)).body
    t.notOk(metadata !== undefined && 'deletionGracePeriodSeconds' in metadata)
  })

  await t.test(
    'an apply orders items as it names them, and removes with a field what has no owner in it',
    async (t) => {
      const path = '/apis/apps/v1/namespaces/default/deployments/ordered?fieldManager=m'
      const deployment = (names: readonly string[], pod: object) => ({
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        metadata: { name: 'ordered' },
        spec: {
          selector: { matchLabels: { a: 'b' } },
          template: {
            metadata: { labels: { a: 'b' } },
            spec: {
              containers: [{ name: 'c', image: 'i', env: names.map((name) => ({ name, value: name })) }],
              ...pod,
            },
          },
        },
      })
      const apply = async (names: readonly string[], pod: object) => {
        const { code, body } = await send('PATCH', path, deployment(names, pod), APPLY)
        t.ok(code < 300, `${code}`)
        const applied = body as unknown as ReturnType<typeof deployment>
        const { containers, ...rest } = applied.spec.template.spec
        return {
          env: containers[0]!.env.map(({ name }) => name),
          ...(rest as { volumes?: unknown; tolerations?: unknown }),
        }
      }
      const configMapVolume = { volumes: [{ name: 'v', configMap: { name: 'c' } }], tolerations: [] }
      t.match(await apply(['A', 'B', 'C'], configMapVolume), { env: ['A', 'B', 'C'] })
      t.match(await apply(['C', 'D', 'A'], { volumes: [{ name: 'v', emptyDir: {} }] }), {
        env: ['C', 'D', 'A'],
        volumes: [{ name: 'v', configMap: undefined, emptyDir: {} }],
      })
      await send('PATCH', path.replace('=m', '=other'), deployment(['X', 'C'], { volumes: [] }), APPLY)
      t.match(await apply(['A', 'C'], {}), { env: ['X', 'A', 'C'], volumes: undefined })
    },
  )

  await t.test('an apply that names a uid creates no object', async (t) => {
    const gone = configMap('no-such', {}, { uid: 'another' })
    const answer = await send('PATCH', `${one('no-such')}?fieldManager=m`, gone, APPLY)
    t.match(answer.body, {
      code: 409,
      reason: 'Conflict',
      message:
        'Operation cannot be fulfilled on configmaps "no-such": uid mismatch: the provided object specified uid another, and no existing object was found',
    })
  })

  await t.test('a namespace in a cluster-scoped object is dropped', async (t) => {
    const path = '/apis/rbac.authorization.k8s.io/v1/clusterroles'
    const role = (name: string) => ({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name, namespace: 'default' },
      rules: [],
    })
    const added = [{ op: 'add', path: '/metadata/namespace', value: 'default' }]
    const writes = [
      ['POST', path, role('reader'), {}],
      ['PUT', `${path}/reader`, role('reader'), {}],
      ['PATCH', `${path}/reader`, { metadata: { namespace: 'other' } }, MERGE],
      ['PATCH', `${path}/reader`, added, JSON_PATCH],
      ['PATCH', `${path}/reader?fieldManager=m&force=true`, role('reader'), APPLY],
      ['PATCH', `${path}/applied?fieldManager=m`, role('applied'), APPLY],
    ] as const
    for (const [method, to, body, headers] of writes) {
      const answer = await send(method, to, body, headers)
      t.ok(answer.code < 300, `${method} ${to}: ${answer.text}`)
      t.notOk(answer.body.metadata !== undefined && 'namespace' in answer.body.metadata)
    }
  })

  await t.test('a write to a namespace that is being deleted does not remove it before it is empty', async (t) => {
    const path = '/api/v1/namespaces/leaving'
    const inside = `${path}/configmaps`
    await send('POST', '/api/v1/namespaces', { metadata: { name: 'leaving', finalizers: ['example.com/n'] } })
    await send('POST', inside, configMap('stays', {}, { finalizers: ['example.com/x'] }))
    await send('DELETE', path)
    t.equal((await send('PATCH', path, { metadata: { labels: { a: 'b' } } }, MERGE)).code, 200)
    t.equal((await send('PATCH', path, { metadata: { finalizers: null } }, MERGE)).code, 200)
    t.equal((await send('PATCH', path, { metadata: { labels: { a: 'c' } } }, MERGE)).code, 200)
    t.equal((await send('PATCH', `${path}/status`, { metadata: { labels: { a: 'd' } } }, MERGE)).code, 200)
    t.match((await send('PATCH', `${path}/status`, { status: { phase: 'Active' } }, MERGE)).body, {
      code: 422,
      details: { causes: [{ field: 'status.Phase' }] },
    })
    t.match((await send('GET', path)).body, { metadata: { labels: { a: 'd' } } }, 'it holds an object')
    t.equal((await send('POST', inside, configMap('late'))).code, 403)
    await send('PATCH', `${inside}/stays`, { metadata: { finalizers: null } }, MERGE)
    t.equal((await send('GET', path)).code, 404, 'it goes with its last object')

    await send('POST', '/api/v1/namespaces', { metadata: { name: 'leaving', finalizers: ['example.com/n'] } })
    await send('DELETE', path)
    t.equal((await send('GET', path)).code, 200)
    t.equal((await send('PATCH', path, { metadata: { finalizers: null } }, MERGE)).code, 200)
    t.equal((await send('GET', path)).code, 404, 'an empty one goes with its last finalizer')
  })
}

async function deletedDefinition(t: Test, send: Send): Promise<void> {
  await t.test('no object can be created of a definition that is being deleted', async (t) => {
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    const [group, plural, kind] = ['leaving.example.com', 'gadgets', 'Gadget']
    const versions = [{ name: 'v1', storage: true }]
    await send('POST', definitions, definitionObject({ group, plural, kind, scope: 'Namespaced', versions }))
    const path = `/apis/${group}/v1/namespaces/default/${plural}`
    const gadget = (name: string, metadata: object = {}): object => ({
      apiVersion: `${group}/v1`,
      kind,
      metadata: { name, ...metadata },
    })
    const held = gadget('held', { finalizers: ['example.com/x'] })
    await until(async () => (await send('POST', path, held)).code === 201, 'it is served')
    const changed = await send('PATCH', `${path}/held`, { status: { phase: 'Ready' } }, MERGE)
    t.match(changed.body.metadata, { generation: 2 }, 'without a status of its own it is a field as others')
    t.equal((await send('DELETE', `${definitions}/${plural}.${group}`)).code, 200)
    t.match((await send('POST', path, gadget('late'))).body, {
      code: 403,
      reason: 'Forbidden',
      message: `${plural}.${group} "late" is forbidden: create not allowed while custom resource definition is terminating`,
    })
    const applied = await send('PATCH', `${path}/late?fieldManager=m`, gadget('late'), APPLY)
    t.equal(applied.code, 403)
    t.equal((await send('PATCH', `${path}/held`, { spec: {} }, MERGE)).code, 200, 'what is there can be changed')
    // A large write is computed in a thread.
    for (const length of [1, 40_000]) {
      const labelled = { metadata: { annotations: { a: 'b'.repeat(length) } } }
      t.equal((await send('PATCH', `${definitions}/${plural}.${group}`, labelled, MERGE)).code, 200)
      t.equal((await send('GET', `${definitions}/${plural}.${group}`)).code, 200, 'a write does not remove it')
    }
    t.equal((await send('PATCH', `${path}/held`, { metadata: { finalizers: null } }, MERGE)).code, 200)
    t.equal((await send('GET', `${definitions}/${plural}.${group}`)).code, 404, 'it goes with its last object')
  })
}

async function keyedList(t: Test, send: Send): Promise<void> {
  await t.test('an item that omits a key is the item with the key’s default', async (t) => {
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    const [group, plural, kind] = ['keyed.example.com', 'gadgets', 'Gadget']
    const item = {
      type: 'object',
      required: ['port'],
      properties: {
        port: { type: 'integer' },
        kind: { type: 'string', default: 'tcp' },
        level: { type: 'integer', default: 3 },
        name: { type: 'string' },
      },
    }
    const list = {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['port', 'kind', 'level'],
      items: item,
    }
    const schema = { type: 'object', properties: { spec: { type: 'object', properties: { ports: list } } } }
    const versions = [{ name: 'v1', storage: true, schema }]
    await send('POST', definitions, definitionObject({ group, plural, kind, scope: 'Namespaced', versions }))
    const path = `/apis/${group}/v1/namespaces/default/${plural}`
    const gadget = (name: string, ports: readonly object[]): object => ({
      apiVersion: `${group}/v1`,
      kind,
      metadata: { name },
      spec: { ports },
    })
    await until(async () => (await send('POST', path, gadget('first', []))).code === 201, 'it is served')
    const apply = async (manager: string, ports: readonly object[], query = '') =>
      await send('PATCH', `${path}/a?fieldManager=${manager}${query}`, gadget('a', ports), APPLY)
    const complete = (port: number, more: object = {}) => ({ port, kind: 'tcp', level: 3, ...more })
    for (const attempt of ['creates', 'changes nothing']) {
      const { code, body, text } = await apply('one', [{ port: 80 }, { port: 81, name: 'b' }])
      t.ok(code < 300, `${attempt}: ${text}`)
      t.match(body, { spec: { ports: [complete(80), complete(81, { name: 'b' })] } })
      t.match(body.metadata?.['managedFields'], [
        { fieldsV1: { 'f:spec': { 'f:ports': { 'k:{"kind":"tcp","level":3,"port":80}': {} } } } },
      ])
    }
    t.same((await apply('one', [{ port: 81, name: 'c' }])).body['spec'], { ports: [complete(81, { name: 'c' })] })
    t.match((await apply('two', [complete(81, { name: 'd' })])).body, { code: 409, details: { causes: { length: 1 } } })
    const other = { port: 81, kind: 'udp' }
    const forced = await apply('two', [{ port: 81, name: 'd' }, other], '&force=true')
    t.same(forced.body['spec'], { ports: [complete(81, { name: 'd' }), { ...other, level: 3 }] })
  })
}

async function changedDefinition(t: Test, send: Send): Promise<void> {
  await t.test('a definition is not changed so that stored objects would be lost', async (t) => {
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    const [group, plural, kind] = ['changing.example.com', 'gadgets', 'Gadget']
    const versions = [{ name: 'v1', storage: true }]
    const path = `${definitions}/${plural}.${group}`
    const definition = definitionObject({ group, plural, kind, scope: 'Namespaced', versions })
    const misspelled = { ...definition, spec: { ...(definition['spec'] as object), scope: 'cluster' } }
    t.match((await send('POST', definitions, misspelled)).body, { details: { causes: [{ field: 'spec.scope' }] } })
    const unnamed = { ...definition, spec: { ...(definition['spec'] as object), names: { plural, kind } } }
    t.match((await send('POST', definitions, unnamed)).body, {
      spec: { names: { singular: 'gadget', listKind: 'GadgetList' }, conversion: { strategy: 'None' } },
    })
    type Versions = { name: string; storage: boolean }[]
    const put = async (change: (spec: { names: object; versions: Versions; scope: string }) => object) => {
      const { body } = await send('GET', path)
      const spec = body['spec'] as Parameters<typeof change>[0]
      return await send('PUT', path, { ...body, spec: { ...spec, ...change(spec) } })
    }
    const other = (name: string, storage: boolean): Versions[0] => ({ ...versions[0]!, name, storage })
    for (const [what, field, change] of [
      ['scope', 'spec.scope', () => ({ scope: 'Cluster' })],
      ['kind', 'spec.names.kind', ({ names }) => ({ names: { ...names, kind: 'Other' } })],
      ['two stored versions', 'spec.versions', (spec) => ({ versions: [...spec.versions, other('v2', true)] })],
      ['a version twice', 'spec.versions', (spec) => ({ versions: [...spec.versions, other('v1', false)] })],
      [
        'a name of a version',
        'spec.versions[1].name',
        (spec) => ({ versions: [...spec.versions, other('V_2', false)] }),
      ],
      ['the stored version', 'status.storedVersions[0]', () => ({ versions: [other('v2', true)] })],
    ] satisfies readonly (readonly [string, string, Parameters<typeof put>[0]])[]) {
      t.match((await put(change)).body, { code: 422, details: { causes: [{ field }] } }, what)
    }
    // As in an API server, an emptied status does not lift that restriction.
    const emptied = await send('PATCH', `${path}/status`, { status: { storedVersions: null } }, MERGE)
    t.match(emptied.body, { status: { storedVersions: ['v1'] } })
    t.equal((await put(() => ({ versions: [other('v2', true)] }))).code, 422, 'the stored version stays')
    t.equal((await put(() => ({ versions: [other('v1', false), other('v2', true)] }))).code, 200, 'another is stored')
    t.equal((await put(() => ({ versions: [other('v2', true)] }))).code, 422, 'objects may still be stored as v1')
    const migrated = { status: { storedVersions: ['v2'] } }
    t.equal((await send('PATCH', `${path}/status`, migrated, MERGE)).code, 200)
    t.equal((await put(() => ({ versions: [other('v2', true)] }))).code, 200, 'they no longer are')
  })
}

async function subresources(t: Test, send: Send): Promise<void> {
  await t.test('status and scale are written separately from the object', async (t) => {
    const path = '/apis/apps/v1/namespaces/default/deployments/web'
    const update = { metadata: { name: 'web' }, spec: { replicas: 9 }, status: { readyReplicas: 2, replicas: 2 } }
    t.match((await send('PUT', `${path}/status`, update)).body, { spec: { replicas: 2 }, status: { readyReplicas: 2 } })
    const main = {
      metadata: { name: 'web' },
      spec: { replicas: 3, selector: { matchLabels: { app: 'web' } } },
      status: {},
    }
    t.match((await send('PUT', path, main)).body, { spec: { replicas: 3 }, status: { readyReplicas: 2 } })
    t.match((await send('PATCH', `${path}/status`, { status: { readyReplicas: 3 } }, MERGE)).body, {
      status: { readyReplicas: 3 },
    })
    t.match((await send('GET', `${path}/status`)).body, { kind: 'Deployment', status: { readyReplicas: 3 } })

    const { body: scale } = await send('GET', `${path}/scale`)
    t.match(scale, {
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      metadata: { name: 'web', namespace: 'default' },
      spec: { replicas: 3 },
      status: { replicas: 2, selector: 'app=web' },
    })
    const { code, body } = await send('PUT', `${path}/scale`, { ...scale, spec: { replicas: 5 } })
    t.equal(code, 200)
    t.match(body, { kind: 'Scale', spec: { replicas: 5 } })
    t.equal((await send('PUT', `${path}/scale`, { ...scale, spec: { replicas: 6 } })).code, 409)
    t.match((await send('PATCH', `${path}/scale`, { spec: { replicas: 0 } }, MERGE)).body, { kind: 'Scale', spec: {} })
    t.match((await send('GET', path)).body, { spec: { replicas: 0, selector: { matchLabels: { app: 'web' } } } })
  })
}

/** For each kind: an object whose metadata is written with its status, and the metadata fields that must not change. */
const METADATA_OF_STATUS: readonly (readonly [path: string, object: object, stay: readonly string[]])[] = [
  ['/api/v1/nodes', {}, []],
  ['/api/v1/namespaces/default/services', { spec: { ports: [{ port: 1 }] } }, []],
  ['/apis/apps/v1/namespaces/default/deployments', { spec: { selector: { matchLabels: { a: 'b' } } } }, ['labels']],
  ['/api/v1/namespaces/default/pods', { spec: { containers: [{ name: 'a', image: 'a' }] } }, ['ownerReferences']],
  [
    '/apis/storage.k8s.io/v1/volumeattachments',
    { spec: { attacher: 'a', nodeName: 'n', source: { persistentVolumeName: 'v' } } },
    ['labels', 'annotations', 'finalizers', 'ownerReferences'],
  ],
]

async function metadataOfStatus(t: Test, send: Send): Promise<void> {
  await t.test('the metadata of most kinds can be written with their status', async (t) => {
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'o', uid: 'u' }
    const metadata: Readonly<Record<string, unknown>> = {
      labels: { with: 'status' },
      annotations: { with: 'status' },
      finalizers: ['example.com/status'],
      ownerReferences: [owner],
    }
    const forms = { merge: MERGE, strategic: STRATEGIC, apply: APPLY, put: {} }
    for (const [path, object, stay] of METADATA_OF_STATUS) {
      for (const [form, headers] of Object.entries(forms)) {
        const name = `with-status-${form}`
        const { body: made, text } = await send('POST', path, { metadata: { name }, ...object })
        const { kind, apiVersion } = made
        const [method, version] = form === 'put' ? ['PUT', made.metadata?.resourceVersion] : ['PATCH', undefined]
        const written = { kind, apiVersion, metadata: { ...metadata, name, resourceVersion: version } }
        const answer = await send(method, `${path}/${name}/status?fieldManager=m`, written, headers)
        t.equal(answer.code, 200, `${text} ${answer.text}`)
        for (const [field, value] of Object.entries(metadata)) {
          t.same(answer.body.metadata?.[field], stay.includes(field) ? undefined : value, `${form} ${path} ${field}`)
        }
        t.same(answer.body['spec'], made['spec'])
      }
    }
  })
}

async function watched(t: Test, send: Send, url: string): Promise<void> {
  await t.test('a watch shows one event per write', async (t) => {
    const { body: list } = await send('GET', `${CONFIG_MAPS}?limit=1`)
    const versions: (string | undefined)[] = []
    const note = ({ body }: Answer): void => void versions.push(body.metadata?.resourceVersion)
    note(await send('POST', CONFIG_MAPS, configMap('seen', { n: '1' })))
    note(await send('PUT', one('seen'), configMap('seen', { n: '2' })))
    await send('PUT', one('seen'), configMap('seen', { n: '2' }))
    note(await send('PATCH', one('seen'), { data: { n: '3' } }, MERGE))
    note(await send('PATCH', `${one('seen')}?fieldManager=m&force=1`, configMap('seen', { n: '4' }), APPLY))
    await send('PATCH', `${one('seen')}?dryRun=All`, { data: { n: '5' } }, MERGE)
    await send('DELETE', one('seen'))
    const events: WatchedEvent[] = []
    for await (const event of eventsOf(t, url, CONFIG_MAPS, list.metadata?.resourceVersion)) {
      events.push(event)
      if (event.type === 'DELETED') break
    }
    t.same(
      events.map(({ type }) => type),
      ['ADDED', 'MODIFIED', 'MODIFIED', 'MODIFIED', 'DELETED'],
    )
    t.same(
      events.slice(0, 4).map(({ object }) => object.metadata.resourceVersion),
      versions,
    )
  })

  await t.test('an object with a time to live is gone afterwards', async (t) => {
    const annotated = configMap('brief', {}, { annotations: { 'distributary.io/ttl': '2s' } })
    t.equal((await send('POST', CONFIG_MAPS, annotated)).code, 201)
    t.equal((await send('POST', `${CONFIG_MAPS}?ttl=2s`, configMap('brief-by-query'))).code, 201)
    t.equal((await send('POST', `${CONFIG_MAPS}?ttl=2s`, configMap('reprieved'))).code, 201)
    t.equal((await send('PATCH', `${one('reprieved')}?ttl=0`, { data: { a: '1' } }, MERGE)).code, 200)
    const { body: list } = await send('GET', `${CONFIG_MAPS}?limit=1`)
    const gone: string[] = []
    for await (const { type, object } of eventsOf(t, url, CONFIG_MAPS, list.metadata?.resourceVersion)) {
      if (type === 'DELETED') gone.push(object.metadata.name)
      if (gone.length === 2) break
    }
    t.same(gone.sort(), ['brief', 'brief-by-query'])
    t.equal((await send('GET', one('reprieved'))).code, 200)
  })
}
