/**
 * etcd compacts history before the server has seen it: watchers get an explicit end or the difference, never a hole.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { ends, pods, scopes, startScenario, whileCutOff } from './scenario.js'

void t.test('after a compaction while cut off, a watcher that missed something gets 410, never a hole', async (t) => {
  const s = await startScenario(t)
  const watches = await s.watchAll()
  await s.reached(await s.write())
  await whileCutOff(s, async () => {
    for (let i = 0; i < 30; i++) await s.write()
    await s.etcd.compact(await s.write())
  })
  await Promise.all(watches.map((watch) => watch.ended))
  t.same(ends(watches), [`error 410 ×${watches.length}`])
  // A watcher that resumes from its old position also gets 410; one that asks for the state gets it.
  const again = watches.map((watch) => s.recorder.resume(watch, 'event')).filter((watch) => watch !== null)
  await Promise.all(again.map((watch) => watch.ended))
  t.same(ends(again), [`error 410 ×${again.length}`])
  await s.watchAll()
  const last = await s.settle()
  t.ok((await s.relists()) > 0)
  await s.judge(t, last)
})

void t.test(
  'a delete that the server has not seen is not lost by a compaction at it (etcd #18089, #19179)',
  async (t) => {
    for (const missed of [1, 2]) {
      const s = await startScenario(t)
      await s.writer.put('/registry/pods/a/doomed', pod('doomed', { namespace: 'a' }))
      const watches = await s.watchAll()
      await s.reached(await s.write())
      await whileCutOff(s, async () => {
        if (missed === 2) await s.writer.put('/registry/pods/b/other', pod('other', { namespace: 'b' }))
        await s.etcd.compact(await s.writer.commit({ '/registry/pods/a/doomed': null }))
      })
      const last = await s.settle()
      const list = await s.recorder.list({ target: pods, namespace: 'a', resourceVersion: '0' })
      t.notOk(list.items.some(({ id }) => id === 'a/doomed'))
      t.ok(
        watches.every(({ end, items }) => end !== 'open' || items.some((item) => item.type === 'DELETED')) ||
          ends(watches).join() === `error 410 ×${watches.length}`,
        'each watch receives the deletion or ends with 410',
      )
      await s.judge(t, last)
    }
  },
)

void t.test('with --on-gap=coalesce watches survive a gap, and end in etcd’s state', async (t) => {
  const s = await startScenario(t, { flags: ['--on-gap', 'coalesce'] })
  const before = await s.write()
  await s.reached(before)
  const watches = scopes.map((scope) => s.recorder.watch({ ...scope, sendInitialEvents: true }))
  await Promise.all(watches.map((watch) => watch.until(({ items }) => items.some((item) => item.type === 'BOOKMARK'))))
  let inGap = before
  await whileCutOff(s, async () => {
    for (let i = 0; i < 20; i++) inGap = await s.write()
    await s.writer.commit({ '/registry/pods/a/p1': null, '/registry/pods/b/p1': null })
    for (let i = 0; i < 20; i++) await s.write()
    await s.etcd.compact(await s.write())
  })
  const last = await s.settle()
  t.same(ends(watches), [`open ×${watches.length}`])
  await s.judgeStates(t, watches, last)
  t.ok((await s.count('cache_events_coalesced_total')) > 0)
  const inside = s.recorder.watch({ target: pods, resourceVersion: String(inGap) })
  await inside.ended
  t.equal(inside.code, 410, 'nobody resumes inside the gap')
})

void t.test('a gap that leads to another history is not bridged, whichever key reveals it', async (t) => {
  const s = await startScenario(t, { flags: ['--on-gap', 'coalesce'] })
  const directory = await mkdtemp(join(tmpdir(), 'distributary-backup-'))
  t.teardown(() => rm(directory, { recursive: true, force: true }))
  const backup = join(directory, 'snapshot')
  await s.writer.put('/registry/pods/a/stays', pod('stays', { namespace: 'a' }))
  await s.etcd.saveSnapshot(backup)
  // This key is not in the backup; the feed's fingerprint ends with the next key, which the other history also has.
  const lost = await s.writer.put(
    '/registry/pods/a/differs',
    pod('differs', { namespace: 'a', labels: { app: 'old' } }),
  )
  const fingerprint = pod('marker', { namespace: 'a' })
  const seen = await s.writer.put('/registry/pods/a/marker', fingerprint)
  await s.reached(seen)
  const watch = s.recorder.watch({ target: pods, resourceVersion: String(seen) })
  await until(() => s.h.watchers === 1, 'it watches')
  await whileCutOff(s, async () => {
    await s.etcd.restoreSnapshot(backup)
    // One revision as in the other history but with another value, then the same last key at the same revision.
    for (;;) {
      const revision = await s.writer.put(
        '/registry/pods/a/differs',
        pod('differs', { namespace: 'a', labels: { app: 'new' } }),
      )
      if (revision >= seen - 1) break
    }
    await s.writer.put('/registry/pods/a/marker', fingerprint)
    for (let i = 0; i < 10; i++) await s.write()
    await s.etcd.compact(await s.write())
  })
  await watch.ended
  t.same(ends([watch]), ['error 410 ×1'], `${lost} is not the same in both`)
})
