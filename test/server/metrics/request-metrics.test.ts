/** Request metrics: bounded labels, outcomes of writes, permissions and webhooks. */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { JsonClient } from '../../../src/server/auth/https-json.js'
import { Metrics } from '../../../src/server/metrics/metrics.js'
import { connectEtcd } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import { keyFromText } from '../../../src/engine/model/event.js'
import { freePort } from '../../support/free-port.js'
import { startApp } from '../../support/app.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'

async function samplesOf(metrics: Metrics): Promise<ReadonlyMap<string, number>> {
  return samplesIn((await metrics.expose()).text)
}

function samplesIn(text: string): ReadonlyMap<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )
}

const json = { 'content-type': 'application/json' }

void t.test(
  'requests and writes are counted by verb, resource and outcome; made-up paths create no series',
  async (t) => {
    const { app, url } = await startApp(t, {
      flags: ['--enable-writes'],
      objects: { 'pods/default/a': pod('a'), 'namespaces/default': { metadata: { name: 'default' } } },
    })
    const { metrics } = app
    await (await fetch(`${url}/apis/apps/v1/deployments`)).text()
    for (let i = 0; i < 20; i++) await (await fetch(`${url}/apis/made-up-${i}/v1/things-${i}`)).text()
    const body = JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'one' } })
    const maps = `${url}/api/v1/namespaces/default/configmaps`
    t.equal((await fetch(maps, { method: 'POST', headers: json, body })).status, 201)
    t.equal((await fetch(maps, { method: 'POST', headers: json, body })).status, 409)
    t.equal((await fetch(`${maps}/none`, { method: 'DELETE' })).status, 404)
    const watching = new AbortController()
    const watch = await fetch(`${url}/api/v1/pods?watch=1`, { signal: watching.signal })
    const samples = await samplesOf(metrics)
    t.equal(
      samples.get('distributary_http_requests_total{verb="list",group="apps",resource="deployments",code="200"}'),
      1,
    )
    t.equal(samples.get('distributary_http_requests_total{verb="list",group="",resource="",code="404"}'), 20)
    t.notOk([...samples.keys()].some((key) => key.includes('made-up')))
    const written = (verb: string, outcome: string): number | undefined =>
      samples.get(
        `distributary_write_requests_total{verb="${verb}",group="",resource="configmaps",outcome="${outcome}"}`,
      )
    t.equal(written('create', 'success'), 1)
    t.equal(written('create', 'AlreadyExists'), 1)
    t.equal(written('delete', 'NotFound'), 1)
    t.equal(
      samples.get('distributary_http_request_duration_seconds_count{verb="create",group="",resource="configmaps"}'),
      2,
    )
    for (const kind of ['read', 'write', 'passed']) {
      t.equal(samples.get(`distributary_http_requests_in_flight{kind="${kind}"}`), 0, `${kind}: none is left`)
    }
    watching.abort()
    await watch.text().catch(() => {})
  },
)

void t.test('a counter whose first increase may fire an alert is exported as 0 before that', async (t) => {
  const { app } = await startApp(t)
  // A server in a fleet does this for each resource.
  for (const { resource } of app.sources) app.metrics.forFleet(resource)
  const rules = readFileSync(new URL('../../../../deploy/prometheus/rules.yaml', import.meta.url), 'utf8')
  const lines = (await app.metrics.expose()).text.split('\n')
  const watched = [...rules.matchAll(/increase\((\w+)(?:\{(\w+)=~?"([\w|-]+)"\})?\[\w+\]\)\) > \d+$/gm)]
  // Refusals must last for as long as the alert waits.
  const sudden = watched.filter(([expression]) => !expression.includes('rejected'))
  t.equal(sudden.length, 9)
  for (const [expression, name, label, values = ''] of sudden) {
    for (const value of values.split('|')) {
      const own = lines.filter(
        (line) => line.startsWith(`${name!}{`) && (label === undefined || line.includes(`${label}="${value}"`)),
      )
      t.ok(own.length > 0 && own.every((line) => line.endsWith('} 0')), expression)
    }
  }
})

void t.test('a write that waits for its body is in flight', async (t) => {
  const { app, url } = await startApp(t, { flags: ['--enable-writes'] })
  const body = JSON.stringify({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'x' } })
  const headers = { ...json, 'content-length': Buffer.byteLength(body) }
  const writing = request(`${url}/api/v1/namespaces`, { method: 'POST', headers })
  writing.write(body.slice(0, 1))
  const inFlight = async (): Promise<number | undefined> =>
    (await samplesOf(app.metrics)).get('distributary_http_requests_in_flight{kind="write"}')
  await until(async () => (await inFlight()) === 1, 'the write is in flight')
  writing.end(body.slice(1))
  const [answer] = (await once(writing, 'response')) as [IncomingMessage]
  answer.resume()
  await until(async () => (await inFlight()) === 0, 'and then it is not')
})

