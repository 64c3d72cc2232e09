/** An etcd that goes on from an older backup has another history, whatever its ids and revisions say. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { assertGuarantees } from '../guarantees/validate.js'
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
    t.same(ends(watches), [`error 410 ×${watches.length}`], 'everybody is told to start afresh')
    assertGuarantees(t, s.recorder.history(), oldHistory)

    await s.forget()
    await until(
      () => s.podSource.cache.disconnectedReason === null && !overtakes === s.cacheRevision < settled,
      'listed',
    )
    await s.watchAll()
    for (let i = 0; i < 10; i++) await s.write()
    const last = await s.settle()
    t.equal(last > settled, overtakes)
    await s.judge(t, last)
  })
}
