/**
 * Roles that cannot be read, as when everything is encrypted at rest: until they can be, every caller gets 503, so no
 * replica is ready, whatever its source, and each reports why.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startEtcd } from '../support/etcd-process.js'
import { EtcdWriter } from '../support/etcd-writer.js'
import { startNats } from '../support/nats-process.js'
import { type ServerProcess, startServer } from '../support/server-process.js'
import { until } from '../support/until.js'

const SEALED = '/registry/clusterroles/sealed'

void t.test('a replica that cannot read roles is not ready, and reports why', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'distributary-rights-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const tokens = join(directory, 'tokens.csv')
  writeFileSync(tokens, 'sesame,ann,1\n')
  const etcd = await startEtcd(t)
  const nats = await startNats(t)
  const writer = new EtcdWriter([etcd])
  await writer.commit({ [SEALED]: 'k8s:enc:secretbox:v1:key:x' })

  const judging = ['--token-auth-file', tokens, '--authorization-mode', 'RBAC']
  const fromEtcd = ['--etcd-servers', etcd.url]
  const overNats = ['--nats-servers', nats.url, '--nats-cluster', 'rights', '--nats-stream-bytes', '8MiB']
  const start = (...flags: readonly string[]): Promise<ServerProcess> => startServer(t, { flags, ready: false })
  const replicas = {
    'one process': await start(...judging, ...fromEtcd),
    workers: await start(...judging, ...fromEtcd, '--workers', '2'),
    'a candidate of a fleet': await start(...judging, ...fromEtcd, ...overNats),
    'an edge of a fleet': await start(...judging, ...overNats, '--nats-role', 'edge'),
  }
  for (const [name, { url }] of Object.entries(replicas)) {
    const answer = async (path: string): Promise<readonly [number, string]> => {
      const response = await fetch(`${url}${path}`, { headers: { authorization: 'Bearer sesame' } })
      return [response.status, await response.text()]
    }
    const why =
      /^\[-\]authorization-rbac failed: clusterroles\.rbac\.authorization\.k8s\.io cannot be read: .*encrypted/m
    await until(async () => why.test((await answer('/readyz?verbose'))[1]), `${name} says why`)
    t.match(await answer('/readyz'), [500, /authorization-rbac failed/], name)
    t.match(await answer('/readyz/authorization-rbac'), [500, /encrypted/], name)
    t.match(
      await answer('/api/v1/pods'),
      [503, /RBAC: clusterroles\.rbac\.authorization\.k8s\.io cannot be read/],
      name,
    )
  }
  await writer.commit({ [SEALED]: null })
  for (const [name, { url }] of Object.entries(replicas)) {
    await until(async () => (await fetch(`${url}/readyz`)).status === 200, `${name} is ready once they can be read`)
    const { status } = await fetch(`${url}/api/v1/pods`, { headers: { authorization: 'Bearer sesame' } })
    t.equal(status, 403, `${name} judges`)
  }
  await writer.commit({ [SEALED]: 'k8s:enc:secretbox:v1:key:x' })
  for (const [name, { url }] of Object.entries(replicas)) {
    await until(async () => (await fetch(`${url}/readyz`)).status === 500, `${name}, ready before, is not any more`)
  }
})
