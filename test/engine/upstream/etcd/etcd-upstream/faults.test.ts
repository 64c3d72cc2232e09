/** Tests what a feed sees when a real etcd dies, stalls, loses its leader, or never existed. */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { keyFromText } from '../../../../../src/engine/model/event.js'
import { nextRevision, type Revision } from '../../../../../src/engine/model/revision.js'
import { connectEtcd, type EtcdUpstreamOptions } from '../../../../../src/engine/upstream/etcd/etcd-upstream.js'
import { RpcStatus } from '../../../../../src/engine/upstream/etcd/rpc-status.js'
import type { Upstream } from '../../../../../src/engine/upstream/upstream.js'
import { type EtcdProcess, startEtcd, startEtcdCluster } from '../../../../support/etcd-process.js'
import { type FaultProxy, startFaultProxy } from '../../../../support/fault-proxy.js'
import { until } from '../../../../support/until.js'
import { recordWatch } from '../../watch-recorder.js'

const prefix = keyFromText('/faults/')
const key = keyFromText('/faults/k')

/** Elections within a fraction of a second, and pings as often as the test likes. */
const quick = ['--heartbeat-interval=50', '--election-timeout=300', '--grpc-keepalive-min-time=100ms']

void t.test(
  'a killed etcd ends the watch at once and fails reads, and after its restart it serves the same client',
  async (t) => {
    const etcd = await startEtcd(t)
    const upstream = connect(t, { endpoints: [etcd.url], requestTimeoutMs: 60_000 })
    const before = await put(upstream, 'before')
    const recorder = recordWatch(upstream, prefix, nextRevision(before))
    await recorder.until('open', (r) => r.isOpen)

    await etcd.kill('SIGKILL')
    t.match(await recorder.untilEnd(10_000), { kind: 'failed', error: { name: 'UpstreamError', code: 'unavailable' } })
    const asked = performance.now()
    await t.rejects(upstream.read({ prefix }), { name: 'UpstreamError', code: 'unavailable' })
    await t.rejects(upstream.status(), { name: 'UpstreamError', code: 'unavailable' })
    await t.rejects(put(upstream, 'lost'), { name: 'UpstreamError', code: 'unavailable' })
    t.ok(performance.now() - asked < 60_000, 'none of them waits for a timeout')
    const refused = recordWatch(upstream, prefix, nextRevision(before))
    t.match(await refused.untilEnd(10_000), { kind: 'failed', error: { code: 'unavailable' } })

    await etcd.restart()
    const after = await eventually(() => put(upstream, 'after'))
    t.equal((await upstream.readKey(key))?.value.toString(), 'after')
    const resumed = recordWatch(upstream, prefix, nextRevision(before))
    await resumed.untilRevision(after)
    t.equal(resumed.batches.length, 1, 'what was written while the first watch was gone')
    resumed.watch.close()
  },
)

void t.test('an etcd that stops without closing its connections is detected by its silence', async (t) => {
  const etcd = await startEtcd(t, { flags: quick })
  const upstream = connect(t, {
    endpoints: [etcd.url],
    keepAliveTimeMs: 600,
    keepAliveTimeoutMs: 400,
    requestTimeoutMs: 1_500,
    connectTimeoutMs: 1_000,
  })
  const revision = await put(upstream, 'before')
  const recorder = recordWatch(upstream, prefix, nextRevision(revision))
  await recorder.until('open', (r) => r.isOpen)

  await etcd.kill('SIGSTOP')
  t.teardown(() => etcd.kill('SIGCONT'))
  t.match(await recorder.untilEnd(20_000), { kind: 'failed', error: { code: 'unavailable' } })
  await t.rejects(upstream.read({ prefix }), { code: 'unavailable' })
  const unopened = recordWatch(upstream, prefix, nextRevision(revision))
  t.match(await unopened.untilEnd(20_000), { kind: 'failed', error: { code: 'unavailable' } })

  await etcd.kill('SIGCONT')
  t.equal((await eventually(() => upstream.read({ prefix }))).count, 1)
})

