/** A declared prefix that is no longer served after a change of the configuration. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { RpcStatus } from '../../../src/engine/upstream/etcd/rpc-status.js'
import { startEtcd } from '../../support/etcd-process.js'
import { startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'
import { encode, etcdClient, type Fields } from '../support/harness.js'

const ALL = { 1: '/one/', 2: '/one0' }

void t.test('every watch of the prefix ends, whatever it waits for, and goes on as a watch on etcd', async (t) => {
  const file = join(t.testdir(), 'config.yaml')
  const declare = (prefix: string): void => writeFileSync(file, `resources: [{ name: flags, prefix: ${prefix} }]\n`)
  declare('/one/')
  const etcd = await startEtcd(t)
  const theirs = etcdClient(t, etcd.url)
  const { revision } = await theirs.put('/one/a', '1')
  const server = await startServer(t, {
    flags: ['--config', file, '--etcd-servers', etcd.url, '--etcd-api=flags', '--authorization-mode=AlwaysAllow'],
  })
  const ours = etcdClient(t, server.url)
  const running = { ...ALL, 3: revision + 1 }
  const fromNow = ALL
  const fromFuture = { ...ALL, 3: revision + 1_000 }
  const watch = (fields: Fields) => {
    const stream = ours.stream('Watch/Watch')
    stream.send(encode({ 1: fields }))
    return stream
  }
  const streams = [running, fromNow, fromFuture].map(watch)
  for (const stream of streams) await stream.message(0)
  declare('/two/')
  process.kill(server.pid, 'SIGHUP')
  for (const [i, stream] of streams.entries()) {
    await until(() => stream.ended !== undefined, `watch ${i} ends`)
    t.match(stream.ended, { code: RpcStatus.UNAVAILABLE, details: 'etcdserver: server stopped' })
  }
  const resumed = watch(running)
  await resumed.message(0)
  const { revision: next } = await theirs.put('/one/b', '2')
  t.equal((await resumed.message(1)).messages(11)[0]!.message(2).number(3), next)
})
