/** Bounds on the connections and streams of clients of etcd's own API. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type ClientHttp2Session, connect, constants } from 'node:http2'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { secureFlags } from '../../support/secure-flags.js'
import { until } from '../../support/until.js'
import { encode, etcdClient, startEtcdApi } from '../support/harness.js'

const ALL = { 1: '/flags/', 2: '/flags0' }
const POST = { ':method': 'POST', 'content-type': 'application/grpc', te: 'trailers' }

interface Pinging {
  readonly session: ClientHttp2Session
  /** `CODE TEXT` of the GOAWAY; undefined if there was none. */
  readonly goaway: string | undefined
  readonly ping: () => Promise<unknown>
}

async function pinging(t: Test, url: string): Promise<Pinging> {
  const session = connect(url, { rejectUnauthorized: false })
  t.teardown(() => session.destroy())
  let goaway: string | undefined
  session.on('goaway', (code, _last, text) => (goaway = `${code} ${text?.toString() ?? ''}`))
  session.on('error', () => {})
  await once(session, 'connect')
  const ping = promisify((done: (error: Error | null) => void) => {
    if (session.destroyed) done(new Error('the session is over'))
    else session.ping(done)
  })
  return {
    session,
    get goaway() {
      return goaway
    },
    ping,
  }
}

const TOO_MANY_PINGS = `${constants.NGHTTP2_ENHANCE_YOUR_CALM} too_many_pings`

for (const scheme of ['http', 'https'] as const) {
  void t.test(`${scheme}: a client that pings too often loses its connection, as at etcd`, async (t) => {
    const { app, theirs } = await startEtcdApi(t, { flags: scheme === 'https' ? secureFlags() : [] })
    const client = await pinging(t, scheme === 'https' ? app.secureUrl : app.url)
    for (let i = 0; i < 10; i++) await client.ping()
    t.equal(client.goaway, undefined, 'other clients of this port have no such limit')
    const watch = client.session.request({ ...POST, ':path': '/etcdserverpb.Watch/Watch' })
    watch.on('error', () => {})
    let received = 0
    watch.on('data', (bytes: Buffer) => (received += bytes.length))
    const message = encode({ 1: ALL })
    watch.write(Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]))
    await until(() => received > 0, 'the watch is created')
    for (let i = 0; i < 10; i++) {
      const before = received
      await theirs.put('/flags/a', String(i))
      await until(() => received > before, 'an event')
      await client.ping()
    }
    t.equal(client.goaway, undefined, 'PINGs between events measure bandwidth')
    let answered = 0
    await until(async () => {
      await client.ping().then(
        () => answered++,
        () => {},
      )
      return client.goaway !== undefined
    }, 'the connection is ended')
    t.equal(client.goaway, TOO_MANY_PINGS)
    t.ok(answered >= 2, 'a few are forgiven')
    await until(() => client.session.destroyed, 'it is closed')
    const text = await (await fetch(`${app.url}/metrics`)).text().catch(() => '')
    if (scheme === 'http') t.match(text, /distributary_http_rejected_total\{limit="pings"\} 1\n/)
  })
}

/** Opens streams that break the protocol behind their first request, so that they end while it is being admitted. */
async function endEarly(t: Test, url: string, path: string, count: number): Promise<void> {
  const session = connect(url)
  t.teardown(() => session.destroy())
  const request = encode(path === 'Watch/Watch' ? { 1: ALL } : { 1: 1 })
  const COMPRESSED = [1, 0, 0, 0, 0]
  const ended = Array.from({ length: count }, async () => {
    const stream = session.request({ ...POST, ':path': `/etcdserverpb.${path}`, authorization: 'Bearer one' })
    stream.write(Buffer.concat([Buffer.from([0, 0, 0, 0, request.length]), request, Buffer.from(COMPRESSED)]))
    stream.resume()
    await once(stream, 'close')
  })
  await Promise.all(ended)
}

void t.test('a client has a limited number of streams, over all of its connections', async (t) => {
  const folder = t.testdir()
  const [tokens, policy] = [join(folder, 'tokens.csv'), join(folder, 'policy.yaml')]
  writeFileSync(tokens, 'one,one,one\ntwo,two,two\n', { mode: 0o600 })
  const rules = ['apiGroups: ["etcd.distributary.io"], resources: ["*"]', 'paths: ["/metrics"]']
  const all = rules.map((rule) => `{users: ["*"], verbs: ["*"], ${rule}}`)
  writeFileSync(policy, `rules: [${all.join()}]`)
  const { app, ours } = await startEtcdApi(t, {
    flags: [
      '--enable-writes',
      `--token-auth-file=${tokens}`,
      '--authorization-mode=Policy',
      `--authorization-policy-file=${policy}`,
      '--requests-per-second=100000',
    ],
  })
  const one = { authorization: 'Bearer one' }
  const open = async (count: number): Promise<void> => {
    const client = etcdClient(t, app.url)
    await client.range({ 1: '/flags/a' }).catch(() => {})
    await client.call('KV/Range', encode({ 1: '/flags/a' }), one)
    const streams = Array.from({ length: count }, () => client.stream('Watch/Watch', one))
    for (const stream of streams) stream.send(encode({ 1: ALL }))
    for (const stream of streams) await stream.message(0)
    t.ok(streams.every(({ messages }) => messages[0]?.number(4) === 0))
  }
  for (const path of ['Watch/Watch', 'Lease/LeaseKeepAlive']) await endEarly(t, app.url, path, 200)
  for (let i = 0; i < 5; i++) await open(900)
  await open(500)
  const late = ours.stream('Watch/Watch', one)
  late.send(encode({ 1: ALL }))
  t.match((await late.message(0)).text(6), 'etcdserver: too many requests')
  const lease = ours.stream('Lease/LeaseKeepAlive', one)
  lease.send(encode({ 1: 1 }))
  await until(() => lease.ended !== undefined, 'the stream ends')
  t.match(lease.ended, { details: 'etcdserver: too many requests' })
  const other = ours.stream('Watch/Watch', { authorization: 'Bearer two' })
  other.send(encode({ 1: ALL }))
  t.equal((await other.message(0)).number(4), 0, 'another client has its own')
  t.match(await (await fetch(`${app.url}/metrics`, { headers: one })).text(), /limit="etcd-streams"\} 2\n/)
})