void t.test('a read whose connection is cut is repeated over another one, and a write is not', async (t) => {
  const etcd = await startEtcd(t)
  const [first, second] = await Promise.all([proxyTo(t, etcd), proxyTo(t, etcd)])
  const upstream = connect(t, { endpoints: [`http://127.0.0.1:${first.port}`] })
  await put(upstream, '1')
  for (const how of ['rst', 'fin'] as const) {
    first.cut(how)
    t.equal((await upstream.read({ prefix })).count, 1, `${how}: noticed only by the read`)
    first.stall('to-client')
    const before = await handled(etcd, 'Range')
    const read = upstream.readKey(key)
    await until(async () => (await handled(etcd, 'Range')) > before, 'etcd has answered')
    first.cut(how)
    first.release()
    t.equal((await read)?.value.toString(), '1', `${how}: while the read waits for its answer`)
  }

  first.stall('to-client')
  const before = await handled(etcd, 'Txn')
  const lost = t.rejects(put(upstream, '2'), { code: 'unavailable' })
  await until(async () => (await handled(etcd, 'Txn')) > before, 'etcd has answered')
  first.cut()
  first.release()
  await lost
  t.equal((await upstream.readKey(key))?.version, 2)

  await t.test('even if that of every endpoint was cut', async (t) => {
    await second.refuse()
    const upstream = connect(t, { endpoints: [first, second].map(({ port }) => `http://127.0.0.1:${port}`) })
    await upstream.readKey(key)
    await second.accept()
    await until(async () => (await upstream.status()).serverVersions.length === 2, 'both are connected')
    const before = await handled(etcd, 'Range')
    for (const proxy of [first, second]) proxy.stall('to-client')
    const read = upstream.readKey(key)
    for (const [i, proxy] of [first, second].entries()) {
      await until(async () => (await handled(etcd, 'Range')) > before + i, 'etcd has answered')
      proxy.cut()
    }
    for (const proxy of [first, second]) proxy.release()
    t.equal((await read)?.version, 2)
  })
})

void t.test('etcd accepts pings at the default interval', async (t) => {
  const etcd = await startEtcd(t, { flags: ['--grpc-keepalive-min-time=1s'] })
  const upstream = connect(t, { endpoints: [etcd.url], keepAliveTimeMs: 1_200 })
  const start = nextRevision(await put(upstream, '0'))
  const recorder = recordWatch(upstream, prefix, start)
  await recorder.until('open', (r) => r.isOpen)
  // etcd tolerates two early pings and closes the connection at the third; the defaults have the same ratio.
  await delay(5_000)
  await recorder.untilRevision(await put(upstream, '1'))
  t.equal(recorder.end, null)
  recorder.watch.close()
})

void t.test('one reachable member of three is enough, and a dead one costs a watch but no read', async (t) => {
  const cluster = await startEtcdCluster(t, { flags: quick })
  const { endpoints, open } = await firstAlone(t, cluster)
  const upstream = connect(t, { endpoints, requestTimeoutMs: 2_000 })
  const revision = await put(upstream, '1')
  const recorder = recordWatch(upstream, prefix, nextRevision(revision))
  await recorder.until('open', (r) => r.isOpen)
  await open()
  const status = await eventually(async () => {
    const answer = await upstream.status()
    if (answer.serverVersions.length < 3) throw new Error('not all are connected')
    return answer
  })

  // The endpoint that connected first is used as long as it answers.
  await cluster[0]!.kill('SIGKILL')
  t.match(await recorder.untilEnd(10_000), { kind: 'failed', error: { code: 'unavailable' } })
  t.equal((await upstream.read({ prefix })).keyValues[0]?.value.toString(), '1', 'a read goes to another member')
  const resumed = recordWatch(upstream, prefix, nextRevision(revision))
  const written = await eventually(() => put(upstream, '2'))
  await resumed.untilRevision(written)
  await until(async () => (await upstream.status()).serverVersions.length === 2, 'two answer')
  t.equal((await upstream.status()).clusterId, status.clusterId)

  await t.test('a member that loses its leader ends its watches, instead of going silent', async (t) => {
    await cluster[1]!.kill('SIGKILL')
    t.match(await resumed.untilEnd(10_000), { kind: 'failed', error: { code: 'unavailable' } })
    await t.rejects(upstream.read({ prefix }), { code: 'unavailable' }, 'no quorum, no read')
  })

  await t.test('the same client continues when the others are back', async (t) => {
    await Promise.all([cluster[0]!.restart(), cluster[1]!.restart()])
    const last = await eventually(() => put(upstream, '3'))
    const again = recordWatch(upstream, prefix, nextRevision(written))
    await again.untilRevision(last)
    t.equal(again.batches.at(-1)?.revision, last)
    again.watch.close()
  })
})

