/** docs/clients.md, generated from the table that the tests of outside clients use. */
import { disruptions } from '../clients/support/disruptions.js'
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
    `\`npm run test:clients\` runs ${names(sometimes)}. It needs Go with access to Go modules, or Python 3 with venv and access to packages; it skips clients that it cannot build, and says so. The server is a separate process on a real etcd. Every client that follows changes has to survive ${disruptions.map(({ name }) => name).join(', ')}: afterwards it holds nothing stale, it has not listed more often than at its start, and it holds what a fresh list holds.`,
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
