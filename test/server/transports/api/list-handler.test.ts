/** Tests lists over HTTP: pages, freshness, shared bodies, compression, and what is freed when clients leave. */
import { get } from 'node:http'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { type AppHarness, type AppHarnessOptions, startApp } from '../../../support/app.js'
import { pod } from '../../../support/pod.js'
import { until } from '../../../support/until.js'

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: {
    readonly kind: string
    readonly code?: number
    readonly reason?: string
    readonly message?: string
    readonly details?: {
      readonly causes?: readonly { readonly reason: string; readonly message: string }[]
      readonly retryAfterSeconds?: number
    }
    readonly metadata: {
      readonly resourceVersion?: string
      readonly continue?: string
      readonly remainingItemCount?: number
    }
    readonly items: readonly { readonly metadata: { readonly name: string; readonly resourceVersion: string } }[]
  }
}

async function ask(
  app: AppHarness,
  query = '',
  headers: Record<string, string> = {},
  path = '/api/v1/pods',
): Promise<Answer> {
  const response = await fetch(`${app.url}${path}?${query}`, { headers: { 'accept-encoding': 'identity', ...headers } })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) as Answer['body'] }
}

const names = ({ body }: Answer): string[] => body.items.map(({ metadata }) => metadata.name)

function pods(count: number, filler = ''): Record<string, object> {
  const entries = Array.from({ length: count }, (_, i) => {
    const name = `p${String(i).padStart(4, '0')}`
    return [`pods/default/${name}`, pod(name, { spec: { filler } })] as const
  })
  return Object.fromEntries(entries)
}

async function start(t: Test, options: AppHarnessOptions & { readonly pods?: number; readonly filler?: string } = {}) {
  const app = await startApp(t, options)
  if (options.pods !== undefined) {
    const revision = app.commit(pods(options.pods, options.filler))
    await until(() => sourceOf(app).cache.revision >= revision, 'the pods are there')
  }
  return app
}

const sourceOf = (app: AppHarness) => [...app.app.sources].find(({ resource }) => resource.plural === 'pods')!

void t.test('all pages show one revision, despite writes in between', async (t) => {
  const app = await start(t, { pods: 25 })
  const seen: string[] = []
  const revisions = new Set<string | undefined>()
  const remaining: (number | undefined)[] = []
  let token = ''
  for (let page = 0; page < 10; page++) {
    const answer = await ask(app, `limit=10${token === '' ? '' : `&continue=${token}`}`)
    t.equal(answer.status, 200)
    seen.push(...names(answer))
    revisions.add(answer.body.metadata.resourceVersion)
    remaining.push(answer.body.metadata.remainingItemCount)
    app.commit({
      'pods/default/p0024': null,
      'pods/default/p0011': null,
      [`pods/default/new${page}`]: pod(`new${page}`),
    })
    token = answer.body.metadata.continue ?? ''
    if (token === '') break
  }
  t.same(
    seen,
    Object.keys(pods(25)).map((key) => key.slice('pods/default/'.length)),
  )
  t.equal(revisions.size, 1)
  t.same(remaining, [15, 5, undefined])
})

void t.test('with a selector the number of remaining items is omitted', async (t) => {
  const app = await start(t, { pods: 25 })
  const answer = await ask(app, 'limit=10&fieldSelector=metadata.name!%3Dp0003')
  t.equal(answer.body.items.length, 10)
  t.ok(answer.body.metadata.continue)
  t.equal(answer.body.metadata.remainingItemCount, undefined)
})

void t.test('a page token for one namespace shows no other', async (t) => {
  const app = await start(t)
  const objects = Object.fromEntries(
    ['a', 'ab', 'b'].flatMap((namespace) =>
      ['x', 'y'].map((name) => [`pods/${namespace}/${name}`, pod(`${namespace}-${name}`, { namespace })]),
    ),
  )
  const revision = app.commit(objects)
  await until(() => sourceOf(app).cache.revision >= revision, 'they are there')
  const first = await ask(app, 'limit=1', {}, '/api/v1/namespaces/a/pods')
  t.equal(first.body.metadata.remainingItemCount, 1)
  const second = await ask(app, `limit=5&continue=${first.body.metadata.continue}`, {}, '/api/v1/namespaces/a/pods')
  t.same([...names(first), ...names(second)], ['a-x', 'a-y'])
  t.equal(second.body.metadata.continue, undefined)
})