void t.test('a stalled member is skipped', async (t) => {
  const cluster = await startEtcdCluster(t, { flags: quick })
  const { endpoints, open } = await firstAlone(t, cluster)
  const requestTimeoutMs = 8_000
  const upstream = connect(t, { endpoints, requestTimeoutMs })
  await put(upstream, '1')
  await open()
  await cluster[0]!.kill('SIGSTOP')
  t.teardown(() => cluster[0]!.kill('SIGCONT'))
  const asked = performance.now()
  const page = await upstream.read({ prefix })
  t.equal(page.keyValues[0]?.value.toString(), '1')
  await upstream.read({ prefix })
  await upstream.currentRevision()
  // Any of them may be the one that meets the stalled member.
  t.ok(performance.now() - asked < 2 * requestTimeoutMs, 'who is known to stall is not asked again')
})

void t.test('a read continues at another member whenever the one it waits for goes silent', async (t) => {
  // The election takes longer than the test: a follower cannot answer while the leader is frozen.
  const cluster = await startEtcdCluster(t, { flags: ['--heartbeat-interval=500', '--election-timeout=20000'] })
  const leader = await leaderOf(cluster)
  const follower = cluster.find((member) => member !== leader)!
  const never = { keepAliveTimeMs: 300_000, keepAliveTimeoutMs: 300_000, requestTimeoutMs: 300_000 }
  const { endpoints, open } = await firstAlone(t, [leader, follower])
  const upstream = connect(t, { endpoints, ...never })
  const start = nextRevision(await put(upstream, '1'))
  const recorder = recordWatch(upstream, prefix, start)
  await recorder.until('open', (r) => r.isOpen)
  await open()

  await leader.kill('SIGSTOP')
  const read = upstream.read({ prefix })
  t.match(
    await recorder.untilEnd(10_000),
    { kind: 'left', error: { code: 'unavailable' } },
    'nothing is to be waited for',
  )
  const resumed = recordWatch(upstream, prefix, start)
  await resumed.until('open', (r) => r.isOpen)
  await follower.kill('SIGSTOP')
  await leader.kill('SIGCONT')
  t.match(await resumed.untilEnd(10_000), { kind: 'left' })
  t.equal((await read).keyValues[0]?.value.toString(), '1', 'the first member again')
  await follower.kill('SIGCONT')
})

void t.test("streams in etcd's own protocol leave a silent member", async (t) => {
  const cluster = await startEtcdCluster(t, { flags: ['--heartbeat-interval=500', '--election-timeout=20000'] })
  const never = { keepAliveTimeMs: 300_000, keepAliveTimeoutMs: 300_000, requestTimeoutMs: 300_000 }
  const { endpoints, open } = await firstAlone(t, cluster.slice(0, 2))
  const upstream = connect(t, { endpoints, ...never })
  const recorder = recordWatch(upstream, prefix, nextRevision(await put(upstream, '1')))
  await recorder.until('open', (r) => r.isOpen)
  recorder.watch.close()
  const ends: (Error | null)[] = []
  const stream = await upstream.raw!.stream('/etcdserverpb.Lease/LeaseKeepAlive', {
    onMessage: () => {},
    onEnd: (error) => ends.push(error),
  })
  const canceled = await upstream.raw!.stream('/etcdserverpb.Lease/LeaseKeepAlive', {
    onMessage: () => {},
    onEnd: () => t.fail('it has been cancelled'),
  })
  canceled.cancel()
  await open()
  await cluster[0]!.kill('SIGSTOP')
  t.teardown(() => cluster[0]!.kill('SIGCONT'))
  await until(() => ends.length > 0, 'the stream ends', 15_000)
  t.match(ends[0], { name: 'RpcError', code: RpcStatus.UNAVAILABLE })
  stream.cancel()
  await cluster[0]!.kill('SIGCONT')
  await delay(500)
  t.equal(ends.length, 1, 'once')
})

void t.test('a read that waits for a frozen leader is answered by the next one', async (t) => {
  const cluster = await startEtcdCluster(t, { flags: quick })
  const leader = await leaderOf(cluster)
  const follower = cluster.find((member) => member !== leader)!
  const upstream = connect(t, { endpoints: [follower.url] })
  await put(upstream, '1')
  await leader.kill('SIGSTOP')
  t.equal((await upstream.read({ prefix })).count, 1)
  await leader.kill('SIGCONT')
})

