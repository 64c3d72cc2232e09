/** Large amounts at once: a full etcd, a burst of 50 MB, values at etcd's limit, a hundred keys in one revision. */
import t from 'tap'
import type { Revision } from '../../src/engine/model/revision.js'
import { pod } from '../support/pod.js'
import { until } from '../support/until.js'
import { apps, ends, namespaces, nodes, pods, startScenario } from './scenario.js'

void t.test(
  'when etcd is out of space, its content is served, and so is what is written after the alarm',
  async (t) => {
    const s = await startScenario(t, { etcdFlags: [`--quota-backend-bytes=${4 * 1024 * 1024}`] })
    const watches = await s.watchAll()
    const filler = 'x'.repeat(200_000)
    let revision: Revision | null = null
    let alarm = ''
    for (let i = 0; i < 60 && alarm === ''; i++) {
      try {
        const object = pod('filler', { namespace: 'a', spec: { filler: `${filler}${i}` } })
        revision = await s.writer.commit({ '/registry/pods/a/filler': object })
      } catch (error) {
        alarm = String(error)
      }
    }
    t.match(alarm, /space/, 'etcd takes no more')
    await s.reached(revision!)
    await s.recorder.list({ target: pods })
    t.equal((await fetch(`${s.h.url}/readyz`)).status, 200)
    s.proxy.cut()
    const during = s.recorder.watch({ target: pods, sendInitialEvents: true })
    await during.until(({ items }) => items.some(({ type }) => type === 'BOOKMARK'))
    await s.etcd.compact(revision!)
    await s.etcd.call('maintenance/defragment', {})
    const { alarms } = (await s.etcd.call('maintenance/alarm', { action: 'GET' })) as { alarms: object[] }
    for (const raised of alarms) await s.etcd.call('maintenance/alarm', { ...raised, action: 'DEACTIVATE' })
    await s.writer.commit({ '/registry/pods/a/filler': null })
    const last = await s.settle()
    t.same(ends([...watches, during]), [`open ×${watches.length + 1}`])
    await s.judge(t, last)
  },
)

void t.test('a stalled reader gets every event of a 50 MB burst with values near etcd’s limit', async (t) => {
  const s = await startScenario(t, { flags: ['--watch-cache-bytes', '128Mi'] })
  const start = await s.write()
  const scope = { target: pods, resourceVersion: String(start) }
  const watches = [s.recorder.watch(scope), s.recorder.watch(scope), s.recorder.watch({ ...scope, namespace: 'a' })]
  const slow = s.recorder.watch(scope)
  await until(() => s.h.watchers === 4, 'all watch')
  s.pauseWatch(slow)
  for (let i = 0; i < 36; i++) {
    const namespace = s.pick(['a', 'ab'])
    const filler = `${i}`.padEnd(i % 3 === 0 ? 1_400_000 : 1_000_000, 'x')
    await s.writer.commit(
      { [`/registry/pods/${namespace}/big${i % 5}`]: pod(`big${i % 5}`, { namespace, spec: { filler } }) },
      20_000,
    )
  }
  for (let i = 0; i < 120; i++) {
    const filler = 'y'.repeat(100_000)
    await s.writer.commit({ [`/registry/pods/a/mid${i}`]: pod(`mid${i}`, { namespace: 'a', spec: { filler } }) })
  }
  const last = await s.settle()
  t.same(ends([...watches, slow]), ['open ×4'])
  t.equal(await s.relists(), 0)
  await s.judge(t, last)
})

void t.test('100 keys of one transaction arrive as one, whatever a selector picks from them', async (t) => {
  const s = await startScenario(t)
  const watches = await s.watchAll()
  for (let round = 0; round < 5; round++) {
    const change: Record<string, object | null> = {}
    for (let i = 0; i < 100; i++) {
      const namespace = s.pick(namespaces)
      const labels = { app: s.pick(apps), round: String(round) }
      change[`/registry/pods/${namespace}/t${i}`] =
        s.random.next() < 0.2 ? null : pod(`t${i}`, { namespace, labels, spec: { nodeName: s.pick(nodes) } })
    }
    await s.writer.commit(change)
    if (round === 2) s.proxy.cutAfter(2_000)
  }
  const last = await s.settle()
  t.same(ends(watches), [`open ×${watches.length}`])
  await s.judge(t, last)
})