void t.test('authentication and authorization are counted by result', async (t) => {
  const folder = t.testdir()
  const tokens = join(folder, 'tokens.csv')
  const policy = join(folder, 'policy.yaml')
  writeFileSync(tokens, 'secret,alice,1\n')
  writeFileSync(policy, 'rules:\n- users: [alice]\n  verbs: [list]\n  apiGroups: [""]\n  resources: [pods]\n')
  const flags = ['--token-auth-file', tokens, '--authorization-mode', 'Policy', '--authorization-policy-file', policy]
  const { app, url } = await startApp(t, { flags })
  const ask = async (path: string, token: string): Promise<number> =>
    (await fetch(url + path, { headers: { authorization: `Bearer ${token}` } })).status
  t.equal(await ask('/api/v1/pods', 'secret'), 200)
  t.equal(await ask('/api/v1/nodes', 'secret'), 403)
  t.equal(await ask('/api/v1/pods', 'wrong'), 401)
  const samples = await samplesOf(app.metrics)
  t.equal(samples.get('distributary_authentication_attempts_total{result="success"}'), 2)
  t.equal(samples.get('distributary_authentication_attempts_total{result="failure"}'), 1)
  t.equal(samples.get('distributary_authentication_duration_seconds_count{result="success"}'), 2)
  t.equal(samples.get('distributary_authorization_attempts_total{result="allowed"}'), 1)
  t.equal(samples.get('distributary_authorization_attempts_total{result="denied"}'), 1)
  t.equal(samples.get('distributary_authorization_duration_seconds_count{result="denied"}'), 1)
})

void t.test('a webhook is timed, with its code, or 0 when it does not answer', async (t) => {
  const metrics = new Metrics('0')
  const server = createServer((request, response) =>
    request.method === 'GET' ? response.end('{}') : request.socket.destroy(),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = new JsonClient({ server: url }, 'token-review', metrics.requests)
  t.teardown(() => client.close())
  await client.get('/a')
  await t.rejects(client.post('/b', {}), /hang up|ECONNRESET/)
  const samples = await samplesOf(metrics)
  const count = (code: number): number | undefined =>
    samples.get(`distributary_webhook_request_duration_seconds_count{webhook="token-review",code="${code}"}`)
  t.equal(count(200), 1)
  t.equal(count(0), 1)
})

void t.test('forwarded requests are counted by server and code', async (t) => {
  const behind = createServer((_request, response) => response.writeHead(418).end()).listen(0, '127.0.0.1')
  await once(behind, 'listening')
  t.teardown(() => behind.close())
  const target = `http://127.0.0.1:${(behind.address() as AddressInfo).port}`
  const { app, url } = await startApp(t, { flags: ['--passthrough', target] })
  t.equal((await fetch(`${url}/api/v1/pods`, { method: 'POST', body: '{}' })).status, 418)
  behind.closeAllConnections()
  await new Promise((resolve) => behind.close(resolve))
  t.equal((await fetch(`${url}/anything`)).status, 502)
  const samples = await samplesOf(app.metrics)
  t.equal(samples.get('distributary_passthrough_requests_total{server="passthrough",code="418"}'), 1)
  t.equal(samples.get('distributary_passthrough_requests_total{server="passthrough",code="502"}'), 1)
  t.equal(samples.get('distributary_passthrough_request_duration_seconds_count{server="passthrough"}'), 2)
})

void t.test('requests to etcd are timed by operation and outcome', async (t) => {
  const metrics = new Metrics('0')
  const endpoints = [`http://127.0.0.1:${await freePort()}`]
  const upstream = connectEtcd({ endpoints, metrics: metrics.upstream, connectTimeoutMs: 500 })
  t.teardown(() => upstream.close())
  await t.rejects(upstream.read({ prefix: keyFromText('/registry/') }), { code: 'unavailable' })
  await t.rejects(upstream.grantLease(1), { code: 'unavailable' })
  const samples = await samplesOf(metrics)
  const count = (operation: string): number | undefined =>
    samples.get(`distributary_etcd_request_duration_seconds_count{operation="${operation}",outcome="unavailable"}`)
  t.equal(count('range'), 1)
  t.equal(count('lease-grant'), 1)
})
