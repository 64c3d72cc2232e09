/**
 * Tests that a cache that differs from etcd is detected, reported, counted and rebuilt, and that a correct one is left
 * alone.
 */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { type KeyValue, keyFromText } from '../../src/engine/model/event.js'
import { toRevision } from '../../src/engine/model/revision.js'
import type { WatchHandlers } from '../../src/engine/upstream/upstream.js'
import { pod } from '../support/pod.js'
import { pause, until } from '../support/until.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startServer, total } from '../support/server-process.js'
import { ends, pods, type Scenario, startScenario } from '../fault/scenario.js'
import { withWatch } from '../support/with-watch.js'

/** A server whose watch of the pods receives events altered by `corrupt`. */
async function corrupted(t: Test, corrupt: (keyValue: KeyValue) => KeyValue | null): Promise<Scenario> {
  let watches = 0
  return await startScenario(t, {
    wrap: (upstream) =>
      withWatch(upstream, (options, handlers) => {
        // Only the first read is corrupted, so that the rebuilt cache is correct.
        const isBroken = options.prefix === pods.prefix && ++watches === 1
        return upstream.watch(options, isBroken ? broken(handlers) : handlers)
      }),
  })

  function broken(handlers: WatchHandlers): WatchHandlers {
    return {
      ...handlers,
      onBatches: (batches) =>
        handlers.onBatches(
          batches.flatMap(({ revision, events }) => {
            const told = events.flatMap((event) => {
              if (event.type === 'delete') return event
              const keyValue = corrupt(event.keyValue)
              return keyValue === null ? [] : { ...event, keyValue }
            })
            return told.length === 0 ? [] : { revision, events: told }
          }),
        ),
    }
  }
}

const corruptions: Record<string, (keyValue: KeyValue) => KeyValue | null> = {
  'lacks a key': (keyValue) => (keyValue.key.endsWith('/odd') ? null : keyValue),
  'holds an older revision of a key': (keyValue) =>
    keyValue.key.endsWith('/odd') ? { ...keyValue, modRevision: toRevision(keyValue.modRevision - 1) } : keyValue,
  'holds another value under the right revision': (keyValue) =>
    keyValue.key.endsWith('/odd')
      ? { ...keyValue, value: Buffer.from(keyValue.value.toString().replace('right', 'wrong')) }
      : keyValue,
}
for (const [name, corrupt] of Object.entries(corruptions)) {
  void t.test(`a cache that ${name} is rebuilt, and its watchers start over`, async (t) => {
    const s = await corrupted(t, corrupt)
    const object = pod('odd', { namespace: 'a', labels: { app: 'right' } })
    const odd = await s.writer.put('/registry/pods/a/odd', object)
    const after = await s.writer.put('/registry/pods/a/even', pod('even', { namespace: 'a' }))
    await s.reached(after)
    const watch = s.recorder.watch({ target: pods, resourceVersion: String(after) })
    await until(() => s.h.watchers === 1, 'it watches')
    // A sample of the values is compared; here it contains all of them.
    await s.h.app.checkConsistency()
    await watch.ended
    t.same(ends([watch]), ['error 410 ×1'])
    t.equal(await s.count('consistency_checks_total', 'resource="pods",outcome="different"'), 1)
    t.equal(await s.count('consistency_checks_total', 'outcome="different"'), 1)
    t.equal(await s.count('consistency_checks_total', 'resource="nodes",outcome="different"'), 0)
    await until(() => s.podSource.feed.status.state === 'watching', 'it is relisted')
    const list = await s.recorder.list({ target: pods, resourceVersion: '0' })
    t.equal(list.items.find(({ id }) => id === 'a/odd')?.revision, odd)
    const last = await s.settle()
    await s.judge(t, last)
  })
}

void t.test('a correct cache is left alone, during writes and with values that cannot be served', async (t) => {
  const s = await startScenario(t)
  await s.writer.commit({
    // These keys have no namespace, so they belong to no pod.
    '/registry/pods/0stray': pod('0stray'),
    '/registry/pods/zstray': pod('zstray'),
    '/registry/pods/a/spaced':
      '{ "kind": "Pod",  "apiVersion": "v1", "metadata": { "name": "spaced", "namespace": "a" } }',
  })
  const watches = await s.watchAll()
  s.startLoad()
  for (let i = 0; i < 10; i++) {
    await s.h.app.checkConsistency()
    await pause(20)
  }
  const last = await s.settle()
  await s.h.app.checkConsistency()
  t.ok((await s.count('consistency_checks_total', 'outcome="equal"')) > 10)
  t.equal(await s.count('consistency_checks_total', 'outcome="different"'), 0)
  t.equal(await s.relists(), 0)
  t.same(ends(watches), [`open ×${watches.length}`])
  const { items } = await s.recorder.list({ target: pods, resourceVersion: '0' })
  t.ok(items.some(({ id }) => id === 'a/spaced') && last > 0)
})

