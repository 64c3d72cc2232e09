/** Tickets: what they open, what they do not, who ends the streams they opened, and where they are never written. */
import { createHmac } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { SignJWT } from 'jose'
import { WebSocket } from 'ws'
import { keyFromText } from '../../src/engine/model/event.js'
import { type AppHarness, startApp } from '../support/app.js'
import { startApiServer } from '../support/api-server-stand-in.js'
import { openPage } from '../support/chromium.js'
import { until } from '../support/until.js'
import { type Clock, systemClock } from '../../src/support/clock.js'
import { type Logger, silentLogger } from '../../src/support/log.js'
import { serveModules } from '../client/serve-modules.js'
import { startHttpFaults } from '../client/reflector/http-faults.js'
import { hold, TRANSPORTS } from './support/transports.js'

const FLAGS = '/apis/distributary.io/v1/flags'
const KEY = 'the-key-of-all-replicas-0123456789'

const POLICY = `rules:
  - users: [ann]
    verbs: ["*"]
    apiGroups: ["*"]
    resources: ["*"]
  - groups: [readers]
    verbs: [get, list, watch]
    apiGroups: [distributary.io]
    resources: [flags]
`

interface World {
  readonly app: AppHarness
  /** Starts a second replica with the same files. */
  readonly start: (flags?: readonly string[], clock?: Clock, logger?: Logger) => Promise<AppHarness>
  readonly file: (name: string, text?: string) => string
}

