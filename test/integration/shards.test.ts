/** Shards behave the same on workers, on an edge over NATS, and on a server whose upstream is another server. */
import http from 'node:http'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { brief, EventReader } from '../support/event-reader.js'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startNats } from '../support/nats-process.js'
import { startServer } from '../support/server-process.js'
import { shardTexts, uidOf } from '../support/shards.js'
import { until } from '../support/until.js'

const SHARDS = shardTexts(4)
const NAMES = Array.from({ length: 16 }, (_, i) => `c${String(i).padStart(2, '0')}`)

const keyOf = (name: string): string => `/registry/configmaps/default/${name}`
const configMap = (i: number, value: string): object => ({
  kind: 'ConfigMap',
  apiVersion: 'v1',
  metadata: { name: NAMES[i], namespace: 'default', uid: uidOf(i) },
  data: { value },
})

interface List {
  readonly metadata: { readonly resourceVersion: string; readonly shardInfo?: { readonly selector: string } }
  readonly items: readonly { readonly metadata: { readonly name: string } }[]
}

const pathOf = (shard: string, more = ''): string =>
  `/api/v1/configmaps?shardSelector=${encodeURIComponent(shard)}${more}`

async function list(url: string, shard: string): Promise<List> {
  const response = await fetch(url + pathOf(shard))
  return response.status === 200 ? ((await response.json()) as List) : { metadata: { resourceVersion: '' }, items: [] }
}

const namesIn = ({ items }: List): string[] => items.map(({ metadata }) => metadata.name)

async function watch(t: Test, url: string, shard: string, resourceVersion: string): Promise<EventReader> {
  const request = http.get(url + pathOf(shard, `&watch=1&resourceVersion=${resourceVersion}`), { agent: false })
  t.teardown(() => request.destroy())
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  t.equal(response.statusCode, 200)
  return new EventReader(response)
}

void t.test('every server of a fleet and of a chain gives an event to the shard that owns it', async (t) => {
  const [etcd, nats] = await Promise.all([startEtcd(t), startNats(t)])
  const writer = new EtcdWriter([etcd])
  for (const [i, name] of NAMES.entries()) await writer.put(keyOf(name), configMap(i, 'before'))
  const fleet = [`--nats-servers=${nats.url}`, '--nats-stream-bytes=1MiB', '--resource=configmaps', '--workers=2']
  const origin = await startServer(t, { flags: [...fleet, `--etcd-servers=${etcd.url}`] })
  const [edge, leaf] = await Promise.all([
    startServer(t, { flags: [...fleet, '--nats-role=edge'] }),
    startServer(t, { flags: [`--upstream=${origin.url}`] }),
  ])
  const servers = { origin, edge, leaf }
  const expected = new Map<string, string[]>()
  for (const [name, { url }] of Object.entries(servers)) {
    const lists = async (): Promise<List[]> => await Promise.all(SHARDS.map((shard) => list(url, shard)))
    await until(async () => (await lists()).flatMap(namesIn).length === NAMES.length, `everything is in ${name}`)
    const found = await lists()
    t.same(found.flatMap(namesIn).toSorted(), NAMES, name)
    for (const [i, shard] of SHARDS.entries()) {
      t.equal(found[i]!.metadata.shardInfo?.selector, shard)
      const own = namesIn(found[i]!)
      t.same(own, expected.get(shard) ?? own, 'all servers agree')
      expected.set(shard, own)
    }
  }
  const watches = await Promise.all(
    Object.entries(servers).flatMap(([name, { url }]) =>
      SHARDS.map(async (shard) => {
        const { metadata } = await list(url, shard)
        return { name, shard, events: await watch(t, url, shard, metadata.resourceVersion) }
      }),
    ),
  )
  for (const [i, name] of NAMES.entries()) await writer.put(keyOf(name), configMap(i, 'after'))
  for (const name of NAMES) await writer.commit({ [keyOf(name)]: null })
  for (const { name, shard, events } of watches) {
    const own = expected.get(shard)!
    const seen = await events.first(2 * own.length)
    t.same(
      seen.map((event) => brief(event).replace(/@.*/, '')),
      [...own.map((one) => `MODIFIED ${one}`), ...own.map((one) => `DELETED ${one}`)],
      `${name}: ${own.length} objects`,
    )
  }
})
