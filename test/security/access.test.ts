/**
 * Tests permissions through the whole server and over every transport. Each request of a matrix must be answered as a
 * reference decision says, which is written here without the project's code. Then permissions are revoked while watches
 * run.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'

interface Identity {
  readonly name: string
  readonly token: string | null
}

const IDENTITIES: readonly Identity[] = [
  { name: 'admin', token: 'admin-token' },
  { name: 'web', token: 'web-token' },
  { name: 'nodes', token: 'nodes-token' },
  { name: 'stranger', token: 'stranger-token' },
  { name: 'wrong token', token: 'no-such-token' },
  { name: 'nobody', token: null },
]

const TOKENS = [
  'admin-token,admin,1,"ops"',
  'web-token,web,2,"team-web"',
  'nodes-token,nodes,3',
  'stranger-token,stranger,4',
]

const POLICY = `rules:
  - name: ops do everything
    groups: [ops]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
  - name: ops read every path
    groups: [ops]
    verbs: ["*"]
    paths: ["*"]
  - name: web reads pods of its namespace
    groups: [team-web]
    verbs: [get, list, watch]
    apiGroups: [""]
    resources: [pods]
    namespaces: [web]
  - name: nodes read nodes
    users: [nodes]
    verbs: [get, list, watch]
    apiGroups: [""]
    resources: [nodes]
  - name: nodes look at the status page
    users: [nodes]
    verbs: [get]
    paths: [/ui/events, /api/v1]
`

interface Asked {
  readonly verb: 'get' | 'list' | 'watch'
  readonly resource: 'pods' | 'nodes' | 'configmaps'
  /** The namespace; '' for all namespaces, or for a cluster-scoped resource. */
  readonly namespace: string
}

/** Returns the reference answer: 401, 403, or the code of an allowed request. */
function expected(identity: Identity, { resource, namespace }: Asked): number {
  if (identity.token === null || identity.token === 'no-such-token') return 401
  if (identity.name === 'admin') return 200
  if (identity.name === 'web') return resource === 'pods' && namespace === 'web' ? 200 : 403
  if (identity.name === 'nodes') return resource === 'nodes' ? 200 : 403
  return 403
}

const REQUESTS: readonly Asked[] = (['get', 'list', 'watch'] as const).flatMap((verb) => [
  { verb, resource: 'pods', namespace: 'web' },
  { verb, resource: 'pods', namespace: 'db' },
  // A get needs a namespace, because it names one object.
  ...(verb === 'get' ? [] : [{ verb, resource: 'pods' as const, namespace: '' }]),
  { verb, resource: 'nodes', namespace: '' },
  { verb, resource: 'configmaps', namespace: 'web' },
])

function pathOf({ verb, resource, namespace }: Asked): string {
  const scope = namespace === '' ? '' : `/namespaces/${namespace}`
  const collection = `/api/v1${scope}/${resource}`
  if (verb === 'get') return `${collection}/one`
  return verb === 'watch' ? `${collection}?watch=1&timeoutSeconds=1&resourceVersion=1` : collection
}

type Transport = (app: AppHarness, path: string, token: string | null) => Promise<number>

const bearer = (token: string | null): Record<string, string> =>
  token === null ? {} : { authorization: `Bearer ${token}` }

const http1: Transport = async (app, path, token) =>
  await new Promise((resolve, reject) => {
    const request = httpRequest(`${app.url}${path}`, { headers: bearer(token), agent: false }, (response) => {
      resolve(response.statusCode ?? 0)
      response.destroy()
    })
    request.on('error', reject)
    request.end()
  })

const http2: Transport = async (app, path, token) => {
  const session = connect(app.url)
  try {
    return await new Promise((resolve, reject) => {
      const stream = session.request({ ':path': path, ...bearer(token) })
      stream.on('response', (headers) => resolve(headers[':status'] ?? 0))
      stream.on('error', reject)
      stream.end()
    })
  } finally {
    session.destroy()
  }
}

const sse: Transport = async (app, path, token) =>
  await new Promise((resolve, reject) => {
    const headers = { accept: 'text/event-stream', ...bearer(token) }
    const request = httpRequest(`${app.url}${path}`, { headers, agent: false }, (response) => {
      resolve(response.statusCode ?? 0)
      response.destroy()
    })
    request.on('error', reject)
    request.end()
  })

