/**
 * Positions of polls in every arrangement of processes. Servers that read one storage give one position the same name,
 * however its state came to them, so a client or a cache may go from one to the other.
 */
import t, { type Test } from 'tap'
import { type EtcdProcess, startEtcd } from '../support/etcd-process.js'
import { startNats } from '../support/nats-process.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const CONFIG_MAPS = '/api/v1/configmaps'

async function write(etcd: EtcdProcess, name: string, text: string | null): Promise<void> {
  const key = Buffer.from(`/registry/configmaps/default/${name}`).toString('base64')
  if (text === null) return void (await etcd.call('kv/deleterange', { key }))
  const metadata = { name, namespace: 'default' }
  const value = JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { text } })
  await etcd.call('kv/put', { key, value: Buffer.from(value).toString('base64') })
}

async function positionOf(server: ServerProcess): Promise<string> {
  const answer = await fetch(`${server.url}${CONFIG_MAPS}?history=`)
  await answer.arrayBuffer()
  return answer.headers.get('x-distributary-position') ?? `status ${answer.status}`
}

async function poll(server: ServerProcess, position: string): Promise<string> {
  const query = `watch=1&wait=10s&resourceVersion=${position.split('.')[0]}&history=${position}`
  const answer = await fetch(`${server.url}${CONFIG_MAPS}?${query}`)
  return `${answer.status} ${await answer.text()}`
}

/** Asks every server from the position of every other one. */
async function continueEachOther(
  t: Test,
  servers: Readonly<Record<string, ServerProcess>>,
  change: () => Promise<void>,
): Promise<void> {
  const all = Object.entries(servers)
  const [[, first]] = all as [(typeof all)[number]]
  const agreed = async (): Promise<string> => {
    const position = await positionOf(first)
    for (const [name, server] of all) {
      await until(async () => (await positionOf(server)) === position, `${name} names its position like the others`)
    }
    return position
  }
  const before = await agreed()
  await change()
  const after = await agreed()
  t.not(after, before)
  const expected = await poll(first, before)
  t.ok(expected.startsWith('200 ') && expected.includes(after), 'the answer ends where the lists are')
  for (const [name, server] of all) t.equal(await poll(server, before), expected, `${name} goes on after it`)
}

void t.test('servers continue the polls of any other that reads the same storage', async (t) => {
  const [etcd, nats] = await Promise.all([startEtcd(t), startNats(t)])
  for (let i = 0; i < 20; i++) await write(etcd, `of-before-${i}`, `${i}`)
  await write(etcd, 'of-before-3', null)
  const fromEtcd = `--etcd-servers=${etcd.url}`
  const overNats = [`--nats-servers=${nats.url}`, '--nats-cluster=positions', '--nats-stream-bytes=8MiB']
  const alone = await startServer(t, { flags: [fromEtcd] })
  const behind = await startServer(t, { flags: [`--upstream=${alone.url}`] })
  await write(etcd, 'of-between', 'a')
  const servers = {
    alone,
    workers: await startServer(t, { flags: [fromEtcd, '--workers=2'] }),
    'a candidate': await startServer(t, { flags: [fromEtcd, ...overNats] }),
    'an edge': await startServer(t, { flags: [...overNats, '--nats-role=edge'] }),
  }
  const change = async (): Promise<void> => {
    await write(etcd, 'of-before-4', 'changed')
    await write(etcd, 'of-between', null)
  }
  await continueEachOther(t, servers, change)
  const remote = { behind, 'started later': await startServer(t, { flags: [`--upstream=${alone.url}`] }) }
  await continueEachOther(t, remote, async () => await write(etcd, 'of-after', 'b'))
  await continueEachOther(t, servers, async () => await write(etcd, 'of-after', null))
})
