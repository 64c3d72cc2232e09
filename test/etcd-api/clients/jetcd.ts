/** jetcd in etcd's own API: keys, transactions, leases, and a watch that goes on after a restart of the server. */
import t from 'tap'
import { provideJava } from '../../clients/support/java.js'
import { startClient } from '../../clients/support/program.js'
import { startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter } from '../../support/etcd-writer.js'
import { freePort } from '../../support/free-port.js'
import { startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'
import { servedFlags } from '../support/served-flags.js'

const java = provideJava('jetcd')

void t.test('each call gives what etcd gives, and a watch survives a restart', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const port = await freePort()
  const flags = [`--port=${port}`, ...servedFlags(etcd.url, 'flags')]
  const server = await startServer(t, { flags })
  const client = await startClient(t, [...java, `http://127.0.0.1:${port}`])
  t.equal(client.first, 'get /flags/b=2@1,/flags/a=1@1 of 2; txn true; lease 30; revoked 0; deleted 2')
  let expected = ''
  const follow = async (value: string, before: string): Promise<void> => {
    await writer.put('/flags/x', value)
    expected += `${expected === '' ? '' : '; '}PUT /flags/x=${value} was ${before}`
    let seen: unknown
    await until(
      async () => (seen = await client.ask('events')) === expected,
      () => `${String(seen)} is ${expected}`,
    )
    t.equal(seen, expected)
  }
  await follow('1', '')
  await follow('2', '1')
  await server.kill('SIGTERM')
  await writer.put('/flags/x', '3')
  expected += '; PUT /flags/x=3 was 2'
  await startServer(t, { flags })
  await follow('4', '3')
  await client.end()
})