const webSocket: Transport = async (app, path, token) =>
  await new Promise((resolve, reject) => {
    const protocol = 'base64url.bearer.authorization.k8s.io.'
    const protocols = token === null ? [] : [`${protocol}${Buffer.from(token).toString('base64url')}`, 'v1']
    const socket = new WebSocket(`${app.url.replace('http', 'ws')}${path}`, protocols)
    socket.on('open', () => {
      resolve(200)
      socket.terminate()
    })
    socket.on('unexpected-response', (_request, response) => {
      resolve(response.statusCode ?? 0)
      response.destroy()
    })
    socket.on('error', reject)
  })

const TRANSPORTS: readonly { readonly name: string; readonly ask: Transport; readonly verbs: readonly string[] }[] = [
  { name: 'HTTP/1.1', ask: http1, verbs: ['get', 'list', 'watch'] },
  { name: 'HTTP/2', ask: http2, verbs: ['get', 'list', 'watch'] },
  { name: 'SSE', ask: sse, verbs: ['watch'] },
  { name: 'WebSocket', ask: webSocket, verbs: ['watch'] },
]

const OBJECTS = {
  'pods/web/one': pod('one', { namespace: 'web' }),
  'pods/db/one': pod('one', { namespace: 'db' }),
  'minions/one': { kind: 'Node', apiVersion: 'v1', metadata: { name: 'one' } },
  'configmaps/web/one': { kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'one', namespace: 'web' } },
}

interface Secured extends AppHarness {
  readonly policyFile: string
  readonly tokenFile: string
}

async function secured(t: Test, flags: readonly string[] = []): Promise<Secured> {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-access-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const policyFile = join(directory, 'policy.yaml')
  const tokenFile = join(directory, 'tokens.csv')
  writeFileSync(policyFile, POLICY)
  writeFileSync(tokenFile, `${TOKENS.join('\n')}\n`)
  const app = await startApp(t, {
    objects: OBJECTS,
    flags: [
      '--token-auth-file',
      tokenFile,
      '--authorization-mode',
      'Policy',
      '--authorization-policy-file',
      policyFile,
      ...flags,
    ],
  })
  return Object.assign(app, { policyFile, tokenFile })
}

void t.test(
  'every identity, verb, resource and namespace is answered as in the reference, on every transport',
  async (t) => {
    const app = await secured(t)
    for (const { name, ask, verbs } of TRANSPORTS) {
      for (const identity of IDENTITIES) {
        for (const asked of REQUESTS.filter(({ verb }) => verbs.includes(verb))) {
          const what = `${name}: ${identity.name} ${asked.verb} ${asked.resource} in "${asked.namespace}"`
          t.equal(await ask(app, pathOf(asked), identity.token), expected(identity, asked), what)
        }
      }
    }
  },
)

void t.test('a refusal uses the API server’s words, and comes before a 404', async (t) => {
  const app = await secured(t)
  const get = async (path: string, token: string): Promise<{ code: number; message: string }> => {
    const response = await fetch(`${app.url}${path}`, { headers: bearer(token) })
    return (await response.json()) as { code: number; message: string }
  }
  t.match(await get('/api/v1/namespaces/db/pods', 'web-token'), {
    code: 403,
    reason: 'Forbidden',
    message: 'pods is forbidden: User "web" cannot list resource "pods" in API group "" in the namespace "db"',
  })
  t.match(await get('/api/v1/pods', 'web-token'), {
    message: 'pods is forbidden: User "web" cannot list resource "pods" in API group "" at the cluster scope',
  })
  t.match(await get('/api/v1/namespaces/db/pods/no-such', 'web-token'), { code: 403 })
  t.match(await get('/apis/no.such.group/v1/things', 'web-token'), { code: 403 })
  t.match(await get('/apis/no.such.group/v1/things', 'admin-token'), { code: 404 })
  t.match(await get('/metrics', 'web-token'), { code: 403 })
  for (const path of ['/api/v1', '/%61pi/%76%31']) {
    t.match(await get(path, 'nodes-token'), { kind: 'APIResourceList' }, `${path}: a rule is for every spelling of it`)
    t.match(await get(path, 'web-token'), { code: 403 })
  }
})