void t.test('an expired token is answered with 410 and a fresh one for the newest revision', async (t) => {
  const app = await start(t, { pods: 25, config: { watchCacheAge: 0 } })
  const first = await ask(app, 'limit=10')
  const old = first.body.metadata.continue!
  const token = JSON.parse(Buffer.from(old, 'base64url').toString()) as { rv: number }
  // As at another replica, or later at the same one: the snapshot is gone, the ring no longer reaches back, and etcd
  // has compacted it.
  const gone = Buffer.from(JSON.stringify({ ...token, rv: token.rv - 1 })).toString('base64url')
  for (let i = 0; i < 10; i++) app.put(`pods/default/new${i}`, pod(`new${i}`))
  app.upstream.compact(app.upstream.revision)
  await until(() => sourceOf(app).cache.revision === app.upstream.revision, 'all is there')
  const answer = await ask(app, `limit=10&continue=${gone}`)
  t.match(answer.body, { kind: 'Status', code: 410, reason: 'Expired' })
  t.equal(answer.status, 410)
  const fresh = await ask(app, `limit=10&continue=${answer.body.metadata.continue}`)
  t.equal(fresh.status, 200)
  t.equal(names(fresh)[0], 'p0010', 'after what the first page ended with')
  t.ok(Number(fresh.body.metadata.resourceVersion) > token.rv)
})

void t.test('resourceVersion and resourceVersionMatch combine as in the API server', async (t) => {
  const app = await start(t)
  const first = app.put('pods/default/a', pod('a'))
  const second = app.put('pods/default/b', pod('b'))
  const last = app.put('pods/default/c', pod('c'))
  await until(() => sourceOf(app).cache.revision >= last, 'they are there')
  const cases: [query: string, status: number, names: string[], atLeast: number][] = [
    ['', 200, ['a', 'b', 'c'], last],
    ['limit=2', 200, ['a', 'b'], last],
    ['resourceVersion=0', 200, ['a', 'b', 'c'], last],
    ['resourceVersion=0&limit=1', 200, ['a', 'b', 'c'], last],
    [`resourceVersion=${first}`, 200, ['a', 'b', 'c'], last],
    [`resourceVersion=${second}&limit=1`, 200, ['a'], second],
    [`resourceVersion=${first}&resourceVersionMatch=NotOlderThan`, 200, ['a', 'b', 'c'], last],
    [`resourceVersion=${first}&resourceVersionMatch=NotOlderThan&limit=2`, 200, ['a', 'b'], last],
    [`resourceVersion=0&resourceVersionMatch=NotOlderThan`, 200, ['a', 'b', 'c'], last],
    [`resourceVersion=${first}&resourceVersionMatch=Exact`, 200, ['a'], first],
    [`resourceVersion=${second}&resourceVersionMatch=Exact`, 200, ['a', 'b'], second],
    ['resourceVersion=0&resourceVersionMatch=Exact', 422, [], 0],
    ['resourceVersionMatch=Exact', 422, [], 0],
    ['resourceVersionMatch=NotOlderThan', 422, [], 0],
    ['resourceVersion=none', 400, [], 0],
  ]
  for (const [query, status, found, atLeast] of cases) {
    const answer = await ask(app, query)
    t.equal(answer.status, status, query)
    if (status !== 200) continue
    t.same(names(answer), found, query)
    const revision = Number(answer.body.metadata.resourceVersion)
    const isExact = query.includes('Exact') || query === `resourceVersion=${second}&limit=1`
    t.ok(isExact ? revision === atLeast : revision >= atLeast, `${query}: at ${revision}`)
  }
})