for (const workers of [1, 2]) {
  void t.test(`SIGUSR2 makes a server with ${workers} worker(s) check now, and every process continues`, async (t) => {
    const etcd = await startEtcd(t)
    const writer = new EtcdWriter([etcd])
    await writer.put('/registry/pods/a/one', pod('one', { namespace: 'a' }))
    const server = await startServer(t, {
      flags: ['--etcd-servers', etcd.url, '--workers', String(workers)],
      ready: workers === 1,
    })
    for (const end = Date.now() + 20_000; Date.now() < end; await pause(20)) {
      if ((await fetch(`${server.url}/readyz`)).ok) break
    }
    // A service manager signals every process of a unit.
    for (const pid of [...childrenOf(server.pid), server.pid]) process.kill(pid, 'SIGUSR2')
    let checks = 0
    for (const end = Date.now() + 20_000; checks === 0 && Date.now() < end; await pause(50)) {
      const samples = await server.metrics()
      checks = [...samples].reduce(
        (n, [name, value]) =>
          name.includes('consistency_checks') && name.includes('"pods"') && name.includes('equal') ? n + value : n,
        0,
      )
    }
    t.equal(checks, 1, 'the pods were compared once')
    const { status, outcome, rows } = await ask(server.url)
    t.equal(status, 200)
    t.equal(outcome, 'equal', rows.map(({ reason }) => reason ?? '').join())
    t.match(
      rows.find(({ resource }) => resource === 'pods'),
      { objects: 1, differences: 0, revision: 2, sampled: 1 },
    )
    t.notMatch(await server.metrics(), /^distributary_consistency_checks_total\{.*different.*\} [1-9]/m)
    t.equal(total(await server.metrics(), 'distributary_worker_restarts_total'), 0, 'no worker has ended')
    t.equal(await server.kill('SIGTERM'), 0)
  })
}

function childrenOf(pid: number): number[] {
  const pids = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
  return pids === '' ? [] : pids.split(' ').map(Number)
}

interface Row {
  readonly group: string
  readonly resource: string
  readonly outcome: string
  readonly revision: number | null
  readonly objects: number
  readonly differences: number
  readonly sampled: number
  readonly rebuilt: boolean
  readonly reason: string | null
}

async function ask(
  url: string,
  init: RequestInit = {},
): Promise<{ status: number; kind: string; outcome: string; rows: Row[] }> {
  const answer = await fetch(`${url}/consistency-check`, { method: 'POST', ...init })
  const report = (await answer.json()) as { kind: string; outcome: string; resources?: Row[] }
  return { status: answer.status, kind: report.kind, outcome: report.outcome, rows: report.resources ?? [] }
}

void t.test('POST /consistency-check compares now, and answers with the result of each resource', async (t) => {
  const s = await corrupted(t, corruptions['holds another value under the right revision']!)
  const { url } = s.h
  const object = pod('odd', { namespace: 'a', labels: { app: 'right' } })
  const revision = await s.writer.put('/registry/pods/a/odd', object)
  await s.reached(revision)
  const first = await ask(url)
  t.equal(first.status, 200)
  t.equal(first.outcome, 'different')
  t.same(first.rows.map(({ resource }) => resource).sort(), ['configmaps', 'nodes', 'pods'])
  const podsRow = first.rows.find(({ resource }) => resource === 'pods')!
  t.match(podsRow, { group: '', outcome: 'different', differences: 1, rebuilt: true, reason: null })
  t.ok(podsRow.revision! >= revision && podsRow.objects > 0 && podsRow.sampled > 0)
  t.notOk(JSON.stringify(first).includes('odd'), 'no key is revealed')
  t.match(
    first.rows.find(({ resource }) => resource === 'nodes'),
    { outcome: 'equal', differences: 0, rebuilt: false },
  )

  await until(() => s.podSource.feed.status.state === 'watching', 'it is relisted')
  const together = await Promise.all([ask(url), ask(url), ask(url), ask(url)])
  t.same(
    together.map(({ outcome }) => outcome),
    ['equal', 'equal', 'equal', 'equal'],
  )
  const checks = await s.count('consistency_checks_total', 'resource="nodes"')
  t.ok(checks <= 1 + together.length - 1, `${checks} comparisons: a request during a comparison shares it`)

  const got = await fetch(`${url}/consistency-check`)
  t.equal(got.status, 405)
  t.equal(got.headers.get('allow'), 'POST')
  t.match(await got.json(), { kind: 'Status', reason: 'MethodNotAllowed' })
  t.equal((await ask(url, { headers: { origin: 'https://evil.example' } })).status, 403, 'not by pages of others')
  t.equal((await ask(url, { headers: { origin: url } })).status, 200)
  t.match(await ask(url), { kind: 'ConsistencyReport', outcome: 'equal' })
  t.equal((await ask(url, { body: 'x'.repeat(1e4) })).status, 200, 'it waits for no body')

  await s.etcd.kill()
  const away = await ask(url)
  t.equal(away.status, 200)
  t.equal(away.outcome, 'incomplete')
  t.match(
    away.rows.map(({ outcome, reason }) => ({ outcome, reason })),
    Array.from({ length: 3 }, () => ({ outcome: 'skipped', reason: /unavailable/ })),
  )
})

void t.test('keys are compared in etcd’s order', async (t) => {
  // The cache is in the order of binary strings, so a name beyond ASCII sorts by its bytes.
  const s = await startScenario(t)
  await s.writer.commit({ '/registry/pods/a/é': pod('é', { namespace: 'a' }), '/registry/pods/a/z': 'k8s:enc:x' })
  await s.reached(await s.write())
  await s.h.app.checkConsistency()
  t.equal(await s.count('consistency_checks_total', 'outcome="different"'), 0)
  t.ok(keyFromText('é') > keyFromText('z'))
})
