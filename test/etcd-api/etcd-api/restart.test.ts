/** Clients of etcd over restarts of our server, which is a process of its own here: etcdctl, and a bare connection. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:http2'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { endsWithUs } from '../../support/ends-with-us.js'
import { startEtcd } from '../../support/etcd-process.js'
import { freePort } from '../../support/free-port.js'
import { startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'
import { encode, etcdClient } from '../support/harness.js'
import { servedFlags } from '../support/served-flags.js'

const program = process.env['ETCDCTL_BIN'] ?? 'etcdctl'
const env = { ...process.env, ETCDCTL_API: '3' }
/**
 * A client sends a keepalive after a third of it, so that two thirds are left for a restart, also on a busy machine. Each
 * restart is followed by a wait for the next keepalive.
 */
const TTL_SECONDS = 60

/** Runs a command that goes on, and returns its output so far. */
function running(t: Test, url: string, command: readonly string[]): () => string {
  const child = spawn(program, ['--endpoints', url, ...command], { env })
  endsWithUs(child)
  t.teardown(() => child.kill())
  let output = ''
  child.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()))
  return () => output
}

const count = (text: string, what: RegExp): number => [...text.matchAll(what)].length

void t.test('a session of leases and a watch survive restarts of the server', async (t) => {
  const etcd = await startEtcd(t)
  const theirs = etcdClient(t, etcd.url)
  const port = await freePort()
  const flags = [`--port=${port}`, ...servedFlags(etcd.url, 'flags')]
  let server = await startServer(t, { flags, isSurrounded: false })
  const { url } = server
  const run = async (...command: string[]): Promise<string> =>
    (await promisify(execFile)(program, ['--endpoints', url, ...command], { env })).stdout
  const lease = /lease (\w+) granted/.exec(await run('lease', 'grant', String(TTL_SECONDS)))?.[1] ?? ''
  await run('put', '/flags/session', 'held', `--lease=${lease}`)
  const keepAlive = running(t, url, ['lease', 'keep-alive', lease])
  // From the beginning, because nothing says when it has begun.
  const watch = running(t, url, ['watch', '--prefix', '/flags/n', '--rev=1'])
  const kept = (): number => count(keepAlive(), /keepalived with TTL/g)
  await until(() => kept() > 0, 'the lease is kept alive')
  await theirs.put('/flags/n', 'value 0')
  await until(() => watch().includes('value 0'), 'the watch has an event')

  let writes = 1
  for (const signal of ['SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
    const before = kept()
    await server.kill(signal)
    await theirs.put('/flags/n', `value ${writes++}`)
    server = await startServer(t, { flags, isSurrounded: false })
    await theirs.put('/flags/n', `value ${writes++}`)
    await until(() => watch().includes(`value ${writes - 1}`), 'the watch goes on', 60_000)
    await until(() => kept() > before, `${signal}: the lease is kept alive again`, 60_000)
  }
  const values = watch()
    .split('\n')
    .filter((line) => line.startsWith('value '))
  t.same(
    values,
    Array.from({ length: writes }, (_, i) => `value ${i}`),
    'every event once, in order',
  )
  t.notMatch(keepAlive(), /expired or revoked/)
  t.equal((await theirs.range({ 1: '/flags/session' })).number(4), 1, 'what the session holds is still there')
})

void t.test('at SIGTERM a connection gets GOAWAY, and its streams end as unavailable', async (t) => {
  const etcd = await startEtcd(t)
  const server = await startServer(t, {
    flags: servedFlags(etcd.url, 'flags'),
    isSurrounded: false,
  })
  const session = connect(server.url)
  t.teardown(() => session.destroy())
  session.on('error', () => {})
  await once(session, 'connect')
  let goaway: number | undefined
  session.on('goaway', (code) => (goaway = code))
  const requests: Readonly<Record<string, Uint8Array>> = {
    'Watch/Watch': encode({ 1: { 1: '/flags/', 2: '/flags0' } }),
    'Lease/LeaseKeepAlive': encode({ 1: 1 }),
  }
  const statuses: (string | undefined)[] = []
  for (const [method, message] of Object.entries(requests)) {
    const headers = { ':method': 'POST', ':path': `/etcdserverpb.${method}`, 'content-type': 'application/grpc' }
    const stream = session.request({ ...headers, te: 'trailers' })
    stream.on('error', () => {})
    stream.on('trailers', (trailers) => statuses.push(`${trailers['grpc-status']} ${trailers['grpc-message']}`))
    stream.write(Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]))
    await once(stream, 'data')
    stream.resume()
  }
  t.equal(await server.kill('SIGTERM'), 0)
  await until(() => statuses.length === 2, 'both streams have ended')
  t.same(statuses, ['14 etcdserver: server stopped', '14 etcdserver: server stopped'])
  t.equal(goaway, 0)
})
