/** PROTOCOL section 2: get and list. */
import { gunzipSync } from 'node:zlib'
import t from 'tap'
import { createEmbeddedUpstream } from '../support/faulty-store.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { type Check, checkRows, namesOf, status } from './row.js'
import { ask, overEveryUpstream } from './world.js'

const PODS = '/api/v1/namespaces/default/pods'
const NO_CACHE = { 'cache-control': 'no-cache, private' }

/** Three pods are created, then the second changes, then a fourth is created. */
const SEEDS = [
  { 'pods/default/a': pod('a', { labels: { app: 'web' } }) },
  { 'pods/default/b': pod('b') },
  { 'pods/default/c': pod('c', { labels: { app: 'web' } }) },
  { 'pods/default/b': pod('b', { status: { phase: 'Failed' } }) },
  { 'pods/default/d': pod('d', { labels: { app: 'web' } }) },
]
const ALL = ['a', 'b', 'c', 'd']
const FAR = 1_000_000

const invalid = (field: string, reason: string, message: string | RegExp): object => ({
  ...status(422, 'Invalid', /^ListOptions\.meta\.k8s\.io "" is invalid: /),
  details: { group: 'meta.k8s.io', kind: 'ListOptions', causes: [{ reason, field, message }] },
})

const forbiddenMatch = (message: string): object => invalid('resourceVersionMatch', 'FieldValueForbidden', message)

