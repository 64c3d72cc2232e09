/**
 * What happens to an etcd in operation: members come and go, it compacts itself, leases expire, its disk fills up, and
 * its network breaks. What the machine does not support is skipped with a line.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ends, type Scenario, startScenario } from '../fault/scenario.js'
import { toRevision } from '../../src/engine/model/revision.js'
import { load } from '../../src/server/config/load.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import { startApp } from '../support/app.js'
import { pod } from '../support/pod.js'
import { type EtcdProcess, startEtcdCluster, startLearner } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { openNetwork } from '../support/network-namespaces.js'
import { pause, until } from '../support/until.js'

const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** The member that our watches are on. */
async function watchedMember(members: readonly EtcdProcess[]): Promise<number> {
  let at = -1
  await until(async () => {
    const counts = await Promise.all(
      members.map(async (member) => (await member.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0),
    )
    at = counts.indexOf(Math.max(...counts))
    return (counts[at] ?? 0) > 0
  }, 'a member has our watches')
  return at
}

async function judge(t: Test, s: Scenario, watches: Awaited<ReturnType<Scenario['watchAll']>>): Promise<void> {
  const last = await s.settle()
  t.same(ends(watches), [`open ×${watches.length}`])
  t.equal(await s.relists(), 0, 'nothing was relisted')
  await s.judge(t, last)
}

void t.test('a member is added and promoted, and the one with our watches is removed: no watch ends', async (t) => {
  const s = await startScenario(t, { members: 3 })
  const watches = await s.watchAll()
  // The reference history is read from the first member, which must stay.
  await s.proxies[0]!.refuse()
  s.proxies[0]!.cut()
  await until(async () => (await watchedMember(s.members.slice(1))) >= 0, 'the watches are on another')
  const at = 1 + (await watchedMember(s.members.slice(1)))
  await s.proxies[0]!.accept()
  const [other] = s.members.filter((_, i) => i !== at)
  for (let i = 0; i < 5; i++) await s.writeElsewhere(at)
  const { member, id } = await startLearner(t, other!)
  // The learner can be promoted once it has caught up.
  await until(() => other!.call('cluster/member/promote', { ID: id }).then(() => true), 'the new member votes')
  for (let i = 0; i < 5; i++) await s.writeElsewhere(at)
  const { header } = (await s.members[at]!.call('maintenance/status', {})) as { header: { member_id: string } }
  await other!.call('cluster/member/remove', { ID: header.member_id })
  for (let i = 0; i < 20; i++) await s.reached(await s.writeElsewhere(at))
  t.ok((await member.metrics()).get('etcd_server_has_leader'), 'the new member takes part')
  await judge(t, s, watches)
})

void t.test('when etcd compacts itself, no watch ends or relists', async (t) => {
  const flags = ['--auto-compaction-mode=periodic', '--auto-compaction-retention=10s']
  const s = await startScenario(t, { etcdFlags: flags })
  const watches = await s.watchAll()
  const isCompacted = async (): Promise<boolean> => {
    const range = { key: base64('/registry/pods/'), revision: '2' }
    return await s.etcd.call('kv/range', range).then(
      () => false,
      (error: unknown) => String(error).includes('compacted'),
    )
  }
  s.startLoad(1, 20)
  await until(isCompacted, 'etcd has compacted by itself')
  s.proxy.cut()
  await pause(5_000)
  await s.stopLoad()
  const last = await s.settle()
  // Resources without any change are relisted: their last revision is compacted as well.
  t.same(ends(watches), [`open ×${watches.length}`])
  t.equal(await s.count('feed_relists_total', 'resource="pods"'), 0, 'pods were not relisted')
  await s.judge(t, last)
})

void t.test('10,000 keys whose leases expire at once disappear once, in whole revisions', async (t) => {
  const [leases, keysOfEach] = [100, 100]
  const s = await startScenario(t)
  const watches = await s.watchAll()
  let written = '0'
  for (let lease = 1; lease <= leases; lease++) {
    const { ID } = (await s.etcd.call('lease/grant', { TTL: '12', ID: '0' })) as { ID: string }
    const success = Array.from({ length: keysOfEach }, (_, i) => {
      const name = `leased-${lease}-${i}`
      const value = JSON.stringify(pod(name, { namespace: 'a' }))
      return { request_put: { key: base64(`/registry/pods/a/${name}`), value: base64(value), lease: ID } }
    })
    const { header } = (await s.etcd.call('kv/txn', { success })) as { header: { revision: string } }
    written = header.revision
  }
  // On a busy machine the first leases expire before the last are granted.
  await s.reached(toRevision(written))
  const held = (): number => s.podSource.cache.contents.size
  await until(
    () => held() < leases,
    () => `${held()} keys are left`,
    60_000,
  )
  await judge(t, s, watches)
})

void t.test(
  'a full disk stops etcd: the cache is served with its age, and everything continues afterwards',
  async (t) => {
    const disk = mkdtempSync(join(tmpdir(), 'distributary-disk-'))
    t.teardown(() => rmSync(disk, { recursive: true, force: true }))
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=160m', 'tmpfs', disk], { encoding: 'utf8' })
    if (mounted.status !== 0) {
      const skip = `no file system of its own here: ${(mounted.error?.message ?? mounted.stderr).trim()}`
      t.pass('a full disk', { skip })
      return
    }
    t.teardown(() => void spawnSync('umount', ['-l', disk]))
    const s = await startScenario(t, { etcd: { dataRoot: disk } })
    const watches = await s.watchAll()
    const filler = join(disk, 'filler')
    const fill = spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=64k'], { stdio: 'ignore' })
    t.not(fill.status, 0, 'the disk is full')
    const large = 'x'.repeat(500_000)
    let refused = 0
    for (let i = 0; i < 100 && refused === 0; i++) {
      const object = pod('large', { namespace: 'a', spec: { large: `${large}${i}` } })
      const written = await s.writer.tryCommit({ '/registry/pods/a/large': object })
      if (written === null) refused++
    }
    t.equal(refused, 1, 'etcd takes no more')
    const served = await fetch(`${s.h.url}/api/v1/pods?resourceVersion=0`)
    await served.arrayBuffer()
    t.equal(served.status, 200)
    rmSync(filler)
    await s.etcd.restart()
    await s.writer.commit({ '/registry/pods/a/large': null }, 20_000)
    await judge(t, s, watches)
  },
)

void t.test(
  'a member whose network breaks silently is abandoned, and its side of the break serves nothing as fresh',
  async (t) => {
    const hosts = openNetwork(t, 3)
    if (typeof hosts === 'string') {
      t.pass('a break of the network', { skip: hosts })
      return
    }
    const members = await startEtcdCluster(t, { hosts })
    const upstream = connectEtcd({ endpoints: members.map(({ url }) => url) })
    t.teardown(() => upstream.close())
    const loaded = load([], {}, () => '')
    const resources =
      loaded.kind === 'run' ? loaded.config.resources.filter(({ resource }) => resource.plural === 'pods') : []
    const h = await startApp(t, { upstream, config: { resources } })
    const list = async (query: string) => {
      const answer = await fetch(`${h.url}/api/v1/pods${query}`)
      const { items = [] } = (await answer.json()) as { items?: readonly { metadata: { name: string } }[] }
      const age = Number(answer.headers.get('x-distributary-staleness-seconds') ?? '0')
      return { status: answer.status, age, names: new Set(items.map(({ metadata }) => metadata.name)) }
    }
    for (let round = 0; round < 3; round++) {
      const at = await watchedMember(members)
      const others = new EtcdWriter(members.filter((_, i) => i !== at))
      hosts[at]!.cut()
      const name = `during-${round}`
      const key = `/registry/pods/a/${name}`
      await until(async () => (await others.tryCommit({ [key]: pod(name, { namespace: 'a' }) })) !== null, 'written')
      const writtenAt = performance.now()
      for (let isThere = false; !isThere; await pause(50)) {
        const askedAt = performance.now()
        const { names, age } = await list('?resourceVersion=0')
        isThere = names.has(name)
        const lateMs = askedAt - writtenAt
        if (!isThere && lateMs > age * 1_000 + 2_000) t.fail(`${Math.round(lateMs)} ms late, and says ${age} s`)
        if (lateMs > 60_000) throw new Error(`${name} never came`)
      }
      t.comment(`${Math.round(performance.now() - writtenAt)} ms`)
      t.ok((await list('')).names.has(name), 'a consistent list has it, too')
      hosts[at]!.join()
      await until(async () => (await members[at]!.metrics()).get('etcd_server_has_leader') === 1, 'it is back')
    }
  },
)
