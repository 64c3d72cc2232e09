/**
 * Tests a server that is fed by another (`--upstream`), with faults of the link between them and of the server in
 * front: over SSE, as from another distributary, and in protobuf and JSON lines, as from a kube-apiserver.
 */
import t from 'tap'
import { pause, until } from '../support/until.js'
import { ends, pods, type Scenario, scopes, startScenario } from './scenario.js'

/** Faults that lose nothing: connected watchers stay connected, and nothing is relisted. */
const harmless = {
  'a connection that breaks': async (s: Scenario) => {
    for (const how of ['rst', 'fin'] as const) {
      s.hop!.cut(how)
      await s.reached(await s.write())
    }
  },
  'one cut in the middle of an event': async (s: Scenario) => {
    for (const bytes of [90, 5_000]) {
      s.hop!.cutAfter(bytes)
      await s.reached(await s.write())
    }
  },
  'one that stalls, and nothing closes': async (s: Scenario) => {
    s.hop!.stall()
    await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the silence is noticed')
    s.hop!.release()
    await s.reached(await s.write())
  },
  'a restart of the server in front': async (s: Scenario) => {
    await s.inner!.app.drain()
    await s.inner!.app.stop()
    await s.write()
    await s.startInner()
    await s.reached(await s.write())
  },
}

/** The formats differ in where a stream may be resumed. */
const ofApiServers = Object.entries(harmless).filter(([name]) => name !== 'one that stalls, and nothing closes')
const faults = { sse: Object.entries(harmless), protobuf: ofApiServers, json: ofApiServers } as const

for (const chain of ['sse', 'protobuf', 'json'] as const) {
  void t.test(`a server fed by another over ${chain} misses nothing, whatever happens between them`, async (t) => {
    const s = await startScenario(t, { chain })
    const watches = await s.watchAll()
    s.startLoad(1, 10)
    await pause(200)
    const running = ends(watches)
    t.same(running, ['open ×18'], 'also from before the start')
    for (const [name, fault] of faults[chain]) {
      await fault(s)
      t.same(ends(watches), running, name)
    }
    const last = await s.settle()
    t.same(ends(watches), running)
    t.equal(await s.relists(), 0, 'nothing was relisted')
    for (const source of s.h.app.sources) {
      t.match(await source.feed.checkConsistency?.(), { kind: 'equal' }, `${source.resource.plural} are what etcd has`)
    }
    await s.judge(t, last)
  })
}

for (const chain of ['protobuf', 'json'] as const) {
  void t.test(
    `an API server without its history, read in ${chain}: with --on-gap=expire watches end with 410`,
    async (t) => {
      const s = await startScenario(t, { chain, flags: ['--on-gap', 'expire'] })
      const seen = await s.write()
      await s.reached(seen)
      const watches = scopes.map((scope) => s.recorder.watch({ ...scope, resourceVersion: String(seen) }))
      await s.restartApiServer(async () => {
        for (let i = 0; i < 20; i++) await s.write()
      })
      await Promise.all(watches.map((watch) => watch.ended))
      t.same(ends(watches), [`error 410 ×${watches.length}`])
      await s.watchAll()
      const last = await s.settle()
      await s.judge(t, last)
    },
  )

  void t.test(`by default watches survive that, read in ${chain}`, async (t) => {
    const s = await startScenario(t, { chain, flags: ['--on-gap-overrides', 'services=expire'] })
    for (let i = 0; i < 20; i++) await s.reached(await s.write())
    const list = await fetch(`${s.h.url}/api/v1/pods?history=`)
    t.equal(list.headers.get('x-distributary-on-gap'), 'coalesce')
    t.equal((await fetch(`${s.h.url}/api/v1/services`)).headers.get('x-distributary-on-gap'), null)
    const position = list.headers.get('x-distributary-position')!
    const watch = `${s.h.url}/api/v1/pods?watch=1&resourceVersion=${position.split('.')[0]}`
    await s.reached(await s.write())
    t.equal((await fetch(`${watch}&wait=5s&history=${position}`)).status, 200, 'without a gap')
    // As another server asks this one, which then decides itself what its watchers get.
    const ofChain = fetch(`${watch}&onGap=expire`).then((response) => response.text())
    const watches = scopes.map((scope) => s.recorder.watch({ ...scope, sendInitialEvents: true }))
    await Promise.all(watches.map((watch) => watch.until(({ items }) => items.some(({ type }) => type === 'BOOKMARK'))))
    let inGap = 0
    for (let round = 0; round < 3; round++) {
      await s.restartApiServer(async () => {
        for (let i = 0; i < 20; i++) inGap = await s.write()
        for (let i = 0; i < 20; i++) await s.write()
      })
      await s.reached(await s.write())
    }
    const last = await s.settle()
    t.same(ends(watches), [`open ×${watches.length}`])
    t.match(await ofChain, /"code":410/, 'a server that reads this one notices the gap')
    t.match(await (await fetch(`${watch}&onGap=expire`)).text(), /"code":410/, 'also later')
    const across = await fetch(`${watch}&wait=5s&history=${position}`)
    t.equal(across.status, 410, 'a poll across the gap')
    await s.judgeStates(t, watches, last)
    t.ok((await s.count('cache_events_coalesced_total')) > 0)
    const inside = s.recorder.watch({ target: pods, resourceVersion: String(inGap) })
    await inside.ended
    t.equal(inside.code, 410, 'nobody resumes inside the gap')
  })
}

