/** A chain of three servers: the age of the last one's content counts from the first one's source. */
import t from 'tap'
import { load } from '../../../src/server/config/load.js'
import { connectEtcd } from '../../../src/engine/upstream/etcd/etcd-upstream.js'
import { RemoteAges } from '../../../src/kubernetes/upstream/remote-ages.js'
import { type AppHarness, startApp } from '../../support/app.js'
import { startEtcd } from '../../support/etcd-process.js'
import { startFaultProxy } from '../../support/fault-proxy.js'
import { until } from '../../support/until.js'

const served = load([], {}, () => '')
const resources =
  served.kind === 'run' ? served.config.resources.filter(({ resource }) => resource.plural === 'pods') : []

async function ageAt({ url }: AppHarness): Promise<number> {
  const answer = await fetch(`${url}/api/v1/pods?resourceVersion=0`)
  await answer.arrayBuffer()
  if (answer.status !== 200) throw new Error(`${answer.status}`)
  return Number(answer.headers.get('x-distributary-staleness-seconds') ?? '0')
}

async function readyAt({ url }: AppHarness): Promise<number> {
  const answer = await fetch(`${url}/readyz`)
  await answer.arrayBuffer()
  return answer.status
}

async function metricAt({ url }: AppHarness): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^distributary_cache_staleness_seconds\{.*resource="pods".*\} (.*)$/m.exec(text)?.[1])
}

void t.test(
  'when etcd stops, every server of a chain reports how old its content is, and is unready if it should be',
  async (t) => {
    const etcd = await startEtcd(t)
    const upstream = connectEtcd({ endpoints: [etcd.url] })
    t.teardown(() => upstream.close())
    const first = await startApp(t, { upstream, config: { resources } })
    const second = await startApp(t, { flags: ['--upstream', first.url] })
    const proxy = await startFaultProxy({ targetPort: second.port })
    t.teardown(() => proxy.close())
    const third = await startApp(t, {
      flags: ['--upstream', `http://127.0.0.1:${proxy.port}`, '--max-staleness', '5s'],
    })
    const chain = [first, second, third]
    await until(async () => (await Promise.all(chain.map(ageAt))).every((age) => age === 0), 'all are fresh')
    t.equal(await readyAt(third), 200)

    await etcd.kill('SIGSTOP')
    await until(async () => (await Promise.all(chain.map(ageAt))).every((age) => age >= 7), 'all of them age')
    const ages: number[] = []
    for (const server of chain) ages.push(await ageAt(server))
    t.same(
      ages,
      ages.toSorted((a, b) => a - b),
      'nobody says that it is younger than the server that it follows said before',
    )
    t.ok((await metricAt(third)) >= 6, 'the metric says the same, and the header rounds up')
    t.equal(await readyAt(third), 500, 'over --max-staleness')
    t.equal(await readyAt(first), 200, 'without it, a server stays ready')
    t.equal(
      [...third.app.sources].find(({ resource }) => resource.plural === 'pods')?.cache.source.disconnectedReason ??
        null,
      null,
      'the connection between the two is well',
    )

    await etcd.kill('SIGCONT')
    await until(async () => (await Promise.all(chain.map(ageAt))).every((age) => age === 0), 'all are fresh again')
    await until(async () => (await readyAt(third)) === 200, 'and ready')

    proxy.stall('to-server', 'to-client')
    await until(async () => (await ageAt(third)) >= 6, 'a server in front that falls silent makes it old, too')
    // etcd may answer late for a while after it was stopped.
    await until(async () => (await ageAt(second)) === 0, 'the one behind it stays fresh')
    t.ok((await ageAt(third)) >= 6)
    proxy.release('to-server', 'to-client')
    await until(async () => (await ageAt(third)) === 0, 'fresh')
  },
)

void t.test('an age reported by the other server grows with the time since the request', (t) => {
  const ages = new RemoteAges()
  t.equal(ages.of('pods', 1_000), null, 'nothing is known')
  ages.received(
    JSON.stringify({ ages: { pods: { ageMs: 400, validMs: 1_800 }, nodes: { ageMs: 0, validMs: null } } }),
    1_000,
  )
  t.same(ages.of('pods', 1_500), { ageMs: 900, validMs: 3_000 })
  t.same(ages.of('nodes', 1_500), { ageMs: 500, validMs: 1_800 })
  t.same(ages.of('unknown', 1_500), { ageMs: 500, validMs: 1_800 })
  for (const other of ['ok', '', 'null', '[]', '{}', '{"ages":3}', '{"ages":{"pods":{"ageMs":"old","validMs":-1}}}']) {
    ages.received(other, 2_000)
    t.same(ages.of('pods', 2_000), { ageMs: 0, validMs: 1_800 }, other)
  }
  t.end()
})