overEveryUpstream(t, 'the table of resourceVersion, resourceVersionMatch and limit', { seeds: SEEDS }, async (t, w) => {
  const [, , third, fourth, last] = w.seeds as unknown as [number, number, number, number, number]
  const is = (rv: number): object => ({ kind: 'PodList', apiVersion: 'v1', metadata: { resourceVersion: String(rv) } })
  const tooLarge = {
    ...status(504, 'Timeout', `Timeout: Too large resource version: ${FAR}, current: `),
    details: {
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
      retryAfterSeconds: 1,
    },
  }
  const waited: Check = (t, { ms }) => t.ok(ms >= 2_500, `waited about 3 s: ${ms}`)
  const page =
    (rv: number, remaining: number | undefined): Check =>
    (t, { json }) => {
      const { resourceVersion, remainingItemCount, continue: token } = json.metadata
      t.equal(resourceVersion, String(rv))
      t.equal(remainingItemCount, remaining)
      t.match(Buffer.from(token!, 'base64url').toString(), /^\{"v":"meta.k8s.io\/v1","rv":\d+,"start":"b\\u0000"\}$/)
      t.notMatch(token!, '=', 'unpadded')
    }
  const whole: Check = (t, { json }) => t.same(Object.keys(json.metadata), ['resourceVersion'])
  await checkRows(t, w, [
    { promise: 'unset: most recent', path: PODS, code: 200, names: ALL, has: is(last), sends: NO_CACHE, check: whole },
    { promise: 'an empty resourceVersion is unset', path: `${PODS}?resourceVersion=`, code: 200, names: ALL },
    { promise: '0: what the cache holds', path: `${PODS}?resourceVersion=0`, code: 200, names: ALL, has: is(last) },
    {
      promise: '0 ignores the limit',
      path: `${PODS}?resourceVersion=0&limit=1`,
      code: 200,
      names: ALL,
      check: whole,
    },
    { promise: 'N: not older than N', path: `${PODS}?resourceVersion=${third}`, code: 200, names: ALL, has: is(last) },
    {
      promise: 'N with limit: exactly N',
      path: `${PODS}?resourceVersion=${third}&limit=2`,
      code: 200,
      names: ['a', 'b'],
      check: page(third, 1),
    },
    {
      promise: 'unset with limit: a page of the most recent, with the remaining count',
      path: `${PODS}?limit=2`,
      code: 200,
      names: ['a', 'b'],
      check: page(last, 2),
    },
    {
      promise: 'a limit as large as the list returns the whole list',
      path: `${PODS}?limit=4`,
      code: 200,
      names: ALL,
      check: whole,
    },
    {
      promise: 'a second question mark is part of a name',
      path: `${PODS}??limit=1`,
      code: 200,
      names: ALL,
      check: whole,
    },
    { promise: 'a limit of 0 means no limit', path: `${PODS}?limit=0`, code: 200, names: ALL, check: whole },
    {
      promise: 'with a selector there is no remaining count',
      path: `${PODS}?limit=1&labelSelector=app%3Dweb`,
      code: 200,
      names: ['a'],
      check: (t, { json }) => {
        t.type(json.metadata.continue, 'string')
        t.notOk('remainingItemCount' in json.metadata)
      },
    },
    {
      promise: 'NotOlderThan 0: any',
      path: `${PODS}?resourceVersion=0&resourceVersionMatch=NotOlderThan`,
      code: 200,
      names: ALL,
    },
    {
      promise: 'NotOlderThan N: not older than N',
      path: `${PODS}?resourceVersion=${third}&resourceVersionMatch=NotOlderThan`,
      code: 200,
      names: ALL,
      has: is(last),
    },
    {
      promise: 'NotOlderThan N with limit is a page of the current state',
      path: `${PODS}?resourceVersion=${third}&resourceVersionMatch=NotOlderThan&limit=2`,
      code: 200,
      names: ['a', 'b'],
      check: page(last, 2),
    },
    {
      promise: 'Exact N: exactly N, the objects as they were',
      path: `${PODS}?resourceVersion=${third}&resourceVersionMatch=Exact`,
      code: 200,
      names: ['a', 'b', 'c'],
      has: is(third),
      check: (t, { json }) => t.equal(json.items[1]!.status.phase, 'Running'),
    },
    {
      promise: 'Exact N after a change includes the change',
      path: `${PODS}?resourceVersion=${fourth}&resourceVersionMatch=Exact`,
      code: 200,
      names: ['a', 'b', 'c'],
      has: is(fourth),
      check: (t, { json }) => t.equal(json.items[1]!.status.phase, 'Failed'),
    },
    {
      promise: 'Exact N with limit is a page of N',
      path: `${PODS}?resourceVersion=${third}&resourceVersionMatch=Exact&limit=2`,
      code: 200,
      names: ['a', 'b'],
      check: page(third, 1),
    },
    ...['NotOlderThan', 'Exact'].map((match) => ({
      promise: `${match} without a resourceVersion is 422`,
      path: `${PODS}?resourceVersionMatch=${match}`,
      code: 422,
      has: forbiddenMatch('Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided'),
    })),
    {
      promise: 'Exact 0 is 422',
      path: `${PODS}?resourceVersionMatch=Exact&resourceVersion=0`,
      code: 422,
      has: forbiddenMatch('Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'),
    },
    {
      promise: 'an unknown resourceVersionMatch is 422, with the valid ones',
      path: `${PODS}?resourceVersionMatch=Newest&resourceVersion=${third}`,
      code: 422,
      has: invalid(
        'resourceVersionMatch',
        'FieldValueNotSupported',
        'Unsupported value: "Newest": supported values: "Exact", "NotOlderThan", ""',
      ),
    },
    {
      promise: 'sendInitialEvents on a list is 422',
      path: `${PODS}?sendInitialEvents=true`,
      code: 422,
      has: invalid('sendInitialEvents', 'FieldValueForbidden', 'Forbidden: sendInitialEvents is forbidden for list'),
    },
    {
      promise: 'continue with resourceVersionMatch is 422',
      path: `${PODS}?resourceVersionMatch=Exact&resourceVersion=${third}&continue=x`,
      code: 422,
      has: forbiddenMatch('Forbidden: resourceVersionMatch is forbidden when continue is provided'),
    },
    ...['x', '-1', '1.5', '0x10', '18446744073709551616', '%20', '1e3'].map((text) => ({
      promise: `the resourceVersion ${JSON.stringify(text)} is 400`,
      path: `${PODS}?resourceVersion=${text}`,
      code: 400,
      has: status(400, 'BadRequest', /^invalid resource version: /),
    })),
    ...['x', '1.5', '99999999999999999999'].map((text) => ({
      promise: `the limit ${JSON.stringify(text)} is 400`,
      path: `${PODS}?limit=${text}`,
      code: 400,
      has: status(400, 'BadRequest', 'limit'),
    })),
    {
      promise: 'a future N: a wait, then a 504 that names both',
      path: `${PODS}?resourceVersion=${FAR}`,
      code: 504,
      has: tooLarge,
      sends: { 'retry-after': /^1$/ },
      check: waited,
    },
    {
      promise: 'a get of a future N: the same',
      path: `${PODS}/a?resourceVersion=${FAR}`,
      code: 504,
      has: tooLarge,
      check: waited,
    },
    {
      promise: 'Exact with a future N: 504',
      path: `${PODS}?resourceVersionMatch=Exact&resourceVersion=${FAR}`,
      code: 504,
      has: status(504, 'Timeout', 'Too large resource version'),
    },
  ])
})

