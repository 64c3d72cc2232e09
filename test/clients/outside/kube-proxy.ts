/**
 * kube-proxy, unmodified, twice, each on a host with its own network: one follows Kubernetes' own API server, and one
 * distributary over the same etcd. They write the same rules into their kernels, through changes and restarts.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import t, { type Test } from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { type NamespacedHost, openNetwork } from '../../support/network-namespaces.js'
import { kubeProxy } from '../programs.js'
import { disruptions, momentAfter } from '../support/disruptions.js'
import { until } from '../../support/until.js'
import { clientFolder, sources, startCompared } from '../support/api-server.js'
import { services } from '../support/services.js'
import { startProcess, type RunningProcess } from '../support/start-process.js'

const program = buildGoProgram(kubeProxy)

/** Makes a port of loopback reachable from the hosts. @returns its address. */
async function relay(t: Test, host: NamespacedHost, port: number): Promise<string> {
  const here = host.address.replace(/\d+$/, '1')
  const sockets = new Set<net.Socket>()
  const server = net.createServer((client) => {
    const there = net.connect(port, '127.0.0.1')
    for (const [one, other] of [
      [client, there],
      [there, client],
    ] as const) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.once('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
  })
  server.listen(0, here)
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return `${here}:${(server.address() as net.AddressInfo).port}`
}

function startProxy(t: Test, host: NamespacedHost, server: string): RunningProcess {
  const { kubeconfig } = clientFolder(t, server)
  return startProcess(t, [
    ...host.command,
    program,
    `--kubeconfig=${kubeconfig}`,
    '--proxy-mode=nftables',
    '--hostname-override=one',
    '--detect-local-mode=ClusterCIDR',
    '--cluster-cidr=10.244.0.0/16',
    '--nodeport-addresses=127.0.0.0/8',
    '--conntrack-max-per-core=0',
    '--conntrack-tcp-timeout-established=0',
    '--conntrack-tcp-timeout-close-wait=0',
    '--v=2',
  ])
}

/**
 * The rules in a host's kernel, each after the name of its chain, and the elements of its sets and maps. kube-proxy empties chains that it
 * needs no longer, and deletes them later.
 */
function rulesOf(host: NamespacedHost): readonly string[] {
  const [command = '', ...args] = host.command
  const text = execFileSync(command, [...args, 'nft', 'list', 'ruleset', 'ip'], { encoding: 'utf8' })
  const rules: string[] = []
  let place = ''
  for (const line of text.replaceAll(/packets \d+ bytes \d+/g, 'counted').split('\n')) {
    const rule = line.trim()
    if (rule.endsWith(' {')) place = rule.slice(0, -2)
    else if (/\w/.test(rule)) rules.push(`${place} ${rule.replaceAll(/elements = \{ |,$| \}$/g, '')}`)
  }
  return rules.toSorted()
}

const network = openNetwork(t, 2 * sources.length)

for (const [i, source] of sources.entries()) {
  void t.test(
    `at distributary ${source.name} kube-proxy writes the rules that it writes at the API server`,
    async (t) => {
      if (typeof network === 'string') {
        t.pass('kube-proxy', { skip: network })
        return
      }
      const { stage, apiServer } = await startCompared(t, services(), source)
      const [there, here] = network.slice(2 * i) as [NamespacedHost, NamespacedHost]
      const judge = startProxy(t, there, `https://${await relay(t, there, apiServer.server.port)}`)
      const client = startProxy(t, here, `http://${await relay(t, here, Number(new URL(stage.url).port))}`)
      const printed = (): string => `${client.printed()}\n${judge.printed()}`
      for (const disruption of [{ name: 'the start', disrupt: async () => {} }, ...disruptions]) {
        await disruption.disrupt(stage)
        const moment = momentAfter(disruption)
        await stage.write(moment)
        let [expected, found]: (readonly string[])[] = [[], []]
        const isDone = (): boolean => {
          ;[expected, found] = [rulesOf(there), rulesOf(here)]
          return (
            expected.some((rule) => rule.includes(`default/${moment}/`)) && expected.join('\n') === found.join('\n')
          )
        }
        await until(isDone, moment, 90_000).catch(() => t.comment(printed()))
        t.same(found, expected, moment)
      }
      const rules = rulesOf(here).join('\n')
      for (const expected of [/10\.96\.0\.1 /, /dnat/, /jhash|numgen/, /external/, /firewall|no-endpoint/])
        t.match(rules, expected)
      t.notOk(client.hasEnded(), client.printed())
      t.notMatch(client.printed(), /panic/)
    },
  )
}
