/** CoreDNS with its etcd plugin, unchanged: its answers follow the keys, through a restart of the server. */
import { Resolver } from 'node:dns/promises'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startProcess } from '../../clients/support/start-process.js'
import { startEtcd } from '../../support/etcd-process.js'
import { EtcdWriter } from '../../support/etcd-writer.js'
import { freePort } from '../../support/free-port.js'
import { buildGoProgram } from '../../support/go-program.js'
import { startServer } from '../../support/server-process.js'
import { until } from '../../support/until.js'
import { coreDns } from './programs.js'

const program = buildGoProgram(coreDns)

void t.test('its answers are those of the keys in etcd', async (t) => {
  const etcd = await startEtcd(t)
  const writer = new EtcdWriter([etcd])
  const key = (name: string): string => `/skydns/local/skydns/${name}`
  await writer.commit({ [key('x1/a')]: { host: '10.0.0.1', port: 80 }, [key('x1/b')]: { host: '10.0.0.2', port: 81 } })
  const [ourPort, dnsPort] = [await freePort(), await freePort()]
  const flags = [
    `--port=${ourPort}`,
    `--etcd-servers=${etcd.url}`,
    '--resource=skydns=/skydns/',
    '--etcd-api=skydns',
    '--authorization-mode=AlwaysAllow',
  ]
  const server = await startServer(t, { flags })
  const folder = mkdtempSync(join(tmpdir(), 'distributary-coredns-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = `skydns.local:${dnsPort} {
  bind 127.0.0.1
  errors
  etcd {
    path /skydns
    endpoint http://127.0.0.1:${ourPort}
  }
}
`
  writeFileSync(join(folder, 'Corefile'), file)
  const client = startProcess(t, [program, '-conf', join(folder, 'Corefile')])
  const resolver = new Resolver({ timeout: 2_000, tries: 3 })
  resolver.setServers([`127.0.0.1:${dnsPort}`])
  const addresses = async (name: string): Promise<string> =>
    (await resolver.resolve4(`${name}.skydns.local`)).toSorted().join()
  await until(
    async () => (await addresses('x1')) === '10.0.0.1,10.0.0.2',
    () => `both: ${client.printed()}`,
  )
  const services = await resolver.resolveSrv('x1.skydns.local')
  t.same(new Set(services.map(({ port }) => port)), new Set([80, 81]))
  await writer.commit({ [key('x1/a')]: null, [key('x2')]: { host: '10.0.0.3' } })
  t.equal(await addresses('x1'), '10.0.0.2', 'a deleted key is gone at once')
  t.equal(await addresses('x2'), '10.0.0.3')
  await server.kill('SIGTERM')
  await startServer(t, { flags })
  await writer.put(key('x2'), { host: '10.0.0.4' })
  await until(
    async () => (await addresses('x2')) === '10.0.0.4',
    () => `the new address: ${client.printed()}`,
  )
  t.notOk(client.hasEnded(), client.printed())
  t.notMatch(client.printed(), /panic/)
})