void t.test('a list waits for a future revision, which is too large after 3 s', async (t) => {
  const app = await start(t, { pods: 1 })
  const next = app.upstream.revision + 1
  const waiting = ask(app, `resourceVersion=${next}`)
  await until(() => sourceOf(app).cache.reads.waiting === 1, 'it waits')
  app.put('pods/default/late', pod('late'))
  t.same(names(await waiting), ['late', 'p0000'])
  const startedMs = performance.now()
  const answer = await ask(app, 'resourceVersion=999999')
  t.ok(performance.now() - startedMs > 2_900)
  t.equal(answer.status, 504)
  t.equal(answer.headers.get('retry-after'), '1')
  t.match(answer.body, {
    reason: 'Timeout',
    code: 504,
    message: /^Timeout: Too large resource version: 999999, current: \d+$/,
    details: {
      retryAfterSeconds: 1,
      causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    },
  })
})

void t.test('two hundred equal concurrent requests share one body', async (t) => {
  const app = await start(t, { pods: 500, filler: 'x'.repeat(1_000), config: { maxInitialStates: 1 } })
  const { cache } = sourceOf(app)
  let read = 0
  const snapshot = cache.snapshot()
  const objects = snapshot.objects.bind(snapshot)
  snapshot.objects = (...given) => {
    read++
    return objects(...given)
  }
  const answers = await Promise.all(Array.from({ length: 200 }, () => ask(app, 'resourceVersion=0')))
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]), 'one slot was enough')
  t.equal(new Set(answers.map(({ text }) => text)).size, 1)
  t.equal(answers[0]!.body.items.length, 500)
  t.equal(read, 1, 'the state was read once')
})

void t.test('a list is gzipped from 128 KB on, for clients that accept it', async (t) => {
  const app = await start(t, { pods: 200, filler: 'x'.repeat(1_000) })
  const raw = (
    path: string,
    encoding?: string,
  ): Promise<{ encoding: string | undefined; vary: string; body: Buffer }> =>
    new Promise((resolve, reject) => {
      get(
        `${app.url}${path}`,
        { headers: encoding === undefined ? {} : { 'accept-encoding': encoding } },
        (response) => {
          const chunks: Buffer[] = []
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () =>
            resolve({
              encoding: response.headers['content-encoding'],
              vary: String(response.headers.vary),
              body: Buffer.concat(chunks),
            }),
          )
        },
      ).on('error', reject)
    })
  const plain = await raw('/api/v1/pods')
  const packed = await raw('/api/v1/pods', 'gzip')
  const refused = await raw('/api/v1/pods', 'gzip;q=0')
  const small = await raw('/api/v1/pods?limit=1', 'gzip')
  const indented = await raw('/api/v1/pods?limit=1&pretty=true', 'gzip')

  t.same(
    [plain, packed, refused, small, indented].map(({ encoding }) => encoding),
    [undefined, 'gzip', undefined, undefined, undefined],
  )
  for (const { vary } of [plain, packed, refused, small]) t.match(vary, /Accept-Encoding/)
  t.ok(packed.body.length < plain.body.length / 5)
  t.ok(gunzipSync(packed.body).equals(plain.body))
})

void t.test('a compressed list needs only one slot', async (t) => {
  const app = await start(t, { pods: 200, filler: 'x'.repeat(1_000), config: { maxInitialStates: 1 } })
  const answer = await ask(app, '', { 'accept-encoding': 'gzip' })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-encoding'), 'gzip')
})