void t.test('a gap that the server in front has bridged is known here, and bridged again', async (t) => {
  const s = await startScenario(t, { chain: 'sse' })
  await s.inner!.app.stop()
  await s.startInner(s.inner!.port, s.proxies, { onGap: 'coalesce' })
  for (let i = 0; i < 5; i++) await s.reached(await s.write())
  const watches = scopes.map((scope) => s.recorder.watch({ ...scope, sendInitialEvents: true }))
  await Promise.all(watches.map((watch) => watch.until(({ items }) => items.some(({ type }) => type === 'BOOKMARK'))))
  const list = await fetch(`${s.h.url}/api/v1/pods?history=`)
  const position = list.headers.get('x-distributary-position')!
  await s.proxy.refuse()
  s.proxy.cut()
  const front = [...s.inner!.app.sources]
  await until(
    () => front.every(({ cache }) => cache.source.disconnectedReason !== null),
    'the server in front is cut off',
  )
  for (let i = 0; i < 30; i++) await s.write()
  await s.etcd.compact(await s.write())
  await s.proxy.accept()
  await s.reached(await s.write())
  const last = await s.settle()
  t.ok((await s.count('feed_relists_total', 'reason="coalesce"')) > 0)
  t.same(ends(watches), [`open ×${watches.length}`])
  const poll = `${s.h.url}/api/v1/pods?watch=1&resourceVersion=${position.split('.')[0]}&history=${position}&wait=5s`
  t.equal((await fetch(poll)).status, 410, 'a poll across it')
  await s.judgeStates(t, watches, last)
})

void t.test(
  'while the server in front is unreachable, the cache is served with its age and consistent reads fail in time',
  async (t) => {
    const s = await startScenario(t, { chain: 'sse' })
    const watches = await s.watchAll()
    await s.inner!.app.stop()
    await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the feed notices')
    const cached = await fetch(`${s.h.url}/api/v1/pods?resourceVersion=0`)
    t.equal(cached.status, 200)
    t.match(cached.headers.get('x-distributary-staleness-seconds'), /^\d+$/, 'its age is in a header')
    t.ok((await s.count('cache_staleness_seconds', 'resource="pods"')) > 0, 'and in a metric')
    t.equal((await fetch(`${s.h.url}/readyz`)).status, 200, 'degraded, and ready')
    const consistent = await fetch(`${s.h.url}/api/v1/pods`)
    t.equal(consistent.status, 504)
    t.match(await consistent.json(), { kind: 'Status', reason: 'Timeout', details: { retryAfterSeconds: 1 } })
    await s.write()
    await s.startInner()
    const last = await s.settle()
    t.same(ends(watches), [`open ×${watches.length}`])
    await s.judge(t, last)
  },
)

void t.test('another etcd behind the server in front is another history, and every watcher gets 410', async (t) => {
  const s = await startScenario(t, { chain: 'sse' })
  const watches = await s.watchAll()
  const before = s.cacheRevision
  await s.inner!.app.stop()
  const { port } = s.inner!
  const other = await startScenario(t, { seed: 2 })
  while (other.cacheRevision < before + 50) await other.reached(await other.write())
  await s.startInner(port, [other.proxy])
  await until(() => watches.every(({ end }) => end !== 'open'), 'every watch ends', 20_000)
  t.same(ends(watches), [`error 410 ×${watches.length}`])
})
