/**
 * ETags by comparison: what a client has cached under an ETag is what it would be sent now, in every form and for every
 * selection; and callers with different rights never share an ETag.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

const POLICY = `rules:
  - users: [ann]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
  - users: [bob]
    verbs: [get, list]
    apiGroups: [""]
    resources: [pods]
    namespaces: [web]
  - users: [bob]
    verbs: [get]
    apiGroups: [distributary.io]
    resources: [flags]
    names: ["eu/*"]
`

function accessFlags(t: Test, policy = POLICY): { readonly flags: readonly string[]; readonly policyFile: string } {
  const folder = mkdtempSync(join(tmpdir(), 'etags-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const [tokens, policyFile] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  writeFileSync(tokens, 'ann,ann,1\nbob,bob,2\n')
  writeFileSync(policyFile, policy)
  const access = ['--token-auth-file', tokens, '--authorization-mode=Policy', '--authorization-policy-file', policyFile]
  return { flags: ['--resource', 'flags=/config/flags/', ...access], policyFile }
}

const FORMS = [
  'application/json',
  'application/yaml',
  'application/vnd.kubernetes.protobuf',
  'application/json;as=Table;g=meta.k8s.io;v=v1',
  'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
  'application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;pretty=1',
]
const PATHS = [
  '/api/v1/pods',
  '/api/v1/namespaces/web/pods',
  '/api/v1/namespaces/db/pods',
  '/api/v1/namespaces/web/pods/a',
  '/api/v1/namespaces/db/pods/a',
  '/apis/distributary.io/v1/flags',
  '/apis/distributary.io/v1/flags/eu:checkout',
  '/apis/distributary.io/v1/flags/us:checkout',
]
const QUERIES = [
  '',
  'pretty=1',
  'limit=1',
  'limit=2',
  'labelSelector=app%3Da',
  'labelSelector=app%3Db',
  'fieldSelector=metadata.name%3Da',
  'fields=metadata.labels',
  'resourceVersion=0',
  'includeObject=Object',
]

interface Answer {
  readonly code: number
  readonly etag: string
  readonly vary: string
  readonly cacheControl: string
  readonly body: string
}

async function ask(app: AppHarness, user: string, path: string, headers: Record<string, string> = {}): Promise<Answer> {
  const authorization: Record<string, string> = user === '' ? {} : { authorization: `Bearer ${user}` }
  const response = await fetch(app.url + path, { headers: { ...authorization, ...headers } })
  const named = (name: string): string => response.headers.get(name) ?? ''
  const body = Buffer.from(await response.arrayBuffer()).toString('latin1')
  return { code: response.status, etag: named('etag'), vary: named('vary'), cacheControl: named('cache-control'), body }
}

async function startWorld(t: Test, flags: readonly string[]) {
  const objects = Object.fromEntries(
    ['web', 'db'].flatMap((namespace) =>
      ['a', 'b', 'c'].map((name) => [`pods/${namespace}/${name}`, pod(name, { namespace, labels: { app: name } })]),
    ),
  )
  const app = await startApp(t, { flags: [...flags, '--requests-per-second=100000'], objects })
  const flag = (key: string, value: string): void => {
    app.upstream.commit([{ type: 'put', key: keyFromText(`/config/flags/${key}`), value: Buffer.from(value) }])
  }
  for (const key of ['eu/checkout', 'us/checkout']) flag(key, '{"on":true}')
  await until(async () => (await ask(app, 'ann', PATHS.at(-1)!)).code === 200, 'all is there')
  return { app, flag }
}

function* requests(): Generator<readonly [path: string, accept: string]> {
  for (const path of PATHS) {
    for (const query of QUERIES) for (const accept of FORMS) yield [query === '' ? path : `${path}?${query}`, accept]
  }
}

void t.test("in every format an ETag identifies the caller's own answer, never another caller's", async (t) => {
  const { app, flag } = await startWorld(t, accessFlags(t).flags)
  const kept = new Map<string, Answer>()
  let allowed = 0
  for (const [path, accept] of requests()) {
    const mine = await ask(app, 'ann', path, { accept })
    if (mine.code !== 200) continue
    allowed++
    const what = `${path} ${accept}`
    kept.set(what, mine)
    const again = await ask(app, 'ann', path, { accept, 'if-none-match': `"x", ${mine.etag}` })
    // A Table shows ages, so it changes every second.
    const isSteady = !accept.includes('as=Table')
    if (isSteady && again.code !== 304) t.fail(`not a 304: ${what}: ${again.code}`)
    if (again.code === 304 && (again.body !== '' || again.etag !== mine.etag || again.vary !== mine.vary))
      t.fail(`not the same: ${what}`)
    if (!/^W\/"[-\w]{27}"$/.test(mine.etag)) t.fail(`not a weak tag: ${what}: ${mine.etag}`)
    if (!/^Accept,.*\bAuthorization\b/.test(mine.vary)) t.fail(`Vary: ${mine.vary}: ${what}`)
    if (mine.cacheControl !== 'no-cache, private') t.fail(`Cache-Control: ${mine.cacheControl}: ${what}`)
    const theirs = await ask(app, 'bob', path, { accept })
    const withMine = await ask(app, 'bob', path, { accept, 'if-none-match': mine.etag })
    const isSame = withMine.code === theirs.code && withMine.etag === theirs.etag && withMine.body === theirs.body
    if ((isSteady && !isSame) || withMine.code === 304)
      t.fail(`the tag of another caller was taken: ${what}: ${withMine.code}`)
  }
  t.ok(allowed > 200, `${allowed} answers`)
  const bodies = new Map<string, string>()
  for (const [what, { etag, body }] of kept) {
    if ((bodies.get(etag) ?? body) !== body) t.fail(`two bodies of one tag: ${what}`)
    bodies.set(etag, body)
  }

  const changes = [
    () => app.put('pods/web/a', pod('a', { namespace: 'web', labels: { app: 'b' } })),
    () => app.delete('pods/db/c'),
    () => flag('eu/checkout', '{"on":false}'),
  ]
  for (const change of changes) {
    change()
    const counts = { same: 0, other: 0 }
    for (const [path, accept] of requests()) {
      const before = kept.get(`${path} ${accept}`)
      if (before === undefined) continue
      const [conditional, plain] = [
        await ask(app, 'ann', path, { accept, 'if-none-match': before.etag }),
        await ask(app, 'ann', path, { accept }),
      ]
      // A list from the cache may be from just before the change.
      if (path.includes('resourceVersion=0')) continue
      const body = conditional.code === 304 ? before.body : conditional.body
      const isSteady = !accept.includes('as=Table')
      if (isSteady && body !== plain.body) t.fail(`what was kept is not what is sent now: ${path} ${accept}`)
      if (plain.etag === before.etag && plain.body !== before.body) t.fail(`two bodies of one tag: ${path} ${accept}`)
      counts[conditional.code === 304 ? 'same' : 'other']++
      if (plain.code === 200) kept.set(`${path} ${accept}`, plain)
    }
    t.ok(counts.same > 0 && counts.other > 0, `${counts.same} were kept, ${counts.other} are new`)
  }
})

void t.test(
  'a public answer has one ETag for all, and becomes private as soon as not everyone may read it',
  async (t) => {
    const open = `${POLICY}  - users: [system:anonymous]\n    verbs: [get, list]\n    apiGroups: [distributary.io]\n    resources: [flags]\n`
    const { flags, policyFile } = accessFlags(
      t,
      `${open}  - users: [bob]\n    verbs: [list]\n    apiGroups: [distributary.io]\n    resources: [flags]\n`,
    )
    const publicly = ['--anonymous-auth', '--public-caching', 'flags.distributary.io=5s/30s']
    const { app } = await startWorld(t, [...flags, ...publicly])
    const path = '/apis/distributary.io/v1/flags'
    // JSON is indented for browsers, but not where all clients share one body.
    const headers = { 'user-agent': 'Mozilla/5.0' }
    const [ann, bob, nobody] = await Promise.all(
      ['ann', 'bob', ''].map(async (user) => await ask(app, user, path, headers)),
    )
    t.equal(nobody!.cacheControl, 'public, max-age=0, s-maxage=5, stale-while-revalidate=30')
    t.equal(nobody!.vary, 'Accept, Accept-Encoding')
    t.same([ann, bob], [nobody, nobody])
    t.equal((await ask(app, 'bob', path, { ...headers, 'if-none-match': nobody!.etag })).code, 304)
    t.match(await ask(app, '', `${path}/eu:checkout`), { code: 200, cacheControl: /^public/, vary: 'Accept' })
    t.match(await ask(app, 'ann', '/api/v1/pods'), {
      code: 200,
      cacheControl: 'no-cache, private',
      vary: /Authorization/,
    })
    t.match(await ask(app, '', `${path}/none`), { code: 404, cacheControl: 'no-cache, private' })

    writeFileSync(policyFile, POLICY)
    await until(async () => (await ask(app, '', path)).code === 403, 'the right is gone')
    t.match(await ask(app, 'ann', path, { 'if-none-match': nobody!.etag }), {
      code: 200,
      cacheControl: 'no-cache, private',
      vary: /Authorization/,
    })
  },
)

void t.test('a server does not start if caches would expose what not everyone may read', async (t) => {
  const { flags } = accessFlags(t)
  const publicly = ['--anonymous-auth', '--public-caching', 'flags.distributary.io=5s']
  await t.rejects(startApp(t, { flags: [...flags, ...publicly] }), {
    message:
      '--public-caching: system:anonymous may not list flags.distributary.io, but shared caches would show it to anyone',
  })
  const open = await startApp(t, {
    flags: ['--resource', 'flags=/config/flags/', '--public-caching', 'flags.distributary.io=5s'],
  })
  t.match(await ask(open, '', '/apis/distributary.io/v1/flags'), { cacheControl: 'public, max-age=0, s-maxage=5' })
})
