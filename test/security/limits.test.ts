/**
 * Tests the limits of one identity through the whole server: slots, requests, and which identity is charged behind a
 * proxy.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { type ClientHttp2Session, connect } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type AppHarness, startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { TRANSPORTS, ask, hold } from './support/transports.js'

const TOKENS = ['t-noisy,noisy,1', 't-quiet,quiet,2']
const LIST = '/api/v1/pods?resourceVersion=0'

async function start(t: Test, flags: readonly string[], pods = 300, filler = 2_000): Promise<AppHarness> {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-limits-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  writeFileSync(join(directory, 'tokens.csv'), `${TOKENS.join('\n')}\n`)
  const objects: Record<string, object> = {}
  for (let i = 0; i < pods; i++) objects[`pods/default/p${i}`] = pod(`p${i}`, { spec: { filler: 'x'.repeat(filler) } })
  return await startApp(t, { objects, flags: ['--token-auth-file', join(directory, 'tokens.csv'), ...flags] })
}

void t.test('a tenant that occupies all its slots does not block other tenants’ lists and watches', async (t) => {
  const app = await start(t, ['--max-initial-states', '4'], 300, 40_000)
  const greed = { refused: 0, held: 0 }
  // Each request is for a different list that is never read: 12 MB do not fit into a socket's buffers.
  for (let i = 0; i < 40; i++) {
    const path = `${LIST}&labelSelector=n!%3D${i}`
    const asked = get(`${app.url}${path}`, { agent: false, headers: { authorization: 'Bearer t-noisy' } }, (answer) => {
      if (answer.statusCode === 200) greed.held++
      else greed.refused++
      answer.pause()
      answer.on('error', () => {})
    })
    asked.on('error', () => {})
    t.teardown(() => asked.destroy())
  }
  await until(() => greed.held === 3, 'three of four turns are of the noisy one')
  for (let round = 0; round < 5; round++) {
    const list = await ask(app.url, 'HTTP/1.1', `${LIST}&labelSelector=round%3D${round}`, { token: 't-quiet' })
    t.equal(list.status, 200, 'the quiet one is answered')
  }
  for (const transport of TRANSPORTS) {
    const path = '/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=x%3D1' // prettier-ignore
    const watch = await hold(app.url, transport, path, { token: 't-quiet' })
    await until(() => watch.bytes.includes('initial-events-end'), `${transport}: the initial state is complete`, 30_000)
    watch.close()
  }
  await until(() => greed.refused > 0, 'requests beyond the limit wait, and are refused with Retry-After', 30_000)
  t.equal(greed.held, 3, 'and never holds more')
})

void t.test(
  'X-Forwarded-For is trusted from a named proxy, through every transport, and from nobody else',
  async (t) => {
    const directory = mkdtempSync(join(tmpdir(), 'distributary-proxy-'))
    t.teardown(() => rmSync(directory, { recursive: true, force: true }))
    const rows: readonly (readonly [flags: readonly string[], expected: string])[] = [
      [[], '127.0.0.1'],
      [['--trusted-proxies', '10.0.0.0/8'], '127.0.0.1'],
      [['--trusted-proxies', '127.0.0.0/8,10.0.0.0/8'], '203.0.113.7'],
    ]
    for (const [flags, expected] of rows) {
      const path = join(directory, `${flags.join('').replaceAll('/', '_')}.jsonl`)
      const app = await start(t, ['--audit-log-path', path, ...flags], 1)
      for (const transport of TRANSPORTS) {
        const headers = { 'x-forwarded-for': '198.51.100.9, 203.0.113.7, 10.1.1.1' }
        const held = await hold(app.url, transport, '/api/v1/pods?watch=1&timeoutSeconds=1', {
          token: 't-quiet',
          headers,
        })
        t.equal(held.status, 200)
        held.close()
      }
      const lines = (): { sourceAddress: string }[] =>
        readFileSync(path, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line) as { sourceAddress: string })
      await until(() => lines().length === TRANSPORTS.length, 'a line for each', 20_000)
      t.same(new Set(lines().map(({ sourceAddress }) => sourceAddress)), new Set([expected]), flags.join(' '))
    }
  },
)

void t.test('rejected credentials are counted against their address', async (t) => {
  const app = await start(t, ['--requests-per-second', '1', '--trusted-proxies', '127.0.0.1'], 1)
  const from = async (address: string, token: string): Promise<number> =>
    (await ask(app.url, 'HTTP/1.1', '/version', { token, headers: { 'x-forwarded-for': address } })).status
  const codes: number[] = []
  for (let i = 0; i < 15; i++) codes.push(await from('203.0.113.7', `guess-${i}`))
  t.equal(codes[0], 401)
  t.ok(codes.includes(429), `one address gets 429: ${codes.join()}`)
  t.equal(await from('203.0.113.8', 'guess'), 401, 'another is not')
  t.equal(
    await from('203.0.113.7', 't-quiet'),
    200,
    'and a good credential is not refused for the bad ones of its neighbours',
  )
})

void t.test('requests are counted against their sender, and anonymous ones against their address', async (t) => {
  const app = await start(t, ['--anonymous-auth', '--requests-per-second', '1', '--trusted-proxies', '127.0.0.1'], 1)
  const from = async (address: string, token: string | null = null): Promise<number> =>
    (await ask(app.url, 'HTTP/1.1', '/version', { token, headers: { 'x-forwarded-for': address } })).status
  const codes: number[] = []
  for (let i = 0; i < 15; i++) codes.push(await from('203.0.113.7'))
  t.ok(codes.includes(429), 'one address gets 429')
  t.equal(await from('203.0.113.8'), 200, 'another is not')
  t.equal(await from('203.0.113.7', 't-quiet'), 200, 'and who says who it is has limits of its own')
  for (const token of [null, 'a guess']) {
    const sixth: number[] = []
    for (let i = 0; i < 15; i++) sixth.push(await from(`2001:db8:0:${token === null ? 1 : 2}::${i}`, token))
    t.ok(sixth.includes(429), `the addresses of one IPv6 network are one client: ${sixth.join()}`)
  }
})

void t.test('a user at a hundred addresses delays itself, and no other user', async (t) => {
  const app = await start(t, ['--trusted-proxies', '127.0.0.1', '--requests-per-second', '100000'], 1)
  const session = connect(app.url)
  t.teardown(() => session.destroy())
  const from = (client: ClientHttp2Session, address: string, token: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const headers = { ':path': LIST, authorization: `Bearer ${token}`, 'x-forwarded-for': address }
      const asked = client.request(headers)
      asked.on('response', (answer) => resolve(answer[':status'] ?? 0)).on('error', reject)
      asked.resume()
    })
  t.equal(await from(session, '203.0.113.254', 't-quiet'), 200)
  let answered = 0
  const burst = Array.from({ length: 20 }, async () => {
    const one = connect(app.url)
    t.teardown(() => one.destroy())
    const all = Array.from({ length: 100 }, async (_, i) => {
      if ((await from(one, `203.0.113.${i}`, 't-noisy')) === 200) answered++
    })
    await Promise.all(all)
  })
  await until(() => answered > 0, 'the burst has begun')
  for (let i = 0; i < 20; i++) t.equal(await from(session, '203.0.113.254', 't-quiet'), 200)
  t.ok(answered < 1_600, `twenty requests, one after the other, while ${answered} of the burst were answered`)
  await Promise.all(burst)
  t.equal(answered, 2_000, 'and all of them are, in the end')
})
