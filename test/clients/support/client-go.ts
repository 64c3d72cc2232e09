/** client-go's informers and lease through disruptions, for the tests that start the servers. */
import type { Test } from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { until } from '../../support/until.js'
import { clientGo } from '../programs.js'
import { type Disruption, momentAfter } from './disruptions.js'
import { startClient } from './program.js'
import type { Stage } from './stage.js'

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

const names = ['typed', 'dynamic', 'metadata']

export interface FollowOptions {
  /** How the informers begin. */
  readonly watchList: boolean
  /** How often each may start over after a disruption. Default: never. */
  readonly relists?: number
  /** Whether the disruptions were so long that the lease may be lost. Default: none is. */
  readonly mayLose?: () => boolean
}

/**
 * The informers hold what a fresh list holds after each disruption, and have seen no version go back; the lease is held
 * throughout.
 */
export async function followThrough<S extends Stage>(
  t: Test,
  stage: S,
  disruptions: readonly Disruption<S>[],
  { watchList, relists = 0, mayLose = () => false }: FollowOptions,
): Promise<void> {
  const program = buildGoProgram(clientGo)
  const client = await startClient(t, [program, stage.url, names.join()], {
    KUBE_FEATURE_WatchListClient: String(watchList),
    KUBE_WATCHLIST_INCONSISTENCY_DETECTOR: 'true',
    KUBE_CACHE_MUTATION_DETECTOR: 'true',
  })
  t.same(await client.ask('hold'), { Leads: true })
  let most = 1
  const compare = async (moment: string): Promise<void> => {
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
      const [begun, others] = watchList ? [WatchLists, Lists] : [Lists, WatchLists]
      t.equal(others, 0)
      t.ok(begun >= 1 && begun <= most, `${moment}: ${Name} has read its state ${begun} times, ${most} at most`)
      if (watchList) t.equal(Exact, begun, `${moment}: the detector of ${Name} has compared each time`)
    }
  }
  await stage.write('first')
  await compare('first')
  for (const disruption of disruptions) {
    await t.test(`after ${disruption.name}`, async () => {
      await disruption.disrupt(stage)
      most += relists
      const moment = momentAfter(disruption)
      await stage.write(moment)
      await compare(moment)
      if (!mayLose()) t.equal(await client.ask('lost'), false, `${moment}: the lease is still held`)
    })
  }
  t.notMatch(client.errors(), /panic|inconsisten/i)
  t.equal(await client.end(), 0)
}
