/** `/ui/events`, from figures that the test makes up: no browser is needed to check the stream. */
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fastify } from 'fastify'
import { SignJWT } from 'jose'
import t, { type Test } from 'tap'
import type { Caller } from '../../../src/server/transports/gate/caller.js'
import type { ServerStatus } from '../../../src/server/ui/page/figures.js'
import { serverStatus } from '../../../src/server/ui/status-figures.js'
import { registerUi } from '../../../src/server/ui/ui-routes.js'
import { UpstreamError } from '../../../src/engine/upstream/upstream.js'
import { systemClock } from '../../../src/support/clock.js'
import { Folder } from '../auth/fixtures.js'
import { startApp } from '../../support/app.js'
import { until } from '../../support/until.js'
import { VirtualClock } from '../../support/virtual-clock.js'

const caller: Caller = {
  identity: 'test',
  user: null,
  rights: '',
  isAnybody: async () => true,
  authorize: async () => {},
  may: async () => true,
  confirmRights: async () => {},
  keep: () => () => {},
  confirm: () => undefined,
}

async function serveUi(t: Test, status: () => Promise<ServerStatus>) {
  const clock = new VirtualClock()
  const server = fastify({ forceCloseConnections: true })
  registerUi(server, {
    gate: { check: () => caller },
    clock,
    status,
    places: { acquire: async () => () => {} },
    onInternalError: (error) => t.fail(error.message),
  })
  const url = `${await server.listen({ host: '127.0.0.1', port: 0 })}/ui/events`
  t.teardown(() => server.close())
  return { clock, url }
}

const about = { version: 'test', upstream: 'none', fleet: null }

void t.test(
  'a stream continues without figures and gives the reason, and the server retries a second later',
  async (t) => {
    let primary: 'silent' | 'there' = 'silent'
    const { clock, url } = await serveUi(t, async () => {
      if (primary === 'silent') throw new UpstreamError('unavailable', 'the primary process does not answer')
      return serverStatus(about, [])
    })
    const reader = (await fetch(url)).body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    const read = async (wanted: RegExp): Promise<void> => {
      while (!wanted.test(text)) text += (await reader.read()).value ?? ''
    }
    await read(/event: trouble\ndata: \{"reason":"the primary process does not answer"\}\n\n/)
    await until(() => clock.pending > 0, 'the next second is awaited')
    clock.advance(1_000)
    await read(/(event: trouble[^]*){2}/)
    await until(() => clock.pending > 0, 'the next second is awaited')
    primary = 'there'
    clock.advance(1_000)
    await read(/event: status\ndata: \{"version":"test"/)
  },
)

void t.test('the fifty-first page is rejected with 429 and Retry-After', async (t) => {
  const { url, app } = await startApp(t)
  const events = `${url}/ui/events`
  const pages = await Promise.all(Array.from({ length: 50 }, () => fetch(events)))
  t.same([...new Set(pages.map(({ status }) => status))], [200])
  const refused = await fetch(events)
  t.equal(refused.status, 429)
  t.ok(Number(refused.headers.get('retry-after')) > 0)
  t.match((await app.metrics.expose()).text, 'distributary_http_rejected_total{limit="status-pages"} 1')
  await pages[0]!.body!.cancel()
  await until(async () => (await fetch(events)).status === 200, 'the place of a page that has gone is given to another')
})

void t.test('a stream whose permission is revoked says so and ends', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'rights-'))
  const [tokens, policy] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  writeFileSync(tokens, 'ann,ann,1\n')
  writeFileSync(policy, 'rules: [{users: [ann], verbs: [get], paths: ["/ui/*"]}]')
  const flags = [`--token-auth-file=${tokens}`, '--authorization-mode=Policy', `--authorization-policy-file=${policy}`]
  const { url } = await startApp(t, { flags })
  const page = await fetch(`${url}/ui/events`, { headers: { authorization: 'Bearer ann' } })
  t.equal(page.status, 200)
  writeFileSync(policy, 'rules: []')
  t.match(await page.text(), /event: trouble\ndata: .*ann.* cannot get path .*\n\n$/)
})

void t.test('a stream whose credential expires says so and ends', async (t) => {
  const clock = { ...systemClock, forwardMs: 0, now: () => systemClock.now() + clock.forwardMs }
  const folder = new Folder(t)
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const iss = 'https://kubernetes.default.svc'
  const flags = [
    `--service-account-issuer=${iss}`,
    `--service-account-key-file=${folder.write('sa.pub', String(publicKey.export({ type: 'spki', format: 'pem' })))}`,
    '--authorization-mode=AlwaysAllow',
  ]
  const account = { name: 'agent', namespace: 'default', uid: 'u' }
  const objects = { 'serviceaccounts/default/agent': { apiVersion: 'v1', kind: 'ServiceAccount', metadata: account } }
  const { url } = await startApp(t, { flags, objects, clock })
  const now = Math.floor(Date.now() / 1_000)
  const token = await new SignJWT({
    iss,
    aud: [iss],
    sub: 'system:serviceaccount:default:agent',
    iat: now,
    nbf: now,
    exp: now + 600,
    'kubernetes.io': { namespace: 'default', serviceaccount: { name: 'agent', uid: 'u' } },
  })
    .setProtectedHeader({ alg: 'ES256' })
    .sign(privateKey)
  const page = await fetch(`${url}/ui/events`, { headers: { authorization: `Bearer ${token}` } })
  t.equal(page.status, 200)
  // An expired token of a service account stays valid for a minute, as in the API server.
  clock.forwardMs = 700_000
  t.match(await page.text(), /event: trouble\ndata: \{"reason":"Unauthorized"\}\n\n$/)
})

void t.test('a stream whose token is revoked says so and ends', async (t) => {
  const tokens = join(mkdtempSync(join(tmpdir(), 'tokens-')), 'tokens.csv')
  const admin = 'admin,admin,1,system:masters\n'
  writeFileSync(tokens, `${admin}leaver,leaver,2,system:masters\n`)
  const flags = [`--token-auth-file=${tokens}`, '--authorization-mode=RBAC']
  const { url } = await startApp(t, { flags })
  const open = async (token: string): Promise<Response> =>
    await fetch(`${url}/ui/events`, { headers: { authorization: `Bearer ${token}` } })
  const leaver = await open('leaver')
  t.equal(leaver.status, 200)
  writeFileSync(tokens, admin)
  t.match(await leaver.text(), /event: trouble\ndata: \{"reason":"Unauthorized"\}\n\n$/)
  const stays = await open('admin')
  t.equal(stays.status, 200)
  await stays.body!.cancel()
})
