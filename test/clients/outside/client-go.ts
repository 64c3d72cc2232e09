/**
 * client-go, unchanged: informers of three kinds with and without WatchList, with its own detectors on, eight
 * conflicting writers, and leader election at its defaults; through restarts of the server and of etcd.
 */
import t from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { until } from '../../support/until.js'
import { clientGo } from '../programs.js'
import { startClient } from '../support/program.js'
import { disruptions, momentAfter } from '../support/disruptions.js'
import { startStage } from '../support/stage.js'

interface Follower {
  readonly Name: string
  readonly Objects: number
  readonly Held: string
  readonly Listed: string
  readonly Stale: readonly string[] | null
  readonly Lists: number
  readonly WatchLists: number
  readonly Watches: number
  readonly Exact: number
}

const program = buildGoProgram(clientGo)

const runs = [
  { names: ['typed', 'dynamic', 'metadata'], watchList: true },
  { names: ['typed', 'dynamic', 'metadata'], watchList: false },
]

for (const { names, watchList } of runs) {
  const how = watchList ? 'WatchList' : 'list and watch'
  const what = names.join(', ')
  void t.test(`${what}: informers that begin by ${how} hold what a fresh list holds, and never relist`, async (t) => {
    const stage = await startStage(t)
    const client = await startClient(t, [program, stage.url, what.replaceAll(' ', '')], {
      KUBE_FEATURE_WatchListClient: String(watchList),
      KUBE_WATCHLIST_INCONSISTENCY_DETECTOR: 'true',
      KUBE_CACHE_MUTATION_DETECTOR: 'true',
    })
    t.same(await client.ask('hold'), { Leads: true })
    const compare = async (moment: string): Promise<readonly Follower[]> => {
      await until(async () => (await client.ask(`holds default/${moment}`)) === true, `${moment} has arrived`, 60_000)
      const followers = (await client.ask('compare')) as readonly Follower[]
      t.same(
        followers.map(({ Name }) => Name),
        names,
      )
      for (const { Name, Objects, Held, Listed, Stale, Lists, WatchLists, Exact } of followers) {
        t.ok(Objects > 300, `${moment}: ${Name} holds ${Objects} pods`)
        t.equal(Held, Listed, `${moment}: ${Name} holds what a fresh list holds`)
        t.same(Stale ?? [], [], `${moment}: ${Name} saw no version go back`)
        t.same([Lists, WatchLists], watchList ? [0, 1] : [1, 0], `${moment}: ${Name} has read its state once`)
        if (watchList) t.equal(Exact, 1, `${moment}: the detector of ${Name} has compared once`)
      }
      return followers
    }
    await stage.write('first')
    await compare('first')
    for (const disruption of disruptions) {
      await t.test(`after ${disruption.name}`, async () => {
        await disruption.disrupt(stage)
        const moment = momentAfter(disruption)
        await stage.write(moment)
        await compare(moment)
        t.equal(await client.ask('lost'), false, `${moment}: the lease is still held`)
      })
    }
    t.notMatch(client.errors(), /panic|inconsisten/i)
    t.equal(await client.end(), 0)
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
