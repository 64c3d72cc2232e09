/**
 * A fleet of whole servers over a real nats-server cluster and a real etcd: watchers hop between replicas while servers,
 * publishers and connections go, and what they saw together has to satisfy every guarantee.
 */
import t from 'tap'
import { type Config, load } from '../../src/config/load.js'
import { keyFromText } from '../../src/model/event.js'
import { silentLogger } from '../../src/support/log.js'
import { connectEtcd } from '../../src/upstream/etcd/etcd-upstream.js'
import { noUpstream } from '../../src/nats-fleet.js'
import { assertGuarantees } from '../guarantees/validate.js'
import { pod, startApp, until } from '../support/app.js'
import { recordEtcdHistory } from '../support/etcd-history.js'
import { startEtcd } from '../support/etcd-process.js'
import { startFaultProxy } from '../support/fault-proxy.js'
import type { WriteRecord } from '../support/history.js'
import { startNatsCluster } from '../support/nats-process.js'
import { ListError, type RecordedWatch, type Target, WatchRecorder } from '../support/watch-recorder.js'

const pods: Target = { groupVersionPath: '/api/v1', plural: 'pods', prefix: keyFromText('/registry/pods/') }

void t.test('watchers hop between four replicas, whatever goes: every guarantee holds', async (t) => {
  const [etcd, servers] = await Promise.all([startEtcd(t), startNatsCluster(t)])
  const proxies = await Promise.all(servers.map(({ port }) => startFaultProxy({ targetPort: port })))
  t.teardown(() => Promise.all(proxies.map((proxy) => proxy.close())))
  const reference = await recordEtcdHistory(etcd)
  const writer = connectEtcd({ endpoints: [etcd.url], tls: {}, logger: silentLogger })
  t.teardown(() => writer.close())
  const writes: WriteRecord[] = []
  let count = 0
  const put = async (name: string): Promise<void> => {
    const value = Buffer.from(JSON.stringify(pod(name, { labels: { n: String(count++) } })))
    const key = keyFromText(`/registry/pods/default/${name}`)
    const result = await writer.write([], [count % 7 === 0 ? { type: 'delete', key } : { type: 'put', key, value }])
    writes.push({ revision: result.revision, returnedAtMs: performance.now() })
  }
  for (let i = 0; i < 10; i++) await put(`p${i}`)

  const direct = servers.map(({ url }) => url).join(',')
  const proxied = proxies.map(({ port }) => `nats://127.0.0.1:${port}`).join(',')
  const common = { bookmarkInterval: 200, natsLease: 1_000, natsReplicas: 3, backfillRevisions: 0 }
  const start = (role: 'auto' | 'edge', nats: string) =>
    startApp(t, {
      flags: ['--nats-servers', nats, '--nats-role', role, ...(role === 'auto' ? ['--etcd-servers', etcd.url] : [])],
      // One resource: each has a stream of three replicas, and this is one small machine.
      config: { ...common, resources: podsOnly() },
      upstream:
        role === 'auto' ? connectEtcd({ endpoints: [etcd.url], tls: {}, logger: silentLogger }) : noUpstream('no etcd'),
    })
  const replicas = await Promise.all([
    start('auto', proxied),
    start('auto', direct),
    start('edge', direct),
    start('edge', direct),
  ])
  const recorders = replicas.map(({ url }) => new WatchRecorder({ url }))
  t.teardown(() => recorders.forEach((recorder) => recorder.close()))

  // Besides the one of the test's own record.
  const etcdWatchers = async (): Promise<number> =>
    ((await etcd.metrics()).get('etcd_debugging_mvcc_watcher_total') ?? 0) - 1
  await eventually(async () => (await etcdWatchers()) === 1, 'etcd has one watch')

  const running: { watch: RecordedWatch; at: number }[] = recorders.map((recorder, at) => ({
    watch: recorder.watch({ target: pods, sendInitialEvents: true }),
    at,
  }))
  /** To the next replica, at the last bookmark. */
  const hop = (): void => {
    for (const entry of running) {
      const { lastBookmark, request } = entry.watch
      if (lastBookmark === null) continue
      entry.watch.destroy()
      entry.at = (entry.at + 1) % recorders.length
      const { sendInitialEvents: _, ...again } = request
      entry.watch = recorders[entry.at]!.watch({ ...again, resourceVersion: String(lastBookmark) })
    }
  }
  const work = async (): Promise<void> => {
    for (let i = 0; i < 40; i++) {
      await put(`p${i % 12}`)
      if (i % 10 === 9) hop()
      if (i % 8 === 0) await new Promise((resolve) => setTimeout(resolve, 25))
    }
    await Promise.all(
      recorders.map((recorder) =>
        recorder.list({ target: pods }).catch((error: unknown) => {
          // The publisher is being replaced: an honest answer.
          if (!(error instanceof ListError) || ![429, 504].includes(error.status)) throw error
        }),
      ),
    )
  }
  await work()
  await servers[2]!.kill()
  await work()
  await servers[2]!.restart()
  for (const proxy of proxies) proxy.stall('to-server')
  await work()
  for (const proxy of proxies) proxy.release('to-server')
  await work()
  for (const proxy of proxies) proxy.cut()
  await work()

  // Consistent reads come back as well, on every replica.
  for (const recorder of recorders) {
    const list = () => recorder.list({ target: pods }).then(Boolean, () => false)
    await eventually(list, 'a consistent list')
  }
  await put('last')
  const last = writes.at(-1)!.revision
  await until(
    () => running.every(({ watch }) => watch.end === 'open' && (watch.items.at(-1)?.revision ?? 0) >= last),
    'every watch comes to the last revision',
    20_000,
  )
  await eventually(async () => (await etcdWatchers()) === 1, 'etcd has one watch again')
  const histories = recorders.map((recorder) => recorder.history())
  const history = {
    watches: histories.flatMap(({ watches }) => watches),
    lists: histories.flatMap(({ lists }) => lists),
    writes,
  }
  assertGuarantees(t, history, await reference.finish(), { settledRevision: last })
  t.ok(history.watches.length > 40 && history.lists.length >= 8, `${history.watches.length} streams were judged`)
  t.same(
    history.watches.flatMap(({ code }) => code ?? []),
    [],
    'nobody had to start afresh',
  )
})

function podsOnly(): Config['resources'] {
  const loaded = load([], {}, () => '')
  if (loaded.kind !== 'run') throw new Error('no configuration')
  return loaded.config.resources.filter(({ resource }) => resource.plural === 'pods' && resource.group === '')
}

async function eventually(condition: () => Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 15_000
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not within 15 s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
