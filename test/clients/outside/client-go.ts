/**
 * client-go, unchanged: informers of three kinds with and without WatchList, with its own detectors on, eight
 * conflicting writers, and leader election at its defaults; through restarts of the server, of one of two replicas, and
 * of etcd.
 */
import t from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { clientGo } from '../programs.js'
import { startClient } from '../support/program.js'
import { followThrough } from '../support/client-go.js'
import { disruptions, replicaDisruptions } from '../support/disruptions.js'
import { startReplicatedStage, startStage } from '../support/stage.js'

const program = buildGoProgram(clientGo)

for (const watchList of [true, false]) {
  const how = `informers that begin by ${watchList ? 'WatchList' : 'list and watch'}`
  void t.test(`${how} hold what a fresh list holds, and never relist`, async (t) => {
    await followThrough(t, await startStage(t), disruptions, { watchList })
  })
  void t.test(`${how}, and a lease, are kept through changes of two replicas`, async (t) => {
    await followThrough(t, await startReplicatedStage(t), replicaDisruptions, { watchList })
  })
}

void t.test('eight writers of one object lose no update', async (t) => {
  const client = await startClient(t, [program, (await startStage(t)).url, 'typed'])
  const outcome = (await client.ask('write', 120_000)) as { Counter: string; Expected: string; Conflicts: number }
  t.match(outcome, { Counter: '200', Expected: '200' })
  t.ok(outcome.Conflicts > 0, `${outcome.Conflicts} conflicts`)
  t.equal(await client.end(), 0)
})

void t.test('leader election passes a lease on, and has one leader at a time', async (t) => {
  const client = await startClient(t, [program, (await startStage(t)).url, 'typed'])
  t.same(await client.ask('elect', 90_000), { Order: ['first', 'second'], Both: false })
  t.equal(await client.end(), 0)
})
