/** Three members of one etcd: a leader that dies, that stops, that hands over, and a member that is cut off from the others. */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { until } from '../support/app.js'
import type { EtcdProcess } from '../support/etcd-process.js'
import { ends, type Scenario, startScenario } from './scenario.js'

interface MemberStatus {
  readonly header: { readonly member_id: string }
  readonly leader: string
}

async function statusOf(member: EtcdProcess): Promise<MemberStatus> {
  return (await member.call('maintenance/status', {})) as unknown as MemberStatus
}

/** The leader and the others, as the first that answers sees it. */
async function leaderOf({ members }: Scenario): Promise<{ leader: EtcdProcess; others: readonly EtcdProcess[] }> {
  for (let attempt = 0; attempt < 100; attempt++, await delay(50)) {
    for (const member of members) {
      const { header, leader } = await statusOf(member)
      if (header.member_id === leader) return { leader: member, others: members.filter((other) => other !== member) }
    }
  }
  throw new Error('there is no leader')
}

const faults: Record<string, (s: Scenario) => Promise<void>> = {
  'the leader is killed, and comes back': async (s) => {
    const { leader } = await leaderOf(s)
    await leader.kill()
    await s.reached(await s.write())
    await leader.restart()
  },
  'the leader stops, and nothing closes': async (s) => {
    const { leader } = await leaderOf(s)
    await leader.kill('SIGSTOP')
    await s.reached(await s.write())
    await leader.kill('SIGCONT')
  },
  'the leader hands over': async (s) => {
    for (let i = 0; i < 2; i++) {
      const { leader, others } = await leaderOf(s)
      const { header } = await statusOf(others[0]!)
      await leader.call('maintenance/transfer-leadership', { targetID: header.member_id })
      await s.reached(await s.write())
    }
  },
  'the connections to two members break, and those to the third stall': async (s) => {
    s.proxies[0]!.cut()
    s.proxies[1]!.cut('fin')
    s.proxies[2]!.stall()
    await s.reached(await s.write())
  },
  'two of three stop: the third has no leader and takes no writes, and its watches do not stay silent': async (s) => {
    const [first, ...others] = s.members
    await s.stopLoad()
    for (const member of others) await member.kill('SIGSTOP')
    await until(() => s.podSource.cache.disconnectedReason !== null, 'the feed knows that it is cut off', 15_000)
    const answer = await fetch(`${s.h.url}/api/v1/pods?resourceVersion=0`)
    if (answer.status !== 200) throw new Error(`the cache is answered with ${answer.status}`)
    for (const member of others) await member.kill('SIGCONT')
    if (first === undefined) throw new Error('no member')
    s.startLoad()
    await s.reached(await s.write())
  },
}

for (const [name, fault] of Object.entries(faults)) {
  void t.test(`${name}: everybody stays connected and misses nothing`, async (t) => {
    const s = await startScenario(t, { members: 3 })
    const watches = await s.watchAll()
    s.startLoad()
    await fault(s)
    const last = await s.settle()
    t.same(ends(watches), [`open ×${watches.length}`])
    t.equal(await s.relists(), 0, 'nothing was listed anew')
    await s.judge(t, last)
  })
}
