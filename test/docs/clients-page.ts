/** docs/clients.md, generated from the table that the tests of outside clients use. */
import { disruptions, replicaDisruptions } from '../clients/support/disruptions.js'
import { type OutsideClient, outsideClients } from '../clients/table.js'

export function clientsPage(): string {
  const always = outsideClients.filter(({ runsIn }) => runsIn === 'npm test')
  const sometimes = outsideClients.filter(({ runsIn }) => runsIn !== 'npm test')
  return `${[
    '# Clients',
    '<!-- Made from test/clients/table.ts by `npm run generate`. -->',
    'These third-party clients are tested against distributary, unmodified. Configure them as for a kube-apiserver, with the address of distributary.',
    table(outsideClients),
    '## How they are tested',
    `\`npm test\` runs ${names(always)}.`,
    `\`npm run test:clients\` runs ${names(sometimes)}. It needs Go with access to Go modules, Python 3 with venv and access to packages, Java 17 with Maven, or cargo; it skips clients that it cannot build, and says so. The server is a separate process on a real etcd. Every client that follows changes has to survive ${disruptions.map(({ name }) => name).join(', ')}: afterwards it holds nothing stale, it has not listed more often than at its start, and it holds what a fresh list holds. Two replicas behind one address face ${replicaDisruptions.map(({ name }) => name).join(', ')}.`,
    '`npm run test:onboarding` runs client-go, kube-state-metrics, Python kubernetes, kubernetes_asyncio, lightkube, kr8s, fabric8 kubernetes-client and kube with the settings of a pod: its variables, token directory and authority, against the API server of Kubernetes 1.37.2 and through the replacement of their tokens.',
    '## What differs from a kube-apiserver',
    'It has no kubelet and no admission: logs, exec, port-forward and tokens need [`--passthrough`](kubernetes.md). Writes are off unless [`--enable-writes`](writes.md) is set.',
  ].join('\n\n')}\n`
}

function names(clients: readonly OutsideClient[]): string {
  return clients.map(({ name }) => name).join(', ')
}

function table(clients: readonly OutsideClient[]): string {
  const rows = clients.map(({ name, version, does, test, note }) => {
    const noted = note === undefined ? does : `${does}; ${note}`
    return `| ${name} | ${version} | ${noted} | \`${test}\` |`
  })
  return ['| client | version | what it does in its test | test |', '| --- | --- | --- | --- |', ...rows].join('\n')
}
