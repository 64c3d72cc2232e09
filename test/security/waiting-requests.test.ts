/**
 * A waiting request is answered only if it would still be admitted (issue 44): when a token is revoked, a credential
 * expires or a permission is taken away while it waits for a revision or for its body, it is refused, whatever its verb
 * and transport.
 */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import http2 from 'node:http2'
import https from 'node:https'
import type http from 'node:http'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { type Clock, systemClock } from '../../src/support/clock.js'
import { Folder, issue, NOW } from '../server/auth/fixtures.js'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { secureFlags } from '../support/secure-flags.js'
import { until } from '../support/until.js'

const HOUR = 3_600_000
const PODS = '/api/v1/namespaces/a/pods'
const RBAC = 'rbac.authorization.k8s.io'

interface Credential {
  readonly headers: Readonly<Record<string, string>>
  readonly tls: { readonly cert?: string; readonly key?: string; readonly rejectUnauthorized: false }
}

/** The response to a request that waits until `finish`. */
interface Waiting {
  readonly finish: () => void
  readonly answer: Promise<{ readonly status: number; readonly text: string }>
}

type Send = (h: AppHarness, credential: Credential, form: Form, path: string) => Waiting

interface Form {
  readonly name: string
  readonly method: string
  /** @param revision one in the future. */
  readonly path: (revision: number) => string
  /** null: the request waits for the revision. Otherwise it waits for this body, which is sent last. */
  readonly body: string | null
  readonly type?: string
  readonly accept?: string
  readonly etag?: string
  readonly succeeds: number
  /** Whether it needs no permission. */
  readonly isFree?: boolean
}

const labelled = JSON.stringify({ metadata: { labels: { written: 'yes' } } })
const review = (spec: object): string => JSON.stringify({ spec })
const reviewed = { resourceAttributes: { verb: 'list', resource: 'pods' } }

/** @param tag a suffix of the names written: each transport writes different ones. */
const formsOf = (tag: string): readonly Form[] => [
  { name: 'get', method: 'GET', path: (r) => `${PODS}/x?resourceVersion=${r}`, body: null, succeeds: 200 },
  {
    name: 'list',
    method: 'GET',
    path: (r) => `${PODS}?resourceVersion=${r}&resourceVersionMatch=NotOlderThan`,
    body: null,
    succeeds: 200,
  },
  {
    name: 'get with an ETag',
    method: 'GET',
    path: (r) => `${PODS}/x?resourceVersion=${r}`,
    body: null,
    succeeds: 304,
    etag: '*',
  },
  {
    name: 'list with an ETag',
    method: 'GET',
    path: (r) => `${PODS}?resourceVersion=${r}&resourceVersionMatch=NotOlderThan`,
    body: null,
    succeeds: 304,
    etag: '*',
  },
  { name: 'list with a body', method: 'GET', path: () => PODS, body: 'x', succeeds: 200 },
  { name: 'HEAD of a watch', method: 'HEAD', path: () => `${PODS}?watch=1`, body: 'x', succeeds: 200 },
  {
    name: 'create',
    method: 'POST',
    path: () => PODS,
    body: JSON.stringify(pod(`made-${tag}`, { namespace: 'a' })),
    succeeds: 201,
  },
  { name: 'patch', method: 'PATCH', path: () => `${PODS}/patched-${tag}`, body: labelled, succeeds: 200 },
  { name: 'delete', method: 'DELETE', path: () => `${PODS}/gone-${tag}`, body: '{}', succeeds: 200 },
  {
    name: 'deletecollection',
    method: 'DELETE',
    path: () => `${PODS}?labelSelector=never%3Dset`,
    body: '{}',
    succeeds: 200,
  },
  {
    name: 'a review of others',
    method: 'POST',
    path: () => `/apis/authorization.k8s.io/v1/subjectaccessreviews`,
    body: review({ user: 'eve', ...reviewed }),
    succeeds: 201,
  },
  {
    name: 'a review of its own rights',
    method: 'POST',
    path: () => `/apis/authorization.k8s.io/v1/selfsubjectaccessreviews`,
    body: review(reviewed),
    succeeds: 201,
    isFree: true,
  },
]
const WATCH: Form = {
  name: 'watch',
  method: 'GET',
  path: (r) =>
    `${PODS}?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=${r}`,
  body: null,
  succeeds: 200,
}

function headersOf(form: Form, { headers }: Credential): Record<string, string> {
  const defaultType = form.method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  return {
    ...headers,
    ...(form.body === null ? {} : { 'content-type': defaultType, 'content-length': String(form.body.length) }),
    ...(form.accept === undefined ? {} : { accept: form.accept }),
    ...(form.etag === undefined ? {} : { 'if-none-match': form.etag }),
  }
}