void t.test('a dead endpoint at the head of the list delays no request', async (t) => {
  const etcd = await startEtcd(t)
  const sockets = new Set<Socket>()
  const mute = createServer((socket) => sockets.add(socket.on('error', () => {}))).listen(0, '127.0.0.1')
  await once(mute, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    mute.close()
  })
  const address = mute.address()
  const mutePort = typeof address === 'object' ? address?.port : 0
  for (const [what, dead] of [
    ['nothing listens', 'http://127.0.0.1:1'],
    ['something listens and says nothing', `http://127.0.0.1:${mutePort}`],
    ['a name that does not resolve', 'http://no-such-host.invalid:2379'],
    ['TLS is spoken to a plain port', etcd.url.replace('http:', 'https:')],
  ] as const) {
    const upstream = connect(t, { endpoints: [dead, etcd.url], connectTimeoutMs: 60_000, requestTimeoutMs: 60_000 })
    const asked = performance.now()
    const revision = await put(upstream, what)
    const recorder = recordWatch(upstream, prefix, revision)
    await recorder.untilRevision(revision)
    t.ok(performance.now() - asked < 60_000, what)
    const alone = connect(t, { endpoints: [dead], connectTimeoutMs: 300 })
    await t.rejects(alone.read({ prefix }), { name: 'UpstreamError', code: 'unavailable' }, what)
  }
})

void t.test('two clusters under one name are refused', async (t) => {
  const [one, other] = await Promise.all([startEtcd(t), startEtcd(t)])
  const upstream = connect(t, { endpoints: [one.url, other.url] })
  await t.rejects(upstream.status(), { name: 'UpstreamError', code: 'protocol' })
})

void t.test('an endpoint that is not an etcd URL is rejected at once', async (t) => {
  for (const url of ['localhost:2379', 'ftp://localhost', 'http//x', '']) {
    t.throws(() => connectEtcd({ endpoints: [url] }), TypeError, url)
  }
  t.throws(() => connectEtcd({ endpoints: [] }), RangeError)
})

async function proxyTo(t: Test, { url }: EtcdProcess): Promise<FaultProxy> {
  const proxy = await startFaultProxy({ targetPort: Number(new URL(url).port) })
  t.teardown(() => proxy.close())
  return proxy
}

/** The number of calls that etcd has answered. */
async function handled(etcd: EtcdProcess, method: string): Promise<number> {
  let calls = 0
  for (const [name, value] of await etcd.metrics()) {
    if (name.startsWith('grpc_server_handled_total{') && name.includes(`grpc_method="${method}"`)) calls += value
  }
  return calls
}

async function leaderOf(members: readonly EtcdProcess[]): Promise<EtcdProcess> {
  return eventually(async () => {
    for (const member of members) {
      const answer = await member.call('maintenance/status', {})
      const { header, leader } = answer as unknown as { header: { member_id: string }; leader: string }
      if (header.member_id === leader) return member
    }
    throw new Error('there is no leader')
  })
}

/**
 * The member that connects first is used. To make that the first of these, the others are behind a proxy that refuses
 * connections until `open`.
 */
async function firstAlone(
  t: Test,
  [first, ...others]: readonly EtcdProcess[],
): Promise<{ endpoints: string[]; open: () => Promise<void> }> {
  const proxies = await Promise.all(
    others.map(async (member) => {
      const proxy = await proxyTo(t, member)
      await proxy.refuse()
      return proxy
    }),
  )
  return {
    endpoints: [first!.url, ...proxies.map(({ port }) => `http://127.0.0.1:${port}`)],
    open: async () => {
      await Promise.all(proxies.map((proxy) => proxy.accept()))
    },
  }
}

function connect(t: Test, options: EtcdUpstreamOptions): Upstream {
  const upstream = connectEtcd(options)
  t.teardown(() => upstream.close())
  return upstream
}

async function put(upstream: Upstream, value: string): Promise<Revision> {
  return (await upstream.write([], [{ type: 'put', key, value: Buffer.from(value) }])).revision
}

/** Retries for some seconds, as a feed does. */
async function eventually<T>(attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    try {
      return await attempt()
    } catch (error) {
      if (attempts === 100) throw error
      await delay(100)
    }
  }
}