void t.test('a client that disconnects in the middle of a list leaves no memory behind', async (t) => {
  const app = await start(t, { pods: 3_000, filler: 'x'.repeat(4_000), config: { maxInitialStates: 1 } })
  const { dispatcher } = sourceOf(app)
  for (const encoding of ['identity', 'gzip']) {
    await new Promise<void>((resolve, reject) => {
      const path = `${app.url}/api/v1/pods?fieldSelector=spec.nodeName!%3D${encoding}`
      const asked = get(path, { agent: false, headers: { 'accept-encoding': encoding } }, (response) => {
        response.once('data', () => asked.destroy())
        response.on('error', () => {})
        response.on('close', resolve)
      })
      asked.on('error', reject)
    }).catch(() => {})
    await until(() => dispatcher.facts.pathsInUse === 0, `${encoding}: the selector's facts are let go`)
    const next = await ask(app, 'limit=1')
    t.equal(next.status, 200, `${encoding}: the slot is free again`)
  }
})

void t.test('another list while the only slot is taken is answered with 429 and Retry-After', async (t) => {
  const app = await start(t, { pods: 3_000, filler: 'x'.repeat(4_000), config: { maxInitialStates: 1 } })
  const asked = get(`${app.url}/api/v1/pods`, { agent: false, headers: { 'accept-encoding': 'identity' } })
  asked.on('error', () => {})
  t.teardown(() => asked.destroy())
  await new Promise<void>((resolve) => asked.on('response', (response) => resolve(void response.pause())))
  const answer = await ask(app, 'limit=7')
  t.equal(answer.status, 429)
  t.equal(answer.body.reason, 'TooManyRequests')
  t.ok(Number(answer.headers.get('retry-after')) >= 1)
})

void t.test('stored objects that cannot be served are counted in a warning', async (t) => {
  const app = await start(t, { pods: 1 })
  t.equal((await ask(app)).headers.get('warning'), null)
  app.put('pods/default/two/parts', { metadata: {} })
  await until(() => sourceOf(app).cache.contents.unservable.size === 1, 'it is there')
  const answer = await ask(app)
  t.same(names(answer), ['p0000'])
  t.match(answer.headers.get('warning'), /^299 - "1 stored objects of pods cannot be served"$/)
})

void t.test(
  'a resource with values encrypted at rest returns an error that says so, on watches too, and all others are served',
  async (t) => {
    const app = await start(t, { pods: 1 })
    const watch = await fetch(`${app.url}/api/v1/pods?watch=1&resourceVersion=${app.upstream.revision}`)
    const value = Buffer.from('k8s:enc:aescbc:v1:key:x')
    app.upstream.commit([{ type: 'put', key: '/registry/pods/default/secret' as never, value }])
    const ended = JSON.parse(await watch.text()) as unknown
    t.match(ended, { type: 'ERROR', object: { kind: 'Status', code: 501, reason: 'NotImplemented' } })
    const answer = await ask(app)
    t.equal(answer.status, 501)
    t.match(answer.body, { kind: 'Status', message: /pods cannot be served: its values are encrypted at rest/ })
    t.equal((await fetch(`${app.url}/api/v1/nodes`)).status, 200)
    t.equal((await fetch(`${app.url}/readyz`)).status, 200)
    t.match(
      await (await fetch(`${app.url}/metrics`)).text(),
      /cache_encrypted_values\{group="",resource="pods",key="aescbc:v1:key"\} 1/,
    )
  },
)

void t.test('the ages in a Table are computed at the time of the request', async (t) => {
  const app = await start(t)
  const created = new Date(Date.now() - 10_000).toISOString()
  const aged = {
    kind: 'Pod',
    apiVersion: 'v1',
    metadata: { name: 'a', namespace: 'default', creationTimestamp: created },
  }
  const revision = app.put('pods/default/a', aged)
  await until(() => sourceOf(app).cache.revision >= revision, 'it is there')
  const age = async (): Promise<string> => {
    const { text } = await ask(app, 'resourceVersion=0', { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' })
    const table = JSON.parse(text) as { columnDefinitions: { name: string }[]; rows: { cells: string[] }[] }
    return table.rows[0]!.cells[table.columnDefinitions.findIndex(({ name }) => name === 'Age')]!
  }
  const first = await age()
  await until(async () => (await age()) !== first, 'the reported age has grown')
})
