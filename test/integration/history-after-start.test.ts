/** What watchers resume after a restart of the server, and how many round trips a start takes. */
import t from 'tap'
import { keyFromText } from '../../src/engine/model/event.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import { pod } from '../support/pod.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { type Target, WatchRecorder } from '../support/watch-recorder.js'

const big: Target = { groupVersionPath: '/apis/distributary.io/v1', plural: 'big', prefix: keyFromText('/big/') }

async function floorOf(server: ServerProcess, resource: string): Promise<number | undefined> {
  const samples = await server.metrics()
  return [...samples].find(
    ([name]) =>
      name.startsWith('distributary_cache_floor_resource_version{') && name.includes(`resource="${resource}"`),
  )?.[1]
}

void t.test('large values that did not change do not shorten the history of their resource', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const revision = await writer.put('/big/value', Buffer.alloc(300_000, 'x'))
  const flags = ['--etcd-servers', etcd.url, '--resource', 'big=/big/,small=/small/']
  const first = await startServer(t, { flags, isSurrounded: false })
  const before = new WatchRecorder({ url: first.url })
  const watch = before.watch({ target: big, resourceVersion: String(revision) })
  for (let i = 0; i < 400; i++) await writer.put('/small/x', `${i}`)
  t.equal(await first.kill('SIGTERM'), 0)
  await watch.ended
  t.equal(watch.end, 'eof')

  const second = await startServer(t, { flags, isSurrounded: false })
  const after = new WatchRecorder({ url: second.url })
  t.teardown(() => after.close())
  const resumed = after.watch({ target: big, resourceVersion: String(watch.lastRevision) })
  const last = await writer.put('/big/value', 'changed')
  await resumed.untilRevision(last)
  t.equal(resumed.items.length, 1)
  t.ok((await floorOf(second, 'big'))! <= watch.lastRevision!, 'a metric says how far history reaches')
  t.match(second.log(), /"resumableAfter":\d+/, 'and so does the log')
})

void t.test('a start takes few round trips, however many resources there are', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  for (let i = 0; i < 40; i++) await writer.put(`/registry/pods/default/p${i}`, pod(`p${i}`, { namespace: 'default' }))
  const proxy = await startFaultProxy({ targetPort: Number(new URL(etcd.url).port) })
  t.teardown(() => proxy.close())
  // Far more than the work between two requests, which would count as a round trip of its own.
  proxy.setLatency(300)
  await startServer(t, { flags: ['--etcd-servers', `http://127.0.0.1:${proxy.port}`], isSurrounded: false })
  t.comment(`${proxy.roundTrips} round trips`)
  t.ok(proxy.roundTrips < 25, `${proxy.roundTrips} round trips`)
})