const overHttp1: Send = (h, credential, form, path) => {
  const { method, body } = form
  const options = { ...credential.tls, method, headers: headersOf(form, credential), agent: false }
  const request = https.request(`${h.secureUrl}${path}`, options)
  request.flushHeaders()
  if (body === null) request.end()
  const answer = async (): Promise<{ status: number; text: string }> => {
    const [response] = (await once(request, 'response')) as [http.IncomingMessage]
    let text = ''
    for await (const chunk of response) text += String(chunk)
    return { status: response.statusCode ?? 0, text }
  }
  return { answer: answer(), finish: () => void request.end(body ?? undefined) }
}

const overHttp2: Send = (h, credential, form, path) => {
  const { method, body } = form
  const session = http2.connect(h.secureUrl, credential.tls)
  const headers = { ':method': method, ':path': path, ...headersOf(form, credential) }
  const stream = session.request(headers, { endStream: body === null })
  const answer = async (): Promise<{ status: number; text: string }> => {
    const [head] = (await once(stream, 'response')) as [http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader]
    let text = ''
    for await (const chunk of stream) text += String(chunk)
    session.close()
    return { status: head[':status'] ?? 0, text }
  }
  return { answer: answer(), finish: () => void (body !== null && stream.end(body)) }
}

/** The response to the handshake, then the messages. */
const overWebSocket: Send = (h, credential, _form, path) => {
  const socket = new WebSocket(`${h.secureUrl.replace('https', 'wss')}${path}`, {
    ...credential.tls,
    headers: { ...credential.headers },
  })
  const answer = new Promise<{ status: number; text: string }>((resolve, reject) => {
    let text = ''
    socket.on('message', (data: Buffer) => (text += data.toString()))
    socket.on('unexpected-response', (_request, response: http.IncomingMessage) => {
      resolve({ status: response.statusCode ?? 0, text })
      socket.terminate()
    })
    socket.on('close', () => resolve({ status: 200, text }))
    socket.on('error', reject)
  })
  return { answer, finish: () => {} }
}

const SENT: readonly (readonly [transport: string, send: Send, form: Form])[] = [
  ...formsOf('h1').map((form) => ['HTTP/1.1', overHttp1, form] as const),
  ...formsOf('h2').map((form) => ['HTTP/2', overHttp2, form] as const),
  ['HTTP/1.1', overHttp1, WATCH],
  ['HTTP/2', overHttp2, WATCH],
  ['SSE', overHttp1, { ...WATCH, accept: 'text/event-stream' }],
  ['WebSocket', overWebSocket, WATCH],
]

/**
 * Checks files at once. Its monotonic time stands still until `run`, so that a read waits for its revision as long as
 * the test wants.
 */
function patientClock(): Clock & { passedMs: number; run(): void } {
  const startMs = systemClock.monotonic()
  let stoodMs: number | null = null
  const clock = {
    passedMs: 0,
    now: () => Date.now() + clock.passedMs,
    monotonic: () => (stoodMs === null ? startMs : systemClock.monotonic() - stoodMs),
    run: () => void (stoodMs ??= systemClock.monotonic() - startMs),
    setTimer: (ms: number, callback: () => void) => systemClock.setTimer(ms === 2_000 ? 20 : ms, callback),
  }
  return clock
}

const everything = {
  kind: 'ClusterRole',
  apiVersion: `${RBAC}/v1`,
  metadata: { name: 'all', uid: 'uid-all' },
  rules: [
    { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
    { nonResourceURLs: ['*'], verbs: ['*'] },
  ],
}
const binding = {
  kind: 'ClusterRoleBinding',
  apiVersion: `${RBAC}/v1`,
  metadata: { name: 'ann', uid: 'uid-ann' },
  subjects: [{ kind: 'User', apiGroup: RBAC, name: 'ann' }],
  roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'all' },
}
const BINDING_KEY = 'clusterrolebindings/ann'