async function startWorld(t: Test, flags: readonly string[] = []): Promise<World> {
  const folder = mkdtempSync(join(tmpdir(), 'tickets-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = (name: string, text?: string): string => {
    if (text !== undefined) writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  // prettier-ignore
  const access = [
    '--token-auth-file', file('tokens.csv', 'ann-token,ann,1\nbob-token,bob,2,"readers,x"\n'),
    '--authorization-mode', 'Policy',
    '--authorization-policy-file', file('policy.yaml', POLICY),
    '--ticket-key-file', file('keys', `${KEY}\n`),
  ]
  const start: World['start'] = async (more = [], clock, logger = silentLogger) => {
    const all = ['--resource', 'flags=/config/flags/', '--requests-per-second=100000', ...access, ...more]
    const app = await startApp(t, { flags: all, logger, ...(clock === undefined ? {} : { clock }) })
    put(app, 'eu/checkout', 'true')
    return app
  }
  return { app: await start(flags), start, file }
}

/** A running clock that can be moved forward. */
function movable(): Clock & { forwardMs: number } {
  const clock = { ...systemClock, forwardMs: 0, now: () => systemClock.now() + clock.forwardMs }
  return clock
}

function put(app: AppHarness, key: string, value: string): void {
  app.upstream.commit([{ type: 'put', key: keyFromText(`/config/flags/${key}`), value: Buffer.from(value) }])
}

const bearer = (user: string): Record<string, string> => ({ authorization: `Bearer ${user}-token` })

async function post(app: AppHarness, path: string, headers: Record<string, string>, body: string): Promise<Response> {
  return await fetch(app.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
}

async function ticketOf(app: AppHarness, user: string, path = FLAGS): Promise<string> {
  const response = await post(app, '/tickets', bearer(user), JSON.stringify({ path }))
  if (response.status !== 201) throw new Error(`no ticket: ${response.status} ${await response.text()}`)
  return ((await response.json()) as { ticket: string }).ticket
}

async function codeOf(app: AppHarness, path: string, init: RequestInit = {}): Promise<number> {
  const response = await fetch(app.url + path, init)
  await response.body?.cancel()
  return response.status
}

/** A stream of server-sent events, as text. */
async function events(t: Test, app: AppHarness, path: string) {
  const abort = new AbortController()
  t.teardown(() => abort.abort())
  const response = await fetch(app.url + path, { headers: { accept: 'text/event-stream' }, signal: abort.signal })
  const stream = { status: response.status, headers: response.headers, text: '', hasEnded: false }
  void (async () => {
    for await (const bytes of response.body ?? []) stream.text += Buffer.from(bytes as Uint8Array).toString()
  })()
    .catch(() => {})
    .finally(() => (stream.hasEnded = true))
  return stream
}

void t.test('a ticket opens gets, lists and streams of its path, on every replica, and is for no cache', async (t) => {
  const { app, start } = await startWorld(t)
  const replica = await start()
  const response = await post(app, '/tickets', bearer('bob'), JSON.stringify({ path: FLAGS }))
  t.match([response.status, response.headers.get('cache-control')], [201, 'private, no-store'])
  const { ticket, path, expiresAt } = (await response.json()) as Record<'ticket' | 'path' | 'expiresAt', string>
  t.equal(path, FLAGS)
  const leftMs = Date.parse(expiresAt!) - Date.now()
  t.ok(leftMs > 0 && leftMs <= 60_000, `${leftMs} ms`)
  for (const server of [app, replica]) {
    const list = await fetch(`${server.url}${FLAGS}?ticket=${ticket}`)
    t.match([list.status, list.headers.get('cache-control')], [200, 'private, no-store'])
    t.match(await list.json(), { items: [{ key: '/config/flags/eu/checkout' }] })
    t.equal(await codeOf(server, `${FLAGS}?ticket=${ticket}&labelSelector=a`), 200)
    t.equal(await codeOf(server, `${FLAGS}?ticket=${ticket}`, { method: 'HEAD' }), 200)
    const stream = await events(t, server, `${FLAGS}?watch=1&ticket=${ticket}`)
    t.match([stream.status, stream.headers.get('cache-control')], [200, 'private, no-store'])
    await until(() => stream.text.includes('event: ADDED'), 'the first event')
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}${FLAGS}?watch=1&ticket=${ticket}`)
    const first = await new Promise<string>((resolve, reject) => {
      socket.once('message', (data: Buffer) => resolve(data.toString()))
      socket.once('error', reject)
    })
    t.match(first, /"ADDED"/)
    socket.terminate()
  }
})

void t.test('a ticket opens no other path', async (t) => {
  const { app } = await startWorld(t, ['--enable-writes', '--anonymous-auth'])
  const ticket = await ticketOf(app, 'ann')
  const withTicket = (path: string, text = ticket): string => `${path}?ticket=${text}`
  const others = [
    `${FLAGS}/eu:checkout`,
    `${FLAGS}/`,
    '/apis/distributary.io/v1/%66lags',
    '/api/v1/pods',
    '/apis',
    '/metrics',
    '/consistency-check',
    '/ui/events',
  ]
  for (const path of others) t.equal(await codeOf(app, withTicket(path)), 401, path)
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const init = method === 'OPTIONS' ? { method } : { method, body: '{}' }
    t.equal(await codeOf(app, withTicket(FLAGS), init), 401, method)
  }
  t.equal(
    (await post(app, withTicket('/tickets'), {}, JSON.stringify({ path: FLAGS }))).status,
    401,
    'no ticket for a ticket',
  )
  const ticketForTickets = await post(app, '/tickets', bearer('ann'), JSON.stringify({ path: '/tickets' }))
  t.equal(ticketForTickets.status, 400)
  const name = ticket.split('.')
  const forged = await new SignJWT({ uid: '', groups: ['readers'], extra: {}, until: null, seal: null })
    .setProtectedHeader({ alg: 'HS256', typ: 'distributary-ticket' })
    .setIssuer('default')
    .setSubject('ann')
    .setAudience(FLAGS)
    .setExpirationTime('60s')
    .sign(Buffer.from(KEY.replace('all', 'one')))
  const none = `${Buffer.from('{"alg":"none","typ":"distributary-ticket"}').toString('base64url')}.${name[1]}.`
  for (const text of ['', 'x', forged, none, `${name[0]}.${name[1]}.`, `${ticket}&ticket=${ticket}`, '%ff%00']) {
    t.equal(await codeOf(app, withTicket(FLAGS, text)), 401, 'a bad ticket is not nobody')
  }
  t.equal(await codeOf(app, FLAGS, { headers: { authorization: `Bearer ${ticket}` } }), 401, 'nor is it a token')
  const asAnother = await post(
    app,
    '/tickets',
    { ...bearer('ann'), 'impersonate-user': 'bob' },
    JSON.stringify({ path: FLAGS }),
  )
  t.equal(asAnother.status, 403)
  t.match(await asAnother.json(), { message: 'a ticket is for its caller: request it without impersonation' })
  const anns = `${FLAGS}?ticket=${await ticketOf(app, 'ann')}`
  t.equal(await codeOf(app, anns), 200)
  t.equal(await codeOf(app, anns, { headers: { 'impersonate-user': 'bob' } }), 403, 'nor can its user act as another')
  t.equal((await post(app, '/tickets', {}, JSON.stringify({ path: FLAGS }))).status, 401, 'an anonymous caller')
  t.equal(await codeOf(app, '/tickets', { headers: bearer('ann') }), 405)
  for (const body of [
    '',
    '[]',
    'null',
    '{}',
    '{"path":5}',
    '{"path":"/api/v1/pods?watch=1"}',
    '{"path":"/api/v1/po ds"}',
  ]) {
    t.equal((await post(app, '/tickets', bearer('ann'), body)).status, 400, body)
  }
})

void t.test('a ticket is not forwarded, over no transport', async (t) => {
  const behind = await startApiServer(t)
  const { app } = await startWorld(t, ['--passthrough', behind.url])
  const paths = ['/api/v1/secrets', '/api/v1/namespaces/a/pods/x/log', '/apis/other.example/v1/things']
  for (const path of paths) {
    const ticket = await ticketOf(app, 'ann', path)
    for (const transport of TRANSPORTS) {
      for (const headers of [{}, bearer('ann')]) {
        const held = await hold(app.url, transport, `${path}?watch=1&ticket=${ticket}`, { headers })
        t.equal(held.status, 401, `${transport}: ${path}`)
        held.close()
      }
    }
    t.equal(await codeOf(app, `${path}?ticket=${ticket}`, { method: 'POST', body: '{}' }), 401)
  }
  const seen = behind.seen.map(({ url }) => url)
  t.same(
    seen.filter((url) => url.includes('ticket') || paths.some((path) => url.startsWith(path))),
    [],
    'the server behind sees none of it',
  )
})

void t.test('a ticket is valid only in the cluster that issued it, even if another one has the same key', async (t) => {
  const { app, start } = await startWorld(t)
  const other = await start(['--nats-cluster', 'other'])
  for (const [issuer, elsewhere] of [
    [app, other],
    [other, app],
  ] as const) {
    const path = `${FLAGS}?ticket=${await ticketOf(issuer, 'bob')}`
    t.equal(await codeOf(issuer, path), 200)
    t.equal(await codeOf(elsewhere, path), 401)
  }
})

void t.test('a ticket gives no right that its user does not have, now', async (t) => {
  const { app, file } = await startWorld(t)
  t.equal(await codeOf(app, `/api/v1/pods?ticket=${await ticketOf(app, 'bob', '/api/v1/pods')}`), 403)
  const [watched, ofToken] = [await ticketOf(app, 'bob'), await ticketOf(app, 'bob')]
  const stream = await events(t, app, `${FLAGS}?watch=1&ticket=${watched}`)
  file('policy.yaml', POLICY.replace('readers', 'others'))
  await until(() => stream.hasEnded, 'the right is gone', 20_000)
  t.match(stream.text, /event: ERROR\n.*"code":403/s)
  t.equal(await codeOf(app, `${FLAGS}?ticket=${ofToken}`), 403)
  file('policy.yaml', POLICY)
  await until(async () => (await codeOf(app, `${FLAGS}?ticket=${ofToken}`)) === 200, 'it is back', 20_000)

  const again = await events(t, app, `${FLAGS}?watch=1&ticket=${ofToken}`)
  file('tokens.csv', 'ann-token,ann,1\nother-token,bob,2,"readers,x"\n')
  await until(() => again.hasEnded, 'the token is gone', 20_000)
  t.match(again.text, /event: ERROR\n.*"code":401/s)
  t.equal(await codeOf(app, `${FLAGS}?ticket=${ofToken}`), 401)
})

void t.test('keys are changed while tickets are in use', async (t) => {
  const { app, file } = await startWorld(t)
  const old = await ticketOf(app, 'bob')
  file('keys', `${'n'.repeat(40)}\n${KEY}\n`)
  const changed = async (): Promise<boolean> => {
    const one = await ticketOf(app, 'bob')
    return (
      createHmac('sha256', 'n'.repeat(40))
        .update(one.slice(0, one.lastIndexOf('.')))
        .digest('base64url') === one.split('.')[2]
    )
  }
  await until(changed, 'the first key signs', 20_000)
  t.equal(await codeOf(app, `${FLAGS}?ticket=${old}`), 200)
  const stream = await events(t, app, `${FLAGS}?watch=1&ticket=${old}`)
  file('keys', `${'n'.repeat(40)}\n`)
  await until(() => stream.hasEnded, 'what the old key signed', 20_000)
  t.equal(await codeOf(app, `${FLAGS}?ticket=${old}`), 401)
  t.equal(await codeOf(app, `${FLAGS}?ticket=${await ticketOf(app, 'bob')}`), 200)
})

void t.test(
  'an expired ticket opens nothing, an EventSource gets an error event, and streams that it opened continue',
  async (t) => {
    const { start } = await startWorld(t)
    const clock = movable()
    const app = await start([], clock)
    const ticket = await ticketOf(app, 'bob')
    const stream = await events(t, app, `${FLAGS}?watch=1&ticket=${ticket}`)
    await until(() => stream.text.includes('event: ADDED'), 'the first event')
    clock.forwardMs = 61_000
    t.equal(await codeOf(app, `${FLAGS}?ticket=${ticket}`), 401)
    t.equal(await codeOf(app, `${FLAGS}?watch=1&ticket=${ticket}`), 401, 'as JSON')
    const refusal = await fetch(`${app.url}${FLAGS}?ticket=${ticket}`)
    t.equal(refusal.headers.get('cache-control'), 'private, no-store')
    await refusal.body?.cancel()
    const late = await events(t, app, `${FLAGS}?watch=1&ticket=${ticket}`)
    t.equal(late.status, 200)
    t.equal(late.headers.get('cache-control'), 'private, no-store')
    await until(() => late.hasEnded, 'the end')
    t.match(late.text, /event: ERROR\ndata: \{.*"message":"the ticket has expired: request another".*"code":401\}/)
    t.match(late.text, /^retry: 60000$/m)
    put(app, 'banner', '"new"')
    await until(() => stream.text.includes('banner'), 'the stream continues')
    t.notOk(stream.hasEnded)
  },
)

void t.test('no log has a ticket, nor the access log, an error or a metric', async (t) => {
  const { file, start } = await startWorld(t)
  const log = file('access.log', '')
  const lines: string[] = []
  const keep = (fields: object, message: string): void => void lines.push(JSON.stringify([fields, message]))
  const logger = { ...silentLogger, debug: keep, info: keep, warn: keep, error: keep }
  const app = await start(['--audit-log-path', log], systemClock, logger)
  const ticket = await ticketOf(app, 'bob')
  const asked = [FLAGS, `${FLAGS}/eu:checkout`, '/api/v1/pods', '/metrics', '/nothing', '/tickets', '/%zz']
  let answers = ''
  for (const path of asked) {
    for (const text of [ticket, `x${ticket}`, `${ticket}%zz`]) {
      for (const method of ['GET', 'POST', 'DELETE']) {
        answers += await (await fetch(`${app.url}${path}?ticket=${text}`, { method })).text()
      }
    }
  }
  const stream = await events(t, app, `${FLAGS}?watch=bad&resourceVersion=bad&ticket=${ticket}`)
  await until(() => stream.hasEnded, 'an error')
  answers += stream.text
  answers += await (await fetch(`${app.url}/metrics`, { headers: bearer('ann') })).text()
  await until(() => readFileSync(log, 'utf8').split('"user":"bob"').length > 2, 'the access log')
  const logged = readFileSync(log, 'utf8')
  t.match(logged, /"path":"\/tickets","code":201,.*"rule":"a ticket for itself"/)
  const [, claims = '', signature = ''] = ticket.split('.')
  t.match(lines.join('\n'), 'caller is not authenticated', 'the log says why')
  for (const secret of [signature, claims.slice(0, 40)]) {
    t.notOk(logged.includes(secret), 'the access log')
    t.notOk(lines.join('\n').includes(secret), 'the log')
    t.notOk(answers.includes(secret), 'answers and metrics')
  }
})

void t.test('a browser stays logged in: its EventSource gets a new ticket after each that has expired', async (t) => {
  const { start, file } = await startWorld(t)
  const clock = movable()
  const origin = await serveModules(t)
  const app = await start(['--cors-allowed-origins', origin], clock)
  const faults = await startHttpFaults(t, app.port)
  const page = await openPage(t, origin)
  await page.addScriptTag({
    type: 'module',
    content: `import { ticketEvents } from '/client/browser.js'
      globalThis.seen = []
      globalThis.failures = []
      globalThis.close = ticketEvents({
        server: '${faults.url}', token: 'bob-token', path: '${FLAGS}', backoff: { firstMs: 20, capMs: 100 },
        reset: () => seen.push('reset'),
        event: (type, { metadata, value }) => seen.push(type + ' ' + metadata.name + ' ' + value),
        failed: ({ code }) => failures.push(code),
      })`,
  })
  const seen = async (): Promise<string> => await page.evaluate('globalThis.seen?.join()')
  const failures = async (): Promise<readonly number[]> => await page.evaluate('globalThis.failures')
  const shows = async (expected: string): Promise<void> =>
    await until(async () => (await seen()) === expected, expected, 30_000)
  const first = 'reset,ADDED eu:checkout true'
  await shows(first)
  put(app, 'eu/checkout', 'false')
  await shows(`${first},MODIFIED eu:checkout false`)
  // The ticket expires, then the stream is cut: the browser reconnects with it on its own.
  clock.forwardMs = 120_000
  faults.cut()
  put(app, 'eu/checkout', '1')
  await shows(`${first},MODIFIED eu:checkout false,MODIFIED eu:checkout 1`)
  t.same(await failures(), [401], 'the old ticket was refused, in the stream')
  file('policy.yaml', POLICY.replace('readers', 'others'))
  await until(async () => (await failures()).includes(403), 'the right is gone', 30_000)
  put(app, 'eu/checkout', '2')
  await until(async () => (await failures()).length > 3, 'it is refused again and again', 30_000)
  file('policy.yaml', POLICY)
  await shows(`${first},MODIFIED eu:checkout false,MODIFIED eu:checkout 1,MODIFIED eu:checkout 2`)
  await page.evaluate('globalThis.close()')
  await until(() => app.watchers === 0, 'closing it ends the watch')
})
