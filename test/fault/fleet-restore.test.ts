/**
 * A real etcd under a fleet is restored from an older backup: the publisher notices, and every replica, edges included,
 * switches to the restored history as a whole, before it receives anything written after the restore.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { Revision } from '../../src/engine/model/revision.js'
import { connectEtcd } from '../../src/engine/upstream/etcd/etcd-upstream.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { startNats } from '../support/nats-process.js'
import { until } from '../support/until.js'
import { type Replica, startReplica, stateOf, stateOfUpstream } from '../fleet/nats-harness.js'

async function startFleet(t: Test) {
  const [etcd, nats] = await Promise.all([startEtcd(t), startNats(t)])
  const proxy = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
  t.teardown(() => proxy.close())
  const replicas = (['auto', 'auto', 'edge'] as const).map((role) => {
    const upstream = connectTo(t, `http://127.0.0.1:${proxy.port}`)
    return startReplica(t, { servers: [nats.url], upstream, role })
  })
  return { etcd, proxy, replicas, writer: new EtcdWriter([etcd]) }
}

async function write(writer: EtcdWriter, names: string, count: number): Promise<Revision> {
  let last = 0 as Revision
  for (let i = 0; i < count; i++) last = await writer.put(`/registry/things/${names}-${i}`, `${names} ${i}`)
  return last
}

async function reach(replicas: readonly Replica[], revision: Revision): Promise<void> {
  const isThere = ({ sink }: Replica): boolean => sink.isSynced && sink.revision === revision
  await until(() => replicas.every(isThere), `every replica is at ${revision}`)
}

const restores = [
  { name: 'its revision goes back', more: 2, token: undefined },
  { name: 'it has overtaken the fleet', more: 40, token: undefined },
  { name: 'it is another cluster, and has overtaken the fleet', more: 40, token: 'another' },
]
for (const { name, more, token } of restores) {
  void t.test(`etcd under a fleet is restored, ${name}: every replica adopts the restored history`, async (t) => {
    const { etcd, proxy, replicas, writer } = await startFleet(t)
    const directory = await mkdtemp(join(tmpdir(), 'distributary-backup-'))
    t.teardown(() => rm(directory, { recursive: true, force: true }))
    await write(writer, 'kept', 3)
    await etcd.saveSnapshot(join(directory, 'backup'))
    await reach(replicas, await write(writer, 'lost', 20))
    const before = replicas.map(({ sink }) => sink.calls.length)

    await proxy.refuse()
    proxy.cut()
    await etcd.restoreSnapshot(join(directory, 'backup'), token)
    const restored = await write(writer, 'new', more)
    await proxy.accept()
    await reach(replicas, restored)
    await reach(replicas, await write(writer, 'last', 3))

    const expected = [
      ...['kept', 'last'].flatMap((names) => [0, 1, 2].map((i) => `${names} ${i}`)),
      ...Array.from({ length: more }, (_, i) => `new ${i}`),
    ]
    const state = await stateOfUpstream(connectTo(t, etcd.url))
    const held = state.map((line) => line.split(':')[1] ?? '')
    t.same(held.toSorted(), expected.toSorted(), 'etcd holds nothing that was written after the backup')
    for (const [i, { sink }] of replicas.entries()) {
      t.same(stateOf(sink), state)
      const told = sink.calls.slice(before[i]).filter((call) => /^(replace|apply|progress) /.test(call))
      t.match(told[0], /^replace \d+ history-changed$/, 'nothing of another history is added to the old one')
    }
  })
}

function connectTo(t: Test, url: string) {
  const upstream = connectEtcd({ endpoints: [url] })
  t.teardown(() => upstream.close())
  return upstream
}
