/** Flags over OFREP: every value, errors, ETags, permissions, tickets, pages, and the stream that announces changes. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { keyFromText } from '../../../src/engine/model/event.js'
import { load } from '../../../src/server/config/load.js'
import { type AppHarness, startApp } from '../../support/app.js'
import { type Clock, systemClock } from '../../../src/support/clock.js'
import { until } from '../../support/until.js'

const EVALUATE = '/ofrep/v1/evaluate/flags'
const DECLARED = ['--resource', 'flags=/config/flags/', '--ofrep=flags']

interface Bulk {
  readonly flags: readonly object[]
  readonly eventStreams?: readonly { readonly type: string; readonly endpoint: { readonly requestUri: string } }[]
}

function put(app: AppHarness, name: string, value: string | Buffer): void {
  app.upstream.commit([
    { type: 'put', key: keyFromText(`/config/flags/${name}`), value: Buffer.from(value), leaseId: '' },
  ])
}

function post(app: AppHarness, path: string, more: RequestInit & { readonly token?: string } = {}): Promise<Response> {
  const { token, headers, ...init } = more
  return fetch(`${app.url}${path}`, {
    method: 'POST',
    body: '{"context":{"targetingKey":"ann"}}',
    ...init,
    headers: {
      'content-type': 'application/json',
      ...(headers as Record<string, string> | undefined),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
  })
}

const bulk = async (response: Response): Promise<Bulk> => (await response.json()) as Bulk

/** Reads a stream until it is closed. @returns the text so far, and a function that waits for more. */
async function listen(
  t: Test,
  url: string,
  headers: Record<string, string> = {},
): Promise<{ readonly status: number; readonly text: () => string; readonly ended: () => boolean; close(): void }> {
  const controller = new AbortController()
  t.teardown(() => controller.abort())
  const response = await fetch(url, { headers: { accept: 'text/event-stream', ...headers }, signal: controller.signal })
  let text = ''
  let ended = false
  const read = async (): Promise<void> => {
    for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>)
      text += Buffer.from(piece).toString()
  }
  void read()
    .catch(() => undefined)
    .then(() => (ended = true))
  return { status: response.status, text: () => text, ended: () => ended, close: () => controller.abort() }
}

const refetches = (text: string): readonly string[] =>
  [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => {
    const { type, etag } = JSON.parse(data!) as { type: string; etag: string }
    return type === 'refetchEvaluation' ? etag : `not a refetch: ${type}`
  })