void t.test('each path is open to those listed in the table of docs/guide/access.md', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'ticket-key-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'key'), 'k'.repeat(32))
  const app = await secured(t, ['--ticket-key-file', join(folder, 'key')])
  const document = readFileSync(fileURLToPath(new URL('../../../docs/guide/access.md', import.meta.url)), 'utf8')
  const rows = [...document.matchAll(/^\| `(\/[^`]*)` \| (\d+) \| (\d+) \| (\d+) \|$/gm)]
  t.ok(rows.length >= 15, 'docs/guide/access.md has a table of them')
  for (const [, path = '', ...codes] of rows) {
    for (const [i, token] of [null, 'stranger-token', 'admin-token'].entries()) {
      const { status, body } = await fetch(`${app.url}${path}`, { headers: bearer(token) })
      t.equal(String(status), codes[i], `${path} to ${token}`)
      await body?.cancel()
    }
  }
  const check = async (headers: Record<string, string>): Promise<number> =>
    (await fetch(`${app.url}/consistency-check`, { method: 'POST', headers })).status
  t.equal(await check({}), 401)
  t.equal(await check(bearer('web-token')), 403)
  t.equal(await check(bearer('admin-token')), 200)
})

void t.test(
  'the status page shows a resource’s selectors only to readers who may list it everywhere, and clients by a separate permission',
  async (t) => {
    const app = await secured(t)
    const leaving = new AbortController()
    t.teardown(() => leaving.abort())
    for (const path of ['/api/v1/pods?labelSelector=tenant%3Dacme', '/api/v1/nodes?labelSelector=rack%3Dr7']) {
      const { status } = await fetch(`${app.url}${path}&watch=1`, {
        headers: bearer('admin-token'),
        signal: leaving.signal,
      })
      t.equal(status, 200)
    }
    const shownTo = async (token: string): Promise<Record<string, unknown>> => {
      const leavingNow = new AbortController()
      const answer = await fetch(`${app.url}/ui/events`, { headers: bearer(token), signal: leavingNow.signal })
      let text = ''
      for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
        text += chunk
        if (/event: status\n.*\n\n/.test(text)) break
      }
      leavingNow.abort()
      const { groups, clients } = JSON.parse(/data: (.*)/.exec(text)![1]!) as {
        groups: { resource: string; selector: string | null }[]
        clients: { client: string; watchers: number }[] | null
      }
      return { clients, ...Object.fromEntries(groups.map(({ resource, selector }) => [resource, selector])) }
    }
    const clients = [{ client: /admin/, watchers: 2 }]
    t.match(await shownTo('admin-token'), { pods: /tenant.*acme/, nodes: /rack.*r7/, clients })
    t.match(await shownTo('nodes-token'), { pods: null, nodes: /rack.*r7/, clients: null })
  },
)

void t.test('a cached body never reaches a caller who may not read it', async (t) => {
  const app = await secured(t)
  const list = async (token: string): Promise<Response> =>
    await fetch(`${app.url}/api/v1/namespaces/db/pods?resourceVersion=0`, { headers: bearer(token) })
  const allowed = await list('admin-token')
  t.equal(allowed.status, 200)
  t.match(await allowed.text(), /"name":"one"/)
  for (const token of ['web-token', 'nodes-token', 'stranger-token']) {
    const refused = await list(token)
    t.equal(refused.status, 403)
    t.notMatch(await refused.text(), /uid-db-one/)
  }
})

for (const [name, takeAway, last] of [
  [
    'a rule that is taken away',
    (app: Secured) => writeFileSync(app.policyFile, POLICY.replace('namespaces: [web]', 'namespaces: [other]')),
    /"type":"ERROR".*"code":403/,
  ],
  [
    'a token that is taken away',
    (app: Secured) => writeFileSync(app.tokenFile, `${TOKENS.filter((line) => !line.startsWith('web')).join('\n')}\n`),
    /"type":"ADDED"[^\n]*\n$/,
  ],
] as const) {
  void t.test(`${name} ends the running watches of the affected callers within seconds, and no others`, async (t) => {
    const app = await secured(t)
    const watch = async (token: string): Promise<{ text: string; ended: boolean }> => {
      const state = { text: '', ended: false }
      const request = httpRequest(
        `${app.url}/api/v1/namespaces/web/pods?watch=1&resourceVersion=0`,
        { headers: bearer(token), agent: false },
        (response) => {
          response.on('data', (bytes: Buffer) => (state.text += bytes.toString()))
          response.on('end', () => (state.ended = true))
          response.on('error', () => {})
        },
      )
      request.on('error', () => {})
      request.end()
      t.teardown(() => request.destroy())
      await until(() => state.text.includes('"ADDED"'), 'the watch runs')
      return state
    }
    const [web, admin] = [await watch('web-token'), await watch('admin-token')]
    takeAway(app)
    await until(() => web.ended, 'the watch of web ends', 15_000)
    t.match(web.text, last)
    t.notOk(admin.ended, 'the other watch continues')
    app.put('pods/web/two', pod('two', { namespace: 'web' }))
    await until(() => admin.text.includes('"two"'), 'the other is sent what comes')
    t.notMatch(web.text, /"two"/)
    t.equal(app.watchers, 1)
  })
}

void t.test('RBAC is read live from the store', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-rbac-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokenFile = join(directory, 'tokens.csv')
  writeFileSync(tokenFile, `${TOKENS.join('\n')}\n`)
  const app = await startApp(t, {
    objects: OBJECTS,
    flags: ['--token-auth-file', tokenFile, '--authorization-mode', 'RBAC'],
  })
  const ask = async (): Promise<number> =>
    (await fetch(`${app.url}/api/v1/namespaces/web/pods`, { headers: bearer('web-token') })).status
  t.equal(await ask(), 403)
  const rbac = { apiVersion: 'rbac.authorization.k8s.io/v1' }
  app.put('roles/web/reader', {
    ...rbac,
    kind: 'Role',
    metadata: { name: 'reader', namespace: 'web' },
    rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] }],
  })
  app.put('rolebindings/web/readers', {
    ...rbac,
    kind: 'RoleBinding',
    metadata: { name: 'readers', namespace: 'web' },
    subjects: [{ kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: 'team-web' }],
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
  })
  const becomes = (code: number): Promise<void> =>
    until(async () => (await ask()) === code, `it answers ${code}`, 10_000)
  await becomes(200)
  app.delete('rolebindings/web/readers')
  await becomes(403)
})

void t.test('the audit log says who did what and why, and contains no token', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-audit-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, 'audit.jsonl')
  const app = await secured(t, ['--audit-log-path', path])
  await http1(app, '/api/v1/namespaces/web/pods', 'web-token')
  await http1(app, '/api/v1/namespaces/db/pods', 'web-token')
  await http1(app, '/api/v1/nodes', 'no-such-token')
  const read = (): Record<string, unknown>[] =>
    readFileSync(path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  await until(() => read().length >= 3, 'three lines')
  t.match(read(), [
    {
      user: 'web',
      verb: 'list',
      resource: 'pods',
      namespace: 'web',
      code: 200,
      decision: 'allow',
      rule: /web reads pods/,
    },
    { user: 'web', verb: 'list', namespace: 'db', code: 403, decision: 'forbid', rule: null },
    { user: '', resource: 'nodes', code: 401, decision: 'unauthenticated' },
  ])
  t.notMatch(readFileSync(path, 'utf8'), /web-token|no-such-token/)
})

void t.test('the audit log has the decision on the status page, not those on what the page may show', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-audit-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, 'audit.jsonl')
  const app = await secured(t, ['--audit-log-path', path])
  const leaving = new AbortController()
  const { body } = await fetch(`${app.url}/ui/events`, { headers: bearer('nodes-token'), signal: leaving.signal })
  let text = ''
  for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (/event: status\n.*\n\n/.test(text)) break
  }
  leaving.abort()
  await until(() => readFileSync(path, 'utf8').includes('/ui/events'), 'the line')
  const line = JSON.parse(readFileSync(path, 'utf8')) as unknown
  t.match(line, { user: 'nodes', path: '/ui/events', resource: '', code: 200, decision: 'allow', rule: /status page/ })
})