overEveryUpstream(t, 'get', { seeds: SEEDS }, async (t, w) => {
  const [first, , , fourth] = w.seeds
  const a = { kind: 'Pod', apiVersion: 'v1', metadata: { name: 'a', resourceVersion: String(first) } }
  await checkRows(t, w, [
    { promise: 'the object, with its own resourceVersion', path: `${PODS}/a`, code: 200, has: a, sends: NO_CACHE },
    { promise: 'resourceVersion 0: from the cache', path: `${PODS}/a?resourceVersion=0`, code: 200, has: a },
    {
      promise: 'N: not older than N',
      path: `${PODS}/b?resourceVersion=${fourth}`,
      code: 200,
      has: { status: { phase: 'Failed' } },
    },
    {
      promise: 'a missing object is 404 with its name',
      path: `${PODS}/nobody`,
      code: 404,
      has: { ...status(404, 'NotFound', 'pods "nobody" not found'), details: { name: 'nobody', kind: 'pods' } },
      sends: NO_CACHE,
    },
    {
      promise: 'an object of another namespace is 404',
      path: '/api/v1/namespaces/defaul/pods/a',
      code: 404,
      has: status(404, 'NotFound', 'pods "a" not found'),
    },
    {
      promise: 'an invalid resourceVersion is 400',
      path: `${PODS}/a?resourceVersion=new`,
      code: 400,
      has: status(400, 'BadRequest', 'invalid resource version: '),
    },
    {
      promise: 'HEAD is the get without a body',
      path: `${PODS}/a`,
      method: 'HEAD',
      code: 200,
      sends: { ...NO_CACHE, 'content-type': 'application/json', 'content-length': /^\d\d+$/ },
      check: (t, { body }) => t.equal(body.length, 0),
    },
    {
      promise: 'HEAD of a list ends, without a body',
      path: PODS,
      method: 'HEAD',
      code: 200,
      sends: { 'content-type': 'application/json' },
      check: (t, { body }) => t.equal(body.length, 0),
    },
    {
      promise: 'HEAD of a missing object is 404, without a body',
      path: `${PODS}/nobody`,
      method: 'HEAD',
      code: 404,
      check: (t, { body }) => t.equal(body.length, 0),
    },
  ])
  const put = await w.write({ 'pods/default/e': pod('e') })
  t.match((await w.ask(`${PODS}/e`)).json, { metadata: { resourceVersion: String(put) } }, 'as fresh as a quorum read')
  const removed = await w.write({ 'pods/default/e': null })
  t.equal((await w.ask(`${PODS}/e`)).code, 404, 'and a delete is seen at once')
  t.match((await w.ask(PODS)).json, { metadata: { resourceVersion: String(removed) } })
})

overEveryUpstream(t, 'an empty list has items and a resourceVersion', {}, async (t, w) => {
  for (const path of [PODS, '/api/v1/pods', '/apis/apps/v1/deployments', '/api/v1/nodes?resourceVersion=0']) {
    const { json } = await w.ask(path)
    t.same(json.items, [], path)
    t.match(json.metadata.resourceVersion, /^[1-9]\d*$/, 'neither empty nor 0')
  }
})

