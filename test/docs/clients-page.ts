/** docs/reference/tested-clients.md, generated from the table that the tests of outside clients use. */
import { disruptions, replicaDisruptions } from '../clients/support/disruptions.js'
import { type OutsideClient, outsideClients } from '../clients/table.js'
import { agents } from '../onboarding/agents.js'

export function clientsPage(): string {
  const always = outsideClients.filter(({ runsIn }) => runsIn === 'npm test')
  const sometimes = outsideClients.filter(({ runsIn }) => runsIn === 'npm run judge -- clients')
  return `${[
    '# Tested clients',
    '<!-- Generated from test/clients/table.ts by `npm run generate`. -->',
    'These third-party clients are tested against distributary, unmodified. Configure them as for a kube-apiserver, with the address of distributary.',
    table(outsideClients),
    '## What to set',
    outsideClients.flatMap(({ name, note }) => (note === undefined ? [] : [`- **${name}**: ${note}.`])).join('\n'),
    '## What differs from a kube-apiserver',
    'There is no kubelet and no admission: logs, exec, port-forward and tokens need [`--passthrough`](../guide/kubernetes.md). Writes are off unless you set [`--enable-writes`](../guide/writes.md). `kubectl explain` shows the fields and types of built-in kinds without their descriptions, unless `--passthrough` forwards it to an API server.',
    '## How they are tested',
    `\`npm test\` runs ${names(always)}.`,
    `\`npm run judge -- clients\` runs ${names(sometimes)}. It needs Go with access to Go modules, Python 3 with venv and access to packages, Java 17 with Maven, and cargo. It skips clients that it cannot build, and says so.`,
    "Clients of etcd's own protocol (clientv3, CoreDNS's etcd plugin, jetcd, python-etcd3, and the recording clients of etcd's robustness test, whose validators judge what they saw) run with `npm run judge -- etcd-clients`. By hand, Vitess 0.24.4's topology passed its `TopoServerTestSuite` on etcd 3.5.35, as at etcd; and the assertions of 11 integration tests of Cilium 1.20.2's kvstore client (locks, leases, paginated lists, ListAndWatch) hold on etcd 3.7.3.",
    `Each client talks to a server in a separate process, on a real etcd. A client that follows changes must survive ${names(disruptions)}. Afterwards it must hold what a fresh list holds, without having listed again. Two replicas behind one address go through ${names(replicaDisruptions)}.`,
    `${names(outsideClients.filter(({ needsApiServer = false }) => needsApiServer))} run at the API server of Kubernetes 1.37.2 and at distributary, which reads the same etcd. What they show and do must be the same. Most of them also run while it reads that API server (\`--upstream\`), or writes itself (\`--enable-writes\`).`,
    `\`npm run judge -- onboarding\` runs ${names(outsideClients.filter(({ name }) => agents.some(({ client }) => client === name)))} as pods are configured: with variables, a token directory and a CA; k9s and kube-proxy have a kubeconfig that names that host and directory. They run against the API server of Kubernetes 1.37.2 while their tokens are replaced.`,
  ].join('\n\n')}\n`
}

function names(all: readonly { readonly name: string }[]): string {
  const list = all.map(({ name }) => name)
  return list.length < 2 ? list.join('') : `${list.slice(0, -1).join(', ')} and ${list.at(-1)}`
}

function table(clients: readonly OutsideClient[]): string {
  const rows = clients.map(({ name, version, does, test }) => `| ${name} | ${version} | ${does} | \`${test}\` |`)
  return ['| client | version | what its test covers | test |', '| --- | --- | --- | --- |', ...rows].join('\n')
}
