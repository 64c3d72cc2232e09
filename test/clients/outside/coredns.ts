/**
 * CoreDNS with its kubernetes plugin, unchanged: A, SRV and PTR follow the services, through restarts of the server and
 * of etcd.
 */
import { Resolver } from 'node:dns/promises'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { freePort } from '../../support/free-port.js'
import { buildGoProgram } from '../../support/go-program.js'
import { coreDns } from '../programs.js'
import { cluster } from '../support/cluster.js'
import { startProcess } from '../support/start-process.js'
import { startStage } from '../support/stage.js'
import { list, surviveDisruptions } from '../support/survive.js'

const program = buildGoProgram(coreDns)

interface Services {
  readonly items: readonly {
    readonly metadata: { readonly name: string }
    readonly spec: { readonly clusterIP: string; readonly ports: readonly { readonly port: number }[] }
  }[]
}

/** A missing name counts as an empty response. */
async function ask<T>(question: Promise<readonly T[]>): Promise<readonly T[]> {
  return await question.catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOTFOUND' || error.code === 'ENODATA') return []
    throw error
  })
}

void t.test('its answers match the services of a fresh list', async (t) => {
  const stage = await startStage(t, { world: cluster() })
  const folder = mkdtempSync(join(tmpdir(), 'distributary-coredns-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const port = await freePort()
  const file = `.:${port} {
  bind 127.0.0.1
  errors
  kubernetes cluster.local in-addr.arpa {
    endpoint ${stage.url}
    ttl 0
  }
}
`
  writeFileSync(join(folder, 'Corefile'), file)
  const client = startProcess(t, [program, '-conf', join(folder, 'Corefile')], {
    KUBE_FEATURE_WatchListClient: 'false',
  })
  const resolver = new Resolver({ timeout: 2_000, tries: 3 })
  resolver.setServers([`127.0.0.1:${port}`])
  const seen = new Map<string, string>()
  const line = (name: string, a: string, srv: string, ptr: string): string => `${name} A ${a} SRV ${srv} PTR ${ptr}`
  await surviveDisruptions(t, stage, {
    userAgent: /coredns/i,
    printed: () => client.printed(),
    held: async () => {
      const lines = []
      for (const [name, lastAddress] of seen) {
        const host = `${name}.default.svc.cluster.local`
        const addresses = await ask(resolver.resolve4(host))
        const ports = await ask(resolver.resolveSrv(`_http._tcp.${host}`))
        const names = await ask(resolver.reverse(addresses[0] ?? lastAddress))
        if (addresses.length === 0 && ports.length === 0 && names.length === 0) continue
        lines.push(line(name, addresses.join(), ports.map((one) => `${one.name}:${one.port}`).join(), names.join()))
      }
      return lines
    },
    listed: async () => {
      const { items } = await list<Services>(stage, '/api/v1/services')
      for (const { metadata, spec } of items) seen.set(metadata.name, spec.clusterIP)
      return items.map(({ metadata: { name }, spec: { clusterIP, ports } }) => {
        const host = `${name}.default.svc.cluster.local`
        return line(name, clusterIP, ports.map((one) => `${host}:${one.port}`).join(), host)
      })
    },
  })
  t.notOk(client.hasEnded(), client.printed())
  t.notMatch(client.printed(), /panic/)
})