overEveryUpstream(t, 'continue', { seeds: SEEDS }, async (t, w) => {
  const last = String(w.seeds.at(-1))
  const first = await w.ask(`${PODS}?limit=2`)
  const token = first.json.metadata.continue!
  // An object created between two pages is in neither.
  await w.write({ 'pods/default/bb': pod('bb') })
  await w.write({ 'pods/default/c': null })
  for (let i = 0; i < 200; i++) await w.write({ 'pods/default/d': pod('d', { labels: { turn: String(i) } }) })
  const next = Buffer.from(token!, 'base64url').toString()
  const any = Buffer.from(next.replace(/"rv":\d+/, '"rv":-1')).toString('base64url')
  const old = Buffer.from(next.replace(/"rv":\d+/, '"rv":1')).toString('base64url')
  const climbing = Buffer.from(next.replace(/"start":"[^"]*"/, '"start":"../secrets"')).toString('base64url')
  const bad = (why: string | RegExp): object => status(400, 'BadRequest', why)
  await checkRows(t, w, [
    {
      promise: 'the second page has the revision of the first, whatever was written since',
      path: `${PODS}?limit=2&continue=${token}`,
      code: 200,
      names: ['c', 'd'],
      has: { metadata: { resourceVersion: last } },
      check: (t, { json }) => {
        t.notOk('continue' in json.metadata, 'the last page has no token')
        t.same(json.items[1]!.metadata.labels, { app: 'web' })
      },
    },
    { promise: 'the rest in one page', path: `${PODS}?continue=${token}`, code: 200, names: ['c', 'd'] },
    {
      promise: 'resourceVersion 0 with continue is ignored',
      path: `${PODS}?limit=2&continue=${token}&resourceVersion=0`,
      code: 200,
      names: ['c', 'd'],
    },
    {
      promise: 'another resourceVersion with continue is 400',
      path: `${PODS}?continue=${token}&resourceVersion=7`,
      code: 400,
      has: bad('specifying resource version is not allowed when using continue'),
    },
    {
      promise: 'a token with revision −1 is a consistent read',
      path: `${PODS}?continue=${any}`,
      code: 200,
      names: ['bb', 'd'],
    },
    {
      promise: 'an invalid token is 400',
      path: `${PODS}?continue=nonsense`,
      code: 400,
      has: bad('continue key is not valid'),
    },
    {
      promise: 'a token that points outside the resource is 400',
      path: `${PODS}?continue=${climbing}`,
      code: 400,
      has: bad('continue key is not valid'),
    },
    {
      promise: 'a token keeps its revision even where it shows less',
      path: `${PODS}?continue=${old}`,
      code: 200,
      names: [],
    },
  ])
})

overEveryUpstream(
  t,
  'a list in pages shows one state during thousands of writes',
  {
    seeds: [
      Object.fromEntries(
        Array.from({ length: 60 }, (_, i) => [`pods/default/p${String(i).padStart(3, '0')}`, pod(`p${i}`)]),
      ),
    ],
  },
  async (t, w) => {
    let path = `${PODS}?limit=7`
    let writes = 0
    const seen: string[] = []
    const revisions = new Set<string>()
    for (;;) {
      const { json } = await w.ask(path)
      for (const item of json.items) seen.push(`${item.metadata.name}@${item.metadata.resourceVersion}`)
      revisions.add(json.metadata.resourceVersion)
      if (json.metadata.continue === undefined) break
      path = `${PODS}?limit=7&continue=${json.metadata.continue}`
      for (let round = 0; round < 10; round++) {
        const numbers = Array.from({ length: 30 }, () => String(writes++ % 80).padStart(3, '0'))
        await Promise.all(numbers.map((n) => w.write({ [`pods/default/p${n}`]: pod(`p${n}`) })))
      }
    }
    t.ok(writes > 2_000, `${writes} writes`)
    t.equal(revisions.size, 1)
    const exact = await w.ask(`${PODS}?resourceVersionMatch=Exact&resourceVersion=${[...revisions][0]}`)
    const { items } = exact.json
    t.same(
      seen,
      items.map(({ metadata }) => `${metadata.name}@${metadata.resourceVersion}`),
    )
  },
)

overEveryUpstream(t, 'a compacted revision', { seeds: SEEDS, keepsSeeds: 1 }, async (t, w) => {
  const token = Buffer.from('{"v":"meta.k8s.io/v1","rv":2,"start":"a\\u0000"}').toString('base64url')
  const tokens: string[] = []
  await checkRows(t, w, [
    {
      promise: 'an expired token is 410, and the answer has a token to continue with',
      path: `${PODS}?limit=1&continue=${token}`,
      code: 410,
      has: { ...status(410, 'Expired', /^The provided continue parameter is too old/) },
      check: (_t, { json }) => tokens.push(json.metadata.continue!),
    },
    {
      promise: 'an exact list below the history is 410',
      path: `${PODS}?resourceVersion=2&resourceVersionMatch=Exact`,
      code: 410,
      has: status(410, 'Expired', /./),
    },
    { promise: 'not older than a compacted revision', path: `${PODS}?resourceVersion=2`, code: 200, names: ALL },
  ])
  const on = await w.ask(`${PODS}?limit=1&continue=${tokens[0]}`)
  t.same(namesOf(on), ['b'])
  const rest = await w.ask(`${PODS}?continue=${on.json.metadata.continue}`)
  t.same(namesOf(rest), ['c', 'd'], 'and so to the end')
})

const LARGE = Object.fromEntries(
  Array.from({ length: 100 }, (_, i) => [
    `configmaps/default/c${i}`,
    {
      kind: 'ConfigMap',
      apiVersion: 'v1',
      metadata: { name: `c${i}`, namespace: 'default' },
      data: { x: 'x'.repeat(2_000) },
    },
  ]),
)

overEveryUpstream(t, 'the format of a body', { seeds: [LARGE, ...SEEDS.slice(0, 1)] }, async (t, w) => {
  const large = '/api/v1/configmaps'
  const plain = await w.ask(large)
  const compact: Check = (t, { text }) => t.match(text, /^\{"kind":"Pod/)
  const indented: Check = (t, { text }) => t.match(text, /^\{\n {2}"kind": "Pod/)
  const gzip = { 'accept-encoding': 'gzip, deflate' }
  await checkRows(t, w, [
    {
      promise: 'a list over 128 KiB is gzipped for clients that accept it',
      path: large,
      headers: gzip,
      code: 200,
      sends: { 'content-encoding': 'gzip', vary: 'Accept-Encoding', 'content-type': 'application/json', ...NO_CACHE },
      check: (t, { body }) => {
        t.same(gunzipSync(body), plain.body)
        t.ok(body.length * 10 < plain.body.length)
      },
    },
    {
      promise: 'and not for those that do not',
      path: large,
      code: 200,
      sends: { 'content-encoding': null, vary: 'Accept-Encoding' },
    },
    {
      promise: 'nor for those that refuse it',
      path: large,
      headers: { 'accept-encoding': 'gzip;q=0' },
      code: 200,
      sends: { 'content-encoding': null },
    },
    {
      promise: 'a small list is not',
      path: PODS,
      headers: gzip,
      code: 200,
      sends: { 'content-encoding': null, vary: 'Accept-Encoding' },
    },
    { promise: 'compact by default', path: `${PODS}/a`, code: 200, check: compact },
    { promise: 'pretty=true: indented', path: `${PODS}/a?pretty=true`, code: 200, check: indented },
    { promise: 'pretty=true: a list', path: `${PODS}?pretty=true`, code: 200, check: indented },
    ...['curl/8.1', 'Wget/1.21', 'Mozilla/5.0 (X11)'].map((agent) => ({
      promise: `${agent} is read by people`,
      path: PODS,
      headers: { 'user-agent': agent },
      code: 200,
      check: indented,
    })),
    {
      promise: 'pretty=false, even to a browser',
      path: PODS + '?pretty=false',
      headers: { 'user-agent': 'Mozilla/5.0' },
      code: 200,
      check: compact,
    },
    {
      promise: 'compact for kubectl',
      path: PODS,
      headers: { 'user-agent': 'kubectl/v1.32.0' },
      code: 200,
      check: compact,
    },
  ])
  t.equal(plain.body.length, (await w.ask(`${large}?pretty=false`)).body.length)
})

void t.test('before the first list is complete, clients are asked to retry', async (t) => {
  const upstream = createEmbeddedUpstream()
  upstream.setStalled(true)
  const h = await startApp(t, { upstream, ready: false })
  for (const path of [PODS, `${PODS}/a`, `${PODS}?watch=1`, `${PODS}?resourceVersion=0`]) {
    const answer = await ask(h.url + path)
    t.equal(answer.code, 429, path)
    t.match(answer.json, {
      kind: 'Status',
      reason: 'TooManyRequests',
      code: 429,
      details: { retryAfterSeconds: Number },
    })
    const seconds = Number(answer.headers['retry-after'])
    t.ok(seconds >= 1 && seconds <= 30, `Retry-After ${seconds}`)
  }
  t.equal((await ask(`${h.url}/readyz`)).code, 500)
  upstream.setStalled(false)
})
