/** An etcd restored from an older backup has another history, whatever its ids and revisions are. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type KubeObject, nodeTransport, SharedInformer } from '../../src/client/index.js'
import { assertGuarantees } from '../guarantees/validate.js'
import { hold, TRANSPORTS } from '../security/support/transports.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { freePort } from '../support/free-port.js'
import { pod } from '../support/pod.js'
import { only } from '../support/only.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'
import { ends, startScenario, whileCutOff } from './scenario.js'

const restores = [
  { name: 'its revision goes back', overtakes: false, isSameCluster: true },
  { name: 'it has overtaken us', overtakes: true, isSameCluster: true },
  { name: 'it is another cluster, and has overtaken us', overtakes: true, isSameCluster: false },
]
for (const { name, overtakes, isSameCluster } of restores) {
  void t.test(`no two histories are served as one after etcd is restored from an older backup, ${name}`, async (t) => {
    const s = await startScenario(t)
    for (let i = 0; i < 5; i++) await s.write()
    const directory = await mkdtemp(join(tmpdir(), 'distributary-backup-'))
    t.teardown(() => rm(directory, { recursive: true, force: true }))
    const backup = join(directory, 'snapshot')
    await s.etcd.saveSnapshot(backup)
    for (let i = 0; i < 20; i++) await s.write()
    const watches = await s.watchAll()
    const settled = await s.settle()
    const oldHistory = await s.control.finish()
    await whileCutOff(s, async () => {
      await s.etcd.restoreSnapshot(backup, isSameCluster ? undefined : 'another')
      if (overtakes) while ((await s.write()) < settled + 20);
    })
    await Promise.all(watches.map((watch) => watch.ended))
    t.same(ends(watches), [`error 410 ×${watches.length}`], 'every watch ends with 410')
    assertGuarantees(t, s.recorder.history(), oldHistory)

    await s.forget()
    await until(
      () => s.podSource.cache.source.disconnectedReason === null && !overtakes === s.cacheRevision < settled,
      'listed',
    )
    await s.watchAll()
    for (let i = 0; i < 10; i++) await s.write()
    const last = await s.settle()
    t.equal(last > settled, overtakes)
    await s.judge(t, last)
  })
}

const NEVER_HAD = /"resource version \d+ has never existed here: the storage is at \d+"/

/**
 * Requests a watch from a future revision on each transport, and expects the error that the revision does not exist.
 */
async function assertDenied(t: Test, url: string, revision: number): Promise<void> {
  const path = `/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=${revision}`
  await Promise.all(
    TRANSPORTS.map(async (transport) => {
      const watch = await hold(url, transport, path)
      t.teardown(() => watch.close())
      t.equal(watch.status, 200, transport)
      await until(() => watch.hasEnded, `the end of the watch over ${transport}`, 15_000)
      t.match(watch.text, NEVER_HAD, transport)
      t.match(watch.text, /"reason":"Expired".*"code":410/)
      t.notMatch(watch.text, /BOOKMARK|ADDED/)
    }),
  )
}

void t.test('the in-process store starts over: a watch from before ends with 410', async (t) => {
  const server = await startServer(t, { flags: [] })
  await assertDenied(t, server.url, 100_000)
})

void t.test(
  'kill -9, an empty etcd, and a new start: watches from before end, and informers drop what is gone',
  async (t) => {
    const etcd = await startEtcd(t)
    const ports = {
      plain: await freePort(),
      workers: await freePort(),
      uncached: await freePort(),
      behind: await freePort(),
    }
    const reads = [...only('pods'), '--etcd-servers', etcd.url]
    const flags = {
      plain: reads,
      workers: [...reads, '--workers', '2'],
      uncached: [...reads, '--watch-cache=false'],
      behind: [...only('pods'), '--upstream', `http://127.0.0.1:${ports.plain}`],
    }
    const names = Object.keys(flags) as (keyof typeof flags)[]
    const startAll = (): Promise<ServerProcess[]> =>
      Promise.all(names.map((name) => startServer(t, { flags: [...flags[name], '--port', String(ports[name])] })))
    const writer = new EtcdWriter([etcd])
    for (let i = 0; i < 30; i++) await writer.put(`/registry/pods/default/old-${i}`, pod(`old-${i}`))
    const before = await writer.put('/registry/pods/default/kept', pod('kept'))

    const servers = await startAll()
    const informers = names.map((name) => {
      const transport = nodeTransport({ server: `http://127.0.0.1:${ports[name]}` })
      const informer = new SharedInformer({ transport, path: '/api/v1/pods', backoff: { firstMs: 50, capMs: 500 } })
      const alive = new Set<string>()
      informer.addHandler({
        added: ({ metadata }: KubeObject) => void alive.add(metadata.name),
        deleted: ({ metadata }: KubeObject) => void alive.delete(metadata.name),
      })
      informer.start()
      t.teardown(() => informer.stop())
      return { name, informer, alive, stored: () => informer.store.list().map((object) => object.metadata.name) }
    })
    const holdPods = (count: number) => (): boolean =>
      informers.every(({ stored, alive }) => stored().length === count && alive.size === count)
    await until(holdPods(31), 'every informer has all pods')

    await Promise.all(servers.map((server) => server.kill('SIGKILL')))
    await etcd.loseData()
    const now = await writer.put('/registry/pods/default/kept', pod('kept', { labels: { restored: 'yes' } }))
    t.ok(now < before)
    await startAll()
    for (const name of names) {
      await t.test(name, async (t) => {
        for (const revision of [before, 100_000]) await assertDenied(t, `http://127.0.0.1:${ports[name]}`, revision)
      })
    }
    await until(
      holdPods(1),
      () => `every informer has what is left: ${informers.map(({ stored }) => stored().length).join()}`,
    )
    await writer.put('/registry/pods/default/new', pod('new'))
    await until(holdPods(2), 'and continue from there')
    for (const { name, alive, stored } of informers) {
      t.same(
        [stored().toSorted(), [...alive].toSorted()],
        [
          ['kept', 'new'],
          ['kept', 'new'],
        ],
        name,
      )
    }
  },
)
