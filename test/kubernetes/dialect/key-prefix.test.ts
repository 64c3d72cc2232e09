/** `?prefix=`: part of a declared prefix can be listed, watched and authorized separately. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../../src/engine/model/event.js'
import { fetchTransport, SharedInformer } from '../../../src/client/index.js'
import { runCli, startCli } from '../../cli/support/run-cli.js'
import { type AppHarness, startApp } from '../../support/app.js'
import { until } from '../../support/until.js'

const FLAGS = '/apis/distributary.io/v1/flags'
const KEYS = ['eu', 'eu/a', 'eu/b', 'eu/b/c', 'eu:b', 'eu0', 'us/a', 'ü/a', 'ü/b', '\ufffd/a', '/', '']

const POLICY = `rules:
  - {users: [ann], verbs: ["*"], apiGroups: ["*"], resources: ["*"]}
  - {users: [bob], verbs: [get, list, watch], apiGroups: [distributary.io], resources: [flags], names: ["eu/*"]}
  - {users: [eve], verbs: [list], apiGroups: [distributary.io], resources: [flags], names: ["~*", "eu"]}
  - {users: [eve], verbs: [list], apiGroups: [distributary.io], resources: [flags], names: [".*", "ü:*"]}
`

async function startFlags(t: Test, flags: readonly string[] = []) {
  const app = await startApp(t, { flags: ['--resource', 'flags=/config/flags/', ...flags] })
  for (const key of KEYS) put(app, key, 'on')
  return app
}

function put(app: AppHarness, key: string, value: string): void {
  app.upstream.commit([{ type: 'put', key: keyFromText(`/config/flags/${key}`), value: Buffer.from(value) }])
}

interface Answer {
  readonly code?: number
  readonly message?: string
  readonly metadata: { readonly continue?: string }
  readonly items: readonly { readonly key: string }[]
}

async function ask(app: AppHarness, path: string, init: RequestInit = {}): Promise<Answer> {
  return (await (await fetch(app.url + path, init)).json()) as Answer
}

const keysOf = ({ items }: Answer): readonly string[] => items.map(({ key }) => key.slice('/config/flags/'.length))

void t.test('a list has the keys that begin with the text, in pages too', async (t) => {
  const app = await startFlags(t)
  await until(async () => keysOf(await ask(app, FLAGS)).length === KEYS.length, 'all is there')
  for (const prefix of ['', 'e', 'eu', 'eu/', 'eu/b', 'eu:', 'ü/', 'u', '/', '//', '\ufffd', '\ufffd/', 'none/']) {
    const expected = KEYS.filter((key) => key.startsWith(prefix)).toSorted((a, b) =>
      Buffer.compare(Buffer.from(a), Buffer.from(b)),
    )
    const query = `prefix=${encodeURIComponent(prefix)}`
    t.same(keysOf(await ask(app, `${FLAGS}?${query}`)), expected, JSON.stringify(prefix))
    const first = await ask(app, `${FLAGS}?${query}&limit=1`)
    const next = first.metadata.continue
    const rest = next === undefined ? [] : keysOf(await ask(app, `${FLAGS}?${query}&continue=${next}`))
    t.same([...keysOf(first), ...rest], expected, 'in pages')
  }
  const { metadata } = await ask(app, `${FLAGS}?limit=1`)
  const moved = await ask(app, `${FLAGS}?prefix=us/&continue=${metadata.continue}`)
  t.ok(
    keysOf(moved).every((key) => key.startsWith('us/')),
    'no token leads out of it',
  )
})

void t.test('a watch sees the keys with the prefix, in its initial state and afterwards', async (t) => {
  const app = await startFlags(t)
  const response = await fetch(`${app.url}${FLAGS}?watch=1&prefix=eu/&timeoutSeconds=60`)
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  t.teardown(async () => await reader.cancel())
  let text = ''
  const read = async (what: string): Promise<void> => {
    while (!text.includes(what)) {
      const { value, done } = await reader.read()
      if (done) throw new Error(`ended before ${what}`)
      text += value
    }
  }
  await read('/config/flags/eu/b/c')
  for (const key of ['us/a', 'eu0', 'eu/new', 'us/b', 'eu/a', 'eu/last']) put(app, key, 'off')
  await read('/config/flags/eu/last')
  const events = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; object: { key: string } })
  t.same(
    events.map(({ type, object }) => `${type} ${object.key.slice('/config/flags/'.length)}`),
    ['ADDED eu/a', 'ADDED eu/b', 'ADDED eu/b/c', 'ADDED eu/new', 'MODIFIED eu/a', 'ADDED eu/last'],
  )
})

void t.test('our client and our commands request a part', async (t) => {
  const app = await startFlags(t)
  const informer = new SharedInformer({ transport: fetchTransport({ server: app.url }), path: FLAGS, prefix: 'eu/' })
  informer.start()
  t.teardown(() => informer.stop())
  await informer.whenSynced()
  put(app, 'us/x', 'on')
  put(app, 'eu/x', 'on')
  await until(() => informer.store.get('eu:x') !== undefined, 'a new one comes')
  t.same([...informer.store.values()].map(({ metadata }) => metadata.name).sort(), ['eu:a', 'eu:b', 'eu:b:c', 'eu:x'])
  const environment = { DISTRIBUTARY_SERVER: app.url }
  const got = await runCli(t, ['get', 'flags', '--prefix', 'us/', '-o', 'name'], { environment })
  t.equal(got.stdout.replaceAll(/^.*\//gm, ''), 'us:a\nus:x\n', got.stderr)
  const watch = startCli(t, ['get', 'flags', '-w', '--output-watch-events', '--prefix', 'us/', '-o', 'json'], {
    environment,
  })
  await until(() => watch.stdout().includes('/config/flags/us/x'), 'the watch shows it')
  t.notMatch(watch.stdout(), /flags\/eu/)
})

void t.test('a part is rejected where it has no meaning, and never ignored', async (t) => {
  const app = await startApp(t, {
    flags: [
      '--config',
      join(
        t.testdir({ 'config.yaml': 'resources: [{name: routes, prefix: /routes/, namespaced: true}]\n' }),
        'config.yaml',
      ),
      '--resource',
      'flags=/config/flags/',
      '--enable-writes',
    ],
  })
  for (const key of ['eu/a', 'us/a']) put(app, key, 'on')
  app.upstream.commit([{ type: 'put', key: keyFromText('/routes/shop/eu/a'), value: Buffer.from('x') }])
  const routes = '/apis/distributary.io/v1/routes'
  const cases: readonly (readonly [path: string, message: RegExp])[] = [
    ['/api/v1/pods?prefix=a', /^prefix: only declared prefixes support it, not pods/],
    ['/api/v1/pods?watch=1&prefix=', /^prefix: only declared prefixes support it, not pods/],
    [`${routes}?prefix=eu/`, /requires a namespace/],
    [`${FLAGS}?prefix=%zz`, /not valid UTF-8/],
    [`${FLAGS}?prefix=a;b`, /not valid UTF-8/],
    [`${FLAGS}?%70refix=%zz`, /not valid UTF-8/],
    [`${FLAGS}?prefix=%ff`, /not valid UTF-8/],
    [`${FLAGS}?prefix=%EF%BF`, /not valid UTF-8/],
    [`${FLAGS}?%70refix=%ed%a0%80`, /not valid UTF-8/],
    [`${FLAGS}?prefix=%00`, /NUL/],
    [`${FLAGS}?prefix=${'a'.repeat(5_000)}`, /longer than 4096/],
    [`${FLAGS}?fieldSelector=metadata.name=new*`, /no key has the name "new\*"; .* prefix=new$/],
    [`${FLAGS}?watch=1&fieldSelector=metadata.name!=a/b`, /no key has the name "a\/b"$/],
  ]
  for (const [path, message] of cases) t.match(await ask(app, path), { code: 400, message }, path)
  const pods = '/api/v1/namespaces/shop/pods'
  t.match(await ask(app, pods, { method: 'DELETE' }), { kind: 'PodList' })
  t.match(await ask(app, `${pods}?prefix=a`, { method: 'DELETE' }), { code: 400 })
  t.match(await ask(app, routes, { method: 'DELETE' }), { code: 405 }, 'a deletion requires a namespace, too')
  const inShop = await ask(app, '/apis/distributary.io/v1/namespaces/shop/routes?prefix=eu/')
  t.same(
    inShop.items.map(({ key }) => key),
    ['/routes/shop/eu/a'],
  )
  await ask(app, `${FLAGS}?prefix=eu/`, { method: 'DELETE' })
  await until(async () => keysOf(await ask(app, FLAGS)).join() === 'us/a', 'a deletion of a part leaves the rest')
  const options = await ask(app, FLAGS, { method: 'OPTIONS' })
  t.match(options, { code: 405, message: /: OPTIONS needs --cors-allowed-origins$/ })
})

void t.test('Policy allows a part by the keys in it; other modes authorize it like the whole resource', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'prefix-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'tokens.csv'), 'ann,ann,1\nbob,bob,2\neve,eve,3\n')
  writeFileSync(join(folder, 'policy.yaml'), POLICY)
  const access = ['--token-auth-file', join(folder, 'tokens.csv'), '--authorization-mode=Policy']
  const app = await startFlags(t, [...access, '--authorization-policy-file', join(folder, 'policy.yaml')])
  const codeFor = async (user: string, query: string): Promise<number> => {
    const url = `${app.url}${FLAGS}${query}`
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${user}` },
      signal: AbortSignal.timeout(10_000),
    })
    await response.body?.cancel()
    return response.status
  }
  const cases: readonly (readonly [query: string, ann: number, bob: number, eve: number])[] = [
    ['', 200, 403, 403],
    ['?prefix=', 200, 403, 403],
    ['?prefix=eu/', 200, 200, 403],
    ['?prefix=eu%2F', 200, 200, 403],
    ['?prefix=eu/b', 200, 200, 403],
    ['?prefix=eu', 200, 403, 403],
    ['?prefix=e', 200, 403, 403],
    ['?prefix=eu:', 200, 403, 403],
    ['?prefix=us/', 200, 403, 403],
    ['?prefix=eu/&prefix=us/', 200, 200, 403],
    ['?prefix=us/&prefix=eu/', 200, 403, 403],
    ['?prefix=eu/%zz', 400, 403, 403],
    ['?prefix=%2525', 200, 403, 200],
    // The key `.` is named ~2e, and the name of a key that is not UTF-8 begins with ~.
    ['?prefix=.', 200, 403, 403],
    ['?prefix=..', 200, 403, 403],
    ['?prefix=.x', 200, 403, 200],
    ['?prefix=-', 200, 403, 200],
    ['?prefix=ü/', 200, 403, 403],
    ['?prefix=.aü', 200, 403, 200],
    ['?watch=1&prefix=eu/', 200, 200, 403],
    ['?watch=1&prefix=us/', 200, 403, 403],
    ['/eu:a', 200, 200, 403],
    ['/eu:a?prefix=us/', 200, 200, 403],
    ['/us:a?prefix=eu/', 200, 403, 403],
  ]
  for (const [query, ...codes] of cases) {
    for (const [i, user] of ['ann', 'bob', 'eve'].entries())
      t.equal(await codeFor(user, query), codes[i], `${user} ${query}`)
  }
})
