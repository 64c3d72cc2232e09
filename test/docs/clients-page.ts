/** docs/clients.md, from the table that the tests of outside clients follow. */
import { disruptions } from '../clients/support/disruptions.js'
import { type OutsideClient, outsideClients } from '../clients/table.js'

export function clientsPage(): string {
  const always = outsideClients.filter(({ runsIn }) => runsIn === 'npm test')
  const sometimes = outsideClients.filter(({ runsIn }) => runsIn !== 'npm test')
  return `${[
    '# Clients',
    '<!-- Made from test/clients/table.ts by `npm run generate`. -->',
    'Clients that were run against distributary unchanged. They are configured as for a kube-apiserver, with the address of distributary.',
    table(outsideClients),
    '## Run by every change',
    `\`npm test\` runs ${names(always)}.`,
    '## Run where their tools are',
    `\`npm run test:clients\` runs ${names(sometimes)}, and skips with a line what it finds no tools for (Go with a way to its modules, or Python 3 with venv and a way to its packages). Their server is a process of its own over a real etcd, and each that follows changes lives through ${disruptions.map(({ name }) => name).join(', ')}: nothing that it holds is stale afterwards, it lists no more than at its start, and in the end it holds what a fresh list holds.`,
    '## What differs from a kube-apiserver',
    'There is no kubelet behind it and no admission: logs, exec, port-forward and tokens need [`--passthrough`](kubernetes.md). Writes are off unless [`--enable-writes`](writes.md) is set.',
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
