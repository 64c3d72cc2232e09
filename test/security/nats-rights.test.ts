/** Tests replicas whose NATS user may only read, like the user that the chart gives to edges. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { type NatsProcess, startNats } from '../support/nats-process.js'
import { only } from '../support/only.js'
import { pod } from '../support/pod.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const chart = readFileSync(new URL('../../../helm/distributary/templates/_nats.tpl', import.meta.url), 'utf8')
/** The permissions that the chart gives to its user `edge`. */
const permissions = /user: "edge"[\s\S]*?(permissions: \{[\s\S]*?\n {6}\})/.exec(chart)![1]!

void t.test('the guide lists them', (t) => {
  const guide = readFileSync(new URL('../../../docs/guide/fleet.md', import.meta.url), 'utf8')
  const [, allowed = ''] = /### Permissions in NATS([\s\S]*?)###/.exec(guide) ?? []
  const subjects = (text: string): string[] =>
    [...text.matchAll(/["`]([\w$*.>]+[*>.][\w$*.>]*)["`]/g)].map(([, one]) => one!)
  const listed = subjects(allowed.slice(allowed.indexOf('| publish')))
  t.ok(listed.length > 10)
  t.same(new Set(listed), new Set(subjects(permissions)))
  t.end()
})

async function startBroker(t: Test): Promise<NatsProcess> {
  const users = `{ user: "all", password: "all" }, { user: "reader", password: "reader", ${permissions} }`
  return await startNats(t, { config: `authorization { users: [ ${users} ] }` })
}

async function startReplica(
  t: Test,
  nats: NatsProcess,
  user: string,
  flags: readonly string[],
): Promise<ServerProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-rights-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const password = join(folder, 'password')
  writeFileSync(password, user)
  return await startServer(t, {
    flags: [
      '--port=0',
      `--nats-servers=${nats.url}`,
      `--nats-username=${user}`,
      `--nats-password-file=${password}`,
      '--nats-lease=1s',
      '--nats-stream-bytes=16Mi',
      ...only('pods', 'configmaps'),
      ...flags,
    ],
  })
}

async function names(server: ServerProcess): Promise<readonly string[]> {
  const answer = await fetch(`${server.url}/api/v1/pods`)
  const { items = [] } = (await answer.json()) as { readonly items?: readonly { metadata: { name: string } }[] }
  return items.map(({ metadata }) => metadata.name)
}

void t.test('a user that may only read is enough for an edge', async (t) => {
  const [etcd, nats] = [await startEtcd(t), await startBroker(t)]
  const writer = new EtcdWriter([etcd])
  await writer.put('/registry/pods/default/p1', pod('p1'))
  await startReplica(t, nats, 'all', [`--etcd-servers=${etcd.url}`])
  const edge = await startReplica(t, nats, 'reader', ['--nats-role=edge'])
  t.same(await names(edge), ['p1'])
  await writer.put('/registry/pods/default/p2', pod('p2'))
  await until(async () => (await names(edge)).length === 2, 'it follows')
  t.notMatch(edge.log(), /permission/, 'it tries nothing else')
})

void t.test('a candidate with such a user logs its missing permission once, and serves from etcd', async (t) => {
  const [etcd, nats] = [await startEtcd(t), await startBroker(t)]
  const writer = new EtcdWriter([etcd])
  await writer.put('/registry/pods/default/p1', pod('p1'))
  const candidate = await startReplica(t, nats, 'reader', [`--etcd-servers=${etcd.url}`])
  t.same(await names(candidate), ['p1'])
  await writer.put('/registry/pods/default/p2', pod('p2'))
  t.same(await names(candidate), ['p1', 'p2'])
  const errors = candidate
    .log()
    .split('\n')
    .filter((line) => line.includes('"level":50'))
  t.equal(errors.length, 1, errors.join('\n'))
  t.match(errors[0], /"denied":"publish \$JS\.API\..*the NATS user lacks a permission/)
})

void t.test('a candidate beside it that may write feeds the fleet', async (t) => {
  const [etcd, nats] = [await startEtcd(t), await startBroker(t)]
  const writer = new EtcdWriter([etcd])
  await writer.put('/registry/pods/default/p1', pod('p1'))
  const reader = await startReplica(t, nats, 'reader', [`--etcd-servers=${etcd.url}`])
  await startReplica(t, nats, 'all', [`--etcd-servers=${etcd.url}`])
  const edge = await startReplica(t, nats, 'reader', ['--nats-role=edge'])
  await writer.put('/registry/pods/default/p2', pod('p2'))
  for (const server of [reader, edge]) await until(async () => (await names(server)).length === 2, 'it follows')
})
