/** Where etcd's own API is served, and how a server refuses the option, or a call, where it is not. */
import t from 'tap'
import { ConfigError } from '../../../src/server/config/config-error.js'
import { load } from '../../../src/server/config/load.js'
import { RpcError, RpcStatus } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { startApp } from '../../support/app.js'
import { startEtcd } from '../../support/etcd-process.js'
import { encode, etcdClient, startEtcdApi } from '../support/harness.js'

const DECLARED = ['--resource=flags=/flags/', '--etcd-api=flags']
const AT_ETCD = ['--etcd-servers=http://127.0.0.1:1', ...DECLARED]

function problemsOf(flags: readonly string[]): readonly string[] {
  try {
    load(flags, {}, () => '')
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
}

void t.test('a server that cannot serve it does not start, and says why', async (t) => {
  t.same(problemsOf(AT_ETCD), [])
  t.same(problemsOf([...AT_ETCD, '--etcd-servers-overrides=/events#http://127.0.0.1:2']), [])
  const refused: readonly (readonly [flags: readonly string[], problem: RegExp])[] = [
    [[...AT_ETCD, '--workers=2'], /--etcd-api .*--workers.*: workers do not serve it/],
    [
      [...AT_ETCD, '--nats-servers=nats://127.0.0.1:3', '--nats-role=publisher'],
      /--etcd-api .*--nats-servers.*: a fleet does not serve it/,
    ],
    [
      [...DECLARED, '--nats-servers=nats://127.0.0.1:3', '--nats-role=edge'],
      /--etcd-api .*--etcd-servers.*: it is in front of etcd's own API/,
    ],
    [
      ['--upstream=http://127.0.0.1:4', '--etcd-api=flags'],
      /--etcd-api .*--etcd-servers.*: it is in front of etcd's own API/,
    ],
    [DECLARED, /--etcd-api .*--etcd-servers.*: it is in front of etcd's own API/],
    [[...AT_ETCD, '--on-gap=coalesce'], /--etcd-api .*--on-gap.*: every event is owed to a client of etcd/],
    [[...AT_ETCD, '--watch-cache=false'], /--etcd-api .*--watch-cache.*: it reads the caches/],
    [['--etcd-servers=http://127.0.0.1:1', '--etcd-api=pods'], /--etcd-api: pods is not a prefix of values/],
    [['--etcd-servers=http://127.0.0.1:1', '--etcd-api=nothing'], /--etcd-api: nothing is not a prefix of values/],
  ]
  for (const [flags, problem] of refused) {
    const problems = problemsOf(flags)
    t.ok(
      problems.some((text) => problem.test(text)),
      `${flags.join(' ')}: ${problems.join('; ')}`,
    )
  }
})

void t.test('a server without the option has no such method', async (t) => {
  const app = await startApp(t)
  for (const path of ['KV/Range', 'Watch/Watch']) {
    const answer = await etcdClient(t, app.url)
      .call(path, encode({ 1: '/flags/a' }))
      .catch((error: unknown) => error)
    t.ok(answer instanceof RpcError)
    t.match(answer, { code: RpcStatus.UNIMPLEMENTED })
  }
})

void t.test('with other etcds for some resources, the main one is read and forwarded to', async (t) => {
  const other = await startEtcd(t)
  const atOther = etcdClient(t, other.url)
  for (const key of ['/flags/a', '/elsewhere/a']) await atOther.put(key, 'of the other etcd')
  const { ours, theirs } = await startEtcdApi(t, {
    flags: [`--etcd-servers-overrides=/events#${other.url}`],
    prepare: async (etcd) => void (await etcd.put('/flags/a', 'of the main etcd')),
  })
  t.equal((await ours.range({ 1: '/flags/a' })).messages(2)[0]?.text(5), 'of the main etcd')
  t.equal((await ours.range({ 1: '/elsewhere/a' })).number(4), 0)
  const write = await ours.put('/flags/a', 'x').catch((error: unknown) => error)
  t.match(write, { details: 'etcdserver: permission denied' }, '--enable-writes cannot be combined with other etcds')
  const cluster = async (client: typeof ours): Promise<string> =>
    (await client.call('Maintenance/Status', new Uint8Array(0))).message(1).text(1)
  t.equal(await cluster(ours), await cluster(theirs))
})
