/** Failures of etcd and of connections to it that cost nothing: no watcher is disconnected, and nothing is relisted. */
import t from 'tap'
import { pause, until } from '../support/until.js'
import { ends, type Scenario, scopes, startScenario } from './scenario.js'

/** Faults that lose nothing: connected watchers stay connected, and nothing is relisted. */
const harmless: Record<string, (s: Scenario) => Promise<void>> = {
  'kill -9 and restart of etcd': async (s) => {
    for (let i = 0; i < 2; i++) {
      await s.etcd.restart()
      await s.reached(await s.write())
    }
  },
  'a connection that breaks': async (s) => {
    for (const how of ['rst', 'fin', 'rst'] as const) {
      s.proxy.cut(how)
      await s.reached(await s.write())
    }
  },
  'a connection cut in the middle of a message': async (s) => {
    for (const bytes of [1, 9, 700, 5_000]) {
      s.proxy.cutAfter(bytes)
      await s.reached(await s.write())
    }
  },
  'a connection that stalls, and nothing closes': async (s) => {
    const before = s.proxy.acceptedCount
    s.proxy.stall()
    await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the silence is noticed')
    s.proxy.cut()
    s.proxy.release()
    await s.reached(await s.write())
    if (s.proxy.acceptedCount === before) throw new Error('it did not connect again')
  },
  'answers that never come, questions that still go out': async (s) => {
    s.proxy.stall('to-client')
    await pause(400)
    s.proxy.release()
    await s.reached(await s.write())
  },
  'an etcd that is stopped for a while': async (s) => {
    await s.etcd.kill('SIGSTOP')
    await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the silence is noticed')
    await s.etcd.kill('SIGCONT')
    await s.reached(await s.write())
  },
  'latency of 40 ms each way': async (s) => {
    s.proxy.setLatency(40)
    for (let i = 0; i < 5; i++) await s.recorder.list(scopes[i % scopes.length]!)
    await s.reached(await s.write())
  },
  'a port where nobody listens for a while': async (s) => {
    await s.proxy.refuse()
    s.proxy.cut()
    await pause(600)
    await s.proxy.accept()
    await s.reached(await s.write())
  },
}

for (const [name, fault] of Object.entries(harmless)) {
  void t.test(`${name}: every watcher stays connected and misses nothing`, async (t) => {
    const s = await startScenario(t)
    const watches = await s.watchAll()
    s.startLoad()
    await pause(200)
    await fault(s)
    const last = await s.settle()
    t.same(ends(watches), [`open ×${watches.length}`])
    t.equal(await s.relists(), 0, 'nothing was relisted')
    await s.judge(t, last)
  })
}

void t.test(
  'while etcd is unreachable, the cache is served with its age and consistent reads fail in time; the server recovers by itself',
  async (t) => {
    const s = await startScenario(t)
    const watches = await s.watchAll()
    await s.etcd.kill()
    await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the feed notices')
    const cached = await fetch(`${s.h.url}/api/v1/pods?resourceVersion=0`)
    t.equal(cached.status, 200)
    t.match(cached.headers.get('x-distributary-staleness-seconds'), /^\d+$/, 'its age is in a header')
    t.ok((await s.count('cache_staleness_seconds', 'resource="pods"')) > 0, 'and in a metric')
    t.equal((await fetch(`${s.h.url}/readyz`)).status, 200, 'degraded, and ready')
    const consistent = await fetch(`${s.h.url}/api/v1/pods`)
    t.equal(consistent.status, 504)
    t.match(await consistent.json(), { kind: 'Status', reason: 'Timeout', details: { retryAfterSeconds: 1 } })
    t.ok(consistent.headers.has('retry-after'))
    await s.etcd.restart()
    const last = await s.settle()
    t.same(ends(watches), [`open ×${watches.length}`])
    await until(async () => {
      const again = await fetch(`${s.h.url}/api/v1/pods?resourceVersion=0`)
      return !again.headers.has('x-distributary-staleness-seconds')
    }, 'it is fresh again')
    await s.judge(t, last)
  },
)

void t.test('a watch from a future revision receives nothing from the past (etcd #20221)', async (t) => {
  const s = await startScenario(t)
  const before = await s.write()
  await s.reached(before)
  // etcd is ahead of the cache, which cannot know: neither events nor answers come through.
  s.proxy.stall('to-client')
  let ahead = before
  for (let i = 0; i < 20; i++) ahead = await s.write()
  const future = scopes.map((scope) => s.recorder.watch({ ...scope, resourceVersion: String(ahead) }))
  await until(() => s.h.watchers === future.length, 'all watch')
  t.equal(s.cacheRevision, before)
  s.proxy.cut()
  s.proxy.release()
  for (let i = 0; i < 30; i++) await s.write()
  const last = await s.settle()
  t.same(ends(future), [`open ×${future.length}`])
  await s.judge(t, last)
})