async function scene(t: Test, flags: readonly string[] = []) {
  const clock = patientClock()
  const authority = issue('an authority')
  const { cert, key } = issue('ann', authority, { notAfter: NOW + HOUR })
  const folder = new Folder(t)
  const audit = folder.write('audit.jsonl', '')
  const tokens = folder.write('tokens.csv', 'ann-token,ann,1\nother-token,other,2\n')
  const h = await startApp(t, {
    clock,
    flags: [
      ...secureFlags(),
      '--client-ca-file',
      folder.write('ca.crt', authority.cert),
      `--token-auth-file=${tokens}`,
      '--authorization-mode=RBAC',
      `--audit-log-path=${audit}`,
      '--metrics-bind-address=127.0.0.1:0',
      '--requests-per-second=100000',
      '--max-initial-states=200',
      ...flags,
    ],
    objects: {
      'namespaces/a': { kind: 'Namespace', apiVersion: 'v1', metadata: { name: 'a', uid: 'uid-a' } },
      'pods/a/x': pod('x', { namespace: 'a' }),
      ...Object.fromEntries(
        ['gone-h1', 'gone-h2', 'patched-h1', 'patched-h2'].map((name) => [
          `pods/a/${name}`,
          pod(name, { namespace: 'a' }),
        ]),
      ),
      'clusterroles/all': everything,
      [BINDING_KEY]: binding,
    },
  })
  const byToken: Credential = { headers: { authorization: 'Bearer ann-token' }, tls: { rejectUnauthorized: false } }
  const byCertificate: Credential = { headers: {}, tls: { cert, key, rejectUnauthorized: false } }
  const counted = async (name: string): Promise<number> => {
    const text = await (await fetch(`${h.metricsUrl}/metrics`)).text()
    return Number(new RegExp(`^distributary_${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
  }
  const statusNow = async (credential: Credential): Promise<number> => {
    const form: Form = { name: '', method: 'GET', path: () => '', body: null, succeeds: 200 }
    return (await overHttp1(h, credential, form, `${PODS}?limit=1`).answer).status
  }
  return {
    h,
    clock,
    /** The access log's entries for refused requests, without those of anonymous callers. */
    decisions: () => {
      const lines = readFileSync(audit, 'utf8').split('\n').slice(0, -1)
      const parsed = lines.map((line) => JSON.parse(line) as { code: number; user: string; decision: string })
      return parsed.filter(({ code, user }) => code >= 400 && user !== '').map(({ decision }) => decision)
    },
    byToken,
    byCertificate,
    authenticated: () => counted('authentication_attempts_total{result="success"}'),
    authorized: () => counted('authorization_attempts_total{result="allowed"}'),
    takeTokenBack: async () => {
      writeFileSync(tokens, 'other-token,other,2\n')
      await until(async () => (await statusNow(byToken)) === 401, 'the token is not known')
    },
    expire: async () => {
      clock.passedMs = HOUR + 1_000
      t.equal(await statusNow(byCertificate), 401)
    },
    takeRightAway: async () => {
      h.delete(BINDING_KEY)
      await until(async () => (await statusNow(byToken)) === 403, 'the right is gone')
    },
  }
}

type Scene = Awaited<ReturnType<typeof scene>>
type Credentials = Pick<Scene, 'byToken' | 'byCertificate'>

const LOSSES: readonly {
  readonly name: string
  readonly by: keyof Credentials
  readonly lose: (scene: Scene) => Promise<void>
  /** null: as if nothing had been lost. */
  readonly status: (form: Form) => number
}[] = [
  { name: 'nothing is taken away', by: 'byToken', lose: async () => {}, status: ({ succeeds }) => succeeds },
  { name: 'its token is taken back', by: 'byToken', lose: (s) => s.takeTokenBack(), status: () => 401 },
  { name: 'its certificate expires', by: 'byCertificate', lose: (s) => s.expire(), status: () => 401 },
  {
    name: 'its right is taken away',
    by: 'byToken',
    lose: (s) => s.takeRightAway(),
    status: ({ isFree, succeeds }) => (isFree === true ? succeeds : 403),
  },
]

for (const { name, by, lose, status } of LOSSES) {
  void t.test(`a request that waits while ${name}`, async (t) => {
    const s = await scene(t, ['--enable-writes'])
    const { h } = s
    const before = [await s.authenticated(), await s.authorized()] as const
    const future = Number(h.upstream.revision) + 100
    const waiting = SENT.map(([, send, form]) => send(h, s[by], form, form.path(future)))
    const needRights = SENT.filter(([, , form]) => form.isFree !== true).length
    await until(
      async () =>
        (await s.authenticated()) === before[0] + SENT.length && (await s.authorized()) === before[1] + needRights,
      'all have been let in and wait',
    )
    await lose(s)
    for (const { finish } of waiting) finish()
    while (Number(h.upstream.revision) < future) h.put('pods/b/y', pod('y', { namespace: 'b' }))
    s.clock.run()
    for (const [i, [transport, , form]] of SENT.entries()) {
      const answer = await waiting[i]!.answer
      const text = `${form.name} over ${transport}`
      const expected = status(form)
      // Its clients read errors only from the stream.
      if (transport === 'SSE' && expected !== 200) {
        t.match(answer.text, `"code":${expected}`, text)
      } else t.equal(answer.status, expected, text)
      const isRead = ['get', 'list', 'watch'].includes(form.name)
      if (isRead) t.equal(answer.text.includes('"uid":"uid-a-x"'), expected === 200, `${text}: the object`)
    }
    const refused = SENT.filter(([transport, , form]) => transport !== 'SSE' && status(form) >= 400).length
    await until(() => s.decisions().length >= refused, 'the lines of the log')
    t.same(new Set(s.decisions()), new Set(refused === 0 ? [] : ['forbid']), 'the log says that they were refused')
    const isWritten = status(WATCH) === 200
    const pods = [...h.app.sources].find(({ cache }) => cache.name === 'pods')!.cache
    const stored = [...pods.snapshot().objects(pods.prefix)]
    const names = stored.map((object) => object.name)
    for (const tag of ['h1', 'h2']) {
      t.equal(names.includes(`made-${tag}`), isWritten, 'create')
      t.equal(names.includes(`gone-${tag}`), !isWritten, 'delete')
      const patched = stored.find((object) => object.name === `patched-${tag}`)!
      t.equal(patched.bytes.includes('written'), isWritten, 'patch')
    }
  })
}
