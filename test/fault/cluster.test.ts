/**
 * Faults of an etcd with three members: a leader dies, stalls or transfers leadership, and a member is cut off from the
 * others.
 */
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { until } from '../support/until.js'
import type { EtcdProcess } from '../support/etcd-process.js'
import { ends, type Scenario, startScenario } from './scenario.js'

interface MemberStatus {
  readonly header: { readonly member_id: string }
  readonly leader: string
}

/** Returns the member that serves our watches, one for each resource. */
async function watchedMember({ members, h }: Scenario): Promise<number> {
  const resources = [...h.app.sources].length
  for (let attempt = 0; attempt < 200; attempt++, await delay(50)) {
    for (const [i, member] of members.entries()) {
      const watchers = (await member.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0
      if (watchers >= resources) return i
    }
  }
  throw new Error('no member has our watches')
}

async function statusOf(member: EtcdProcess): Promise<MemberStatus> {
  return (await member.call('maintenance/status', {})) as unknown as MemberStatus
}

/** Returns the leader and the others, as the first member that answers sees them. */
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
    await until(() => s.podSource.cache.source.disconnectedReason !== null, 'the feed knows that it is cut off', 15_000)
    const answer = await fetch(`${s.h.url}/api/v1/pods?resourceVersion=0`)
    if (answer.status !== 200) throw new Error(`the cache is answered with ${answer.status}`)
    for (const member of others) await member.kill('SIGCONT')
    if (first === undefined) throw new Error('no member')
    s.startLoad()
    await s.reached(await s.write())
  },
}

for (const [name, fault] of Object.entries(faults)) {
  void t.test(`${name}: every watcher stays connected and misses nothing`, async (t) => {
    const s = await startScenario(t, { members: 3 })
    const watches = await s.watchAll()
    s.startLoad()
    await fault(s)
    const last = await s.settle()
    t.same(ends(watches), [`open ×${watches.length}`])
    t.equal(await s.relists(), 0, 'nothing was relisted')
    await s.judge(t, last)
  })
}

void t.test('watches and reads continue at another member when the one with our watches freezes', async (t) => {
  // Keepalives and call deadlines would notice the fault only after the test.
  const never = { keepAliveTimeMs: 300_000, keepAliveTimeoutMs: 300_000, requestTimeoutMs: 300_000 }
  const s = await startScenario(t, { members: 3, times: never })
  const watches = await s.watchAll()
  const at = await watchedMember(s)
  await s.members[at]!.kill('SIGSTOP')
  const reads = Promise.all(
    [0, 1, 2].map(async () => {
      const answer = await fetch(`${s.h.url}/api/v1/pods`)
      await answer.arrayBuffer()
      return answer.status
    }),
  )
  const last = await s.writeElsewhere(at)
  await s.reached(last)
  t.same(await reads, [200, 200, 200], 'consistent reads that had asked it are answered')
  t.equal((await fetch(`${s.h.url}/api/v1/namespaces/a/pods/mark-n1-web`)).status, 404)
  await s.members[at]!.kill('SIGCONT')
  const settled = await s.settle()
  t.same(ends(watches), [`open ×${watches.length}`])
  t.equal(await s.relists(), 0, 'nothing was relisted')
  await s.judge(t, settled)
})

/**
 * The role of the member that serves our watches, and the directions of its links to the others that break. `TEST_LONG`
 * runs those that are detected in ways that the others cover already.
 */
const all = [
  ['leader', 'out'],
  ['follower', 'both'],
  ['leader', 'both'],
  ['leader', 'in'],
  ['follower', 'in'],
  ['follower', 'out'],
] as const
const cuts = process.env['TEST_LONG'] === undefined ? all.slice(0, 2) : all
for (const [role, which] of cuts) {
  const what = { both: 'and they from it', in: 'but is heard by them', out: 'but hears them' }[which]
  void t.test(`watches on a ${role} that is cut off from the others do not stay silent (${what})`, async (t) => {
    const s = await startScenario(t, { hasPeerNetwork: true })
    const watches = await s.watchAll()
    const at = await watchedMember(s)
    const { leader, others } = await leaderOf(s)
    if ((leader === s.members[at]) !== (role === 'leader')) {
      const { header } = await statusOf(role === 'leader' ? s.members[at]! : others.find((m) => m !== s.members[at])!)
      await leader.call('maintenance/transfer-leadership', { targetID: header.member_id })
    }
    t.equal(await watchedMember(s), at)
    s.peers!.isolate(at, which)
    const startedAt = performance.now()
    // Several writes, because the first may be delivered before its missing answer is noticed.
    let last = await s.writeElsewhere(at)
    for (let i = 0; i < 20; i++) last = await s.writeElsewhere(at)
    await s.reached(last)
    t.comment(`${Math.round(performance.now() - startedAt)} ms`)
    const list = await fetch(`${s.h.url}/api/v1/pods`)
    t.equal(list.status, 200, 'consistent reads are answered in the meantime')
    await list.arrayBuffer()
    const settled = await s.settle()
    t.same(ends(watches), [`open ×${watches.length}`])
    t.equal(await s.relists(), 0, 'nothing was relisted')
    await s.judge(t, settled)
  })
}
