/**
 * 600 informers of an untouched client-go, each with its own connection, when a third replica joins two (`--rebalance`,
 * with the server's own intervals): the new replica gets its share, and no informer lists again.
 */
import t from 'tap'
import { startRebalancingFleet } from '../../fault/rebalancing-fleet.js'
import { buildGoProgram } from '../../support/go-program.js'
import { pod } from '../../support/pod.js'
import { until } from '../../support/until.js'
import { clientGo } from '../programs.js'
import { startClient } from '../support/program.js'

const INFORMERS = 600

interface Follower {
  readonly Held: string
  readonly Listed: string
  readonly Stale: readonly string[] | null
  readonly Lists: number
  readonly WatchLists: number
  readonly Gone: number
}

void t.test('600 informers share three replicas after one joins, and none lists again', async (t) => {
  const fleet = await startRebalancingFleet(t, { connections: INFORMERS, quietMs: 60_000 })
  const put = async (name: string): Promise<void> =>
    void (await fleet.writer.put(`/registry/pods/default/${name}`, pod(name)))
  await put('first')
  const client = await startClient(t, [buildGoProgram(clientGo), fleet.url, 'typed', String(INFORMERS)])
  await fleet.connected()
  await fleet.grow(300_000)
  await put('last')
  await until(async () => (await client.ask('holds default/last')) === true, 'all see the last write', 60_000)
  const followers = (await client.ask('compare', 120_000)) as readonly Follower[]
  t.equal(followers.length, INFORMERS)
  for (const { Held, Listed, Stale, Lists, WatchLists, Gone } of followers) {
    const isGood = Held === Listed && (Stale ?? []).length === 0 && Lists + WatchLists === 1 && Gone === 0
    if (!isGood)
      t.fail(`held ${Held} of ${Listed}, stale ${Stale?.join()}, read ${Lists + WatchLists} times, ${Gone} gone`)
  }
  t.comment(`shares ${fleet.shares().join(', ')}; moved ${(await fleet.moved()).join(', ')}`)
  t.equal(await client.end(), 0)
})
