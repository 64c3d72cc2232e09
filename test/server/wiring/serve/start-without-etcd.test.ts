/** A server that starts before its etcd. */
import t from 'tap'
import { startEtcd } from '../../../support/etcd-process.js'
import { startServer } from '../../../support/server-process.js'
import { until } from '../../../support/until.js'

void t.test('a server with declared prefixes that starts before etcd waits for it, instead of ending', async (t) => {
  const etcd = await startEtcd(t)
  await etcd.kill()
  const flags = ['--etcd-servers', etcd.url, '--resource', 'flags=/config/flags/']
  const server = await startServer(t, { flags, ready: false })
  t.equal((await fetch(`${server.url}/livez`)).status, 200)
  t.equal((await fetch(`${server.url}/readyz`)).status, 500)
  await etcd.restart()
  await until(async () => (await fetch(`${server.url}/readyz`)).status === 200, 'it is ready once etcd is there')
  t.equal((await fetch(`${server.url}/apis/distributary.io/v1/flags`)).status, 200)
  t.equal(await server.kill('SIGTERM'), 0)
  t.match(server.log(), /"signal":"SIGTERM"/)
})
