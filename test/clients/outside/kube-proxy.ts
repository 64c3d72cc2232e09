/**
 * kube-proxy, unmodified, twice, each on a host with its own network: one follows Kubernetes' own API server, and one
 * distributary over the same etcd. They write the same rules into their kernels, through changes and restarts.
 */
import t, { type Test } from 'tap'
import { buildGoProgram } from '../../support/go-program.js'
import { type NamespacedHost, openNetwork } from '../../support/network-namespaces.js'
import { kubeProxy } from '../programs.js'
import { disruptions, momentAfter } from '../support/disruptions.js'
import { until } from '../../support/until.js'
import { clientFolder, sources, startCompared } from '../support/api-server.js'
import { proxyFlags, relay, rulesOf } from '../support/proxied.js'
import { services } from '../support/services.js'
import { startProcess, type RunningProcess } from '../support/start-process.js'

const program = buildGoProgram(kubeProxy)

function startProxy(t: Test, host: NamespacedHost, server: string): RunningProcess {
  const { kubeconfig } = clientFolder(t, server)
  return startProcess(t, [
    ...host.command,
    program,
    `--kubeconfig=${kubeconfig}`,
    '--hostname-override=one',
    ...proxyFlags,
  ])
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