async function startWithTokens(
  t: Test,
  more: readonly string[] = [],
  clock?: Clock,
): Promise<{ app: AppHarness; audit: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'ofrep-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const policy = `rules:
  - users: [ann]
    verbs: [get, list, watch]
    apiGroups: [distributary.io]
    resources: [flags]
  - users: [bob]
    verbs: [get]
    apiGroups: [distributary.io]
    resources: [flags]
    names: ["eu/*"]
`
  const audit = join(folder, 'audit')
  const app = await startApp(t, {
    ...(clock === undefined ? {} : { clock }),
    // prettier-ignore
    flags: [
      ...DECLARED, ...more,
      '--token-auth-file', file('tokens', 'ann-token,ann,1\nbob-token,bob,2\n'),
      '--authorization-mode=Policy', '--authorization-policy-file', file('policy.yaml', policy),
      '--ticket-key-file', file('keys', 'the-key-of-all-replicas-0123456789\n'),
      '--audit-log-path', audit,
    ],
  })
  put(app, 'eu/checkout', 'true')
  put(app, 'banner', 'Hello')
  return { app, audit }
}

void t.test('every value is a flag as it is, alone and among all', async (t) => {
  const app = await startApp(t, { flags: DECLARED })
  put(app, 'eu/checkout', '{"on":true,"share":0.250000000000000000001}')
  put(app, 'limit', '12345678901234567890')
  put(app, 'banner', 'Hello')
  put(app, 'absent', 'null')
  put(app, 'logo', Buffer.from([0xff, 0xd8]))
  const path = `${app.url}/apis/distributary.io/v1/flags`
  await until(
    async () => ((await (await fetch(path)).json()) as { items: unknown[] }).items.length === 5,
    'all are there',
  )
  const all = await post(app, EVALUATE)
  t.equal(all.status, 200)
  t.match(all.headers.get('content-type'), 'application/json')
  const text = await all.text()
  t.match(text, '"value":{"on":true,"share":0.250000000000000000001},"reason":"STATIC"')
  t.match(text, '{"key":"limit","value":12345678901234567890,"reason":"STATIC","variant":"static"}')
  const { flags, eventStreams } = JSON.parse(text) as Bulk
  t.equal(flags.length, 5)
  t.match(flags[0], { key: 'absent', value: undefined, reason: 'STATIC' })
  t.match(flags[4], { key: 'logo', errorCode: 'PARSE_ERROR' })
  t.same(eventStreams, [{ type: 'sse', endpoint: { requestUri: '/ofrep/v1/events' } }])

  const one = await post(app, `${EVALUATE}/eu%2Fcheckout`)
  t.equal(
    await one.text(),
    '{"key":"eu/checkout","value":{"on":true,"share":0.250000000000000000001},"reason":"STATIC","variant":"static"}',
  )
  t.equal(
    await (await post(app, `${EVALUATE}/banner`)).text(),
    '{"key":"banner","value":"Hello","reason":"STATIC","variant":"static"}',
  )
  const bytes = await post(app, `${EVALUATE}/logo`)
  t.same(
    [bytes.status, await bytes.json()],
    [400, { key: 'logo', errorCode: 'PARSE_ERROR', errorDetails: 'the value is neither JSON nor text' }],
  )
})

void t.test('errors have the protocol’s codes', async (t) => {
  const app = await startApp(t, { flags: DECLARED })
  put(app, 'banner', 'Hello')
  const table: readonly (readonly [string, RequestInit, number, object])[] = [
    [`${EVALUATE}/none`, {}, 404, { key: 'none', errorCode: 'FLAG_NOT_FOUND' }],
    [`${EVALUATE}/banner`, { body: '{' }, 400, { key: 'banner', errorCode: 'PARSE_ERROR' }],
    [EVALUATE, { body: '{}' }, 400, { errorCode: 'INVALID_CONTEXT' }],
    [EVALUATE, { body: '{"context":[]}' }, 400, { errorCode: 'INVALID_CONTEXT' }],
    [EVALUATE, { body: 'null' }, 400, { errorCode: 'INVALID_CONTEXT' }],
    [`${EVALUATE}/%ff`, {}, 400, { reason: 'BadRequest' }],
    [EVALUATE, { body: `{"context":{"a":"${'x'.repeat(65 * 1024)}"}}` }, 413, { errorCode: 'GENERAL' }],
    [EVALUATE, { method: 'PUT' }, 405, { errorCode: 'GENERAL' }],
    ['/ofrep/v1/other', {}, 404, { errorCode: 'GENERAL' }],
  ]
  for (const [path, init, status, body] of table) {
    const response = await post(app, path, init)
    t.equal(response.status, status, path)
    t.match(await response.json(), body, path)
  }
  for (let i = 0; i < 9; i++) put(app, `large-${i}`, 'x'.repeat(1_000_000))
  await until(async () => (await post(app, EVALUATE)).status === 413, 'flags beyond 8 MiB together are refused')
  t.match(await (await post(app, `${EVALUATE}/banner`)).json(), { value: 'Hello' }, 'one flag is not')
  const without = await startApp(t, { flags: ['--resource', 'flags=/config/flags/'] })
  t.equal((await post(without, EVALUATE)).status, 404, 'without the option, there is no such path')
})

void t.test('a client that has the current flags gets 304, until a value changes', async (t) => {
  const app = await startApp(t, { flags: [...DECLARED, '--cors-allowed-origins=http://page.example'] })
  put(app, 'banner', 'Hello')
  await until(async () => (await bulk(await post(app, EVALUATE))).flags.length === 1, 'it is there')
  const etag = (await post(app, EVALUATE)).headers.get('etag')!
  const again = await post(app, EVALUATE, { headers: { 'if-none-match': etag, origin: 'http://page.example' } })
  t.equal(again.status, 304)
  t.match(again.headers.get('access-control-expose-headers'), 'ETag')
  const foreign = await post(app, EVALUATE, { headers: { origin: 'http://other.example' } })
  t.equal(foreign.status, 200, 'a POST that only reads follows CORS')
  t.equal(foreign.headers.get('access-control-allow-origin'), null)
  put(app, 'banner', 'Hello again')
  await until(
    async () => (await post(app, EVALUATE, { headers: { 'if-none-match': etag } })).status === 200,
    'the change arrives',
  )
})

void t.test('a stream announces changes, at most one a second, with the ETag of the flags', async (t) => {
  const app = await startApp(t, { flags: DECLARED })
  put(app, 'banner', '0')
  await until(async () => (await bulk(await post(app, EVALUATE))).flags.length === 1, 'it is there')
  const etagNow = async (): Promise<string> => (await post(app, EVALUATE)).headers.get('etag')!
  const first = await etagNow()
  const stream = await listen(t, `${app.url}/ofrep/v1/events`)
  t.equal(stream.status, 200)
  t.equal(app.watchers, 1, 'it counts as a watch')
  await until(() => refetches(stream.text()).length === 1, 'a client without a position is told at once')
  t.same(refetches(stream.text()), [first])
  t.match(stream.text(), `id: ${first}\nevent: message\n`)
  for (let i = 1; i <= 20; i++) put(app, 'banner', String(i))
  await until(async () => refetches(stream.text()).at(-1) === (await etagNow()), 'the last change is announced')
  t.ok(refetches(stream.text()).length <= 3, `${refetches(stream.text()).length} events`)
  const last = await etagNow()
  t.not(last, first)
  t.equal((await post(app, `${EVALUATE}?flagConfigEtag=${encodeURIComponent(last)}`)).headers.get('etag'), last)
  stream.close()
  const missed = await listen(t, `${app.url}/ofrep/v1/events`, { 'last-event-id': first })
  await until(() => refetches(missed.text()).length === 1, 'a client that missed a change is told')
  const current = await listen(t, `${app.url}/ofrep/v1/events`, { 'last-event-id': last })
  put(app, 'banner', 'end')
  await until(() => refetches(current.text()).length > 0, 'and the next change arrives')
  t.notOk(refetches(current.text()).includes(last), 'a client that missed none is not told before it')
})

void t.test('permissions, tickets and the access log are those of the resource', async (t) => {
  const { app, audit } = await startWithTokens(t)
  t.equal((await post(app, EVALUATE)).status, 401)
  t.equal((await post(app, EVALUATE, { token: 'bob-token' })).status, 403)
  t.equal((await post(app, `${EVALUATE}/banner`, { token: 'bob-token' })).status, 403)
  await until(
    async () => (await post(app, `${EVALUATE}/eu%2Fcheckout`, { token: 'bob-token' })).status === 200,
    'a rule for a part of the keys allows these flags',
  )
  const response = await post(app, EVALUATE, { token: 'ann-token' })
  t.match(response.headers.get('cache-control'), 'no-store', 'a response with a ticket is not kept')
  const { requestUri } = (await bulk(response)).eventStreams![0]!.endpoint
  const ticket = new URLSearchParams(requestUri.split('?')[1]).get('ticket')!
  t.ok(ticket.length > 20)
  t.equal((await listen(t, `${app.url}/ofrep/v1/events`)).status, 401)
  const stream = await listen(t, `${app.url}${requestUri}`)
  t.equal(stream.status, 200)
  await until(() => refetches(stream.text()).length === 1, 'the ticket opens the stream')
  const other = await fetch(`${app.url}/apis/distributary.io/v1/flags?ticket=${encodeURIComponent(ticket)}`)
  t.equal(other.status, 401, 'and nothing else')
  t.equal((await post(app, `${EVALUATE}?ticket=${encodeURIComponent(ticket)}`)).status, 401)
  stream.close()
  const lines = (): Record<string, unknown>[] =>
    readFileSync(audit, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  await until(() => lines().some(({ path, verb }) => path === '/ofrep/v1/events' && verb === 'watch'), 'it is logged')
  t.ok(
    lines().some(
      ({ user, verb, resource, path, decision, rule }) =>
        user === 'ann' &&
        verb === 'list' &&
        resource === 'flags' &&
        path === EVALUATE &&
        decision === 'allow' &&
        !String(rule).includes('ticket'),
    ),
  )
  t.notMatch(readFileSync(audit, 'utf8'), ticket)
})

void t.test('a page with an expired ticket gets an event to read the flags again, and a new ticket', async (t) => {
  const clock = { ...systemClock, forwardMs: 0, now: () => systemClock.now() + clock.forwardMs }
  const { app } = await startWithTokens(t, [], clock)
  const first = await post(app, EVALUATE, { token: 'ann-token' })
  const etag = first.headers.get('etag')!
  const same = { token: 'ann-token', headers: { 'if-none-match': etag } }
  t.equal((await post(app, EVALUATE, same)).status, 304)
  const renewed = await post(app, `${EVALUATE}?flagConfigEtag=needs-ticket`, same)
  t.equal(renewed.status, 200)
  const { requestUri } = (await bulk(renewed)).eventStreams![0]!.endpoint
  clock.forwardMs = 61_000
  const stream = await listen(t, `${app.url}${requestUri}`)
  t.equal(stream.status, 200, 'an EventSource would give up after any other status')
  await until(() => stream.ended(), 'the stream ends')
  t.same(refetches(stream.text()), ['needs-ticket'])
  t.match(stream.text(), 'retry: 60000\n')
  t.equal((await listen(t, `${app.url}${requestUri}x`)).status, 401, 'a forged ticket is refused')
})

void t.test('the option names a declared prefix of values without namespaces', async (t) => {
  const read = (path: string): string => path
  t.throws(
    () => load(['--resource', 'flags=/config/flags/', '--ofrep=others'], {}, read),
    /--ofrep: others is not a prefix/,
  )
  t.throws(() => load(['--ofrep=pods'], {}, read), /--ofrep: pods is not a prefix/)
})
