/** What a server says of itself when it starts, beside what its log says. */
import t from 'tap'
import { checkConfig } from '../../../src/server/wiring/check-config.js'
import { startEtcd } from '../../support/etcd-process.js'
import { startServer } from '../../support/server-process.js'

void t.test('the greeting, `config check` and the log tell the same number of resources', async (t) => {
  // Empty, since the log counts custom resources too.
  const { url } = await startEtcd(t)
  const flags = [`--etcd-servers=${url}`, '--resource=flags=/demo/flags/', '--port=0']
  const server = await startServer(t, { flags })
  const ready = server
    .log()
    .split('\n')
    .map((line) => (line.startsWith('{') ? (JSON.parse(line) as { msg?: string; resources?: number }) : {}))
    .find(({ msg }) => msg === 'ready')
  const counted = ready?.resources
  t.match(
    server.printed(),
    `serves ${counted} resources, and custom ones as they are defined, from ${url} on http://127.0.0.1:${server.port}`,
  )
  const { lines } = await checkConfig({ argv: flags, environment: {}, connects: false })
  t.ok(lines.some((line) => line.startsWith(`serves ${counted} resources, `)))
})

void t.test('an address of IPv6 stands in brackets', async (t) => {
  const { lines } = await checkConfig({ argv: ['--bind-address=::1', '--port=8001'], environment: {}, connects: false })
  t.ok(lines.includes('listens on http://[::1]:8001'), lines.join('\n'))
})
