/**
 * `npm run judge -- onboarding [--build-seconds N] [--seconds N] [--agents NAME,…] [--idle-minutes N] [NAME...]`: what
 * docs/guide/onboarding.md says, followed on Kubernetes' own API server: manifests, the patches there and back, agents
 * that are moved, clients with the settings of a pod, `distributary doctor`, and a restart of the API server behind
 * `--upstream`. Names are those of files in this folder. `in-cluster` runs all agents, or those of `--agents`
 * (`agents.ts`), and leaves them alone for `--idle-minutes` first. If the programs cannot be built, it prints a line and
 * skips the tests. The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util'
import { ETCD_OF_API_SERVER, isProvided } from '../clients/support/provide.js'
import { outsideClients } from '../clients/table.js'
import { buildEtcd } from '../etcd/versions.js'
import { buildKubernetes } from '../reference/programs.js'
import { NoProgramError } from '../support/go-program.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'
import { fail, verdict } from '../support/verdict.js'
import { runMain } from '../support/run-main.js'
import { IDLE_MINUTES, LACKING } from './agent.js'
import { agents } from './agents.js'

/** The files, each with the clients that it runs, by their names in the clients' table. */
const all: Readonly<Record<string, readonly string[]>> = {
  manifests: [],
  'kube-state-metrics': ['kube-state-metrics'],
  'in-cluster': agents.map(({ client }) => client),
  doctor: [],
  managed: [],
  'there-and-back': ['kube-state-metrics', 'metrics-server', 'OpenTelemetry collector'],
  'api-server-restart': [],
  'two-replicas': ['client-go'],
  'expired-events': [],
  'passed-watches': [],
  patroni: [],
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'build-seconds': { type: 'string', default: '3600' },
      seconds: { type: 'string', default: '600' },
      agents: { type: 'string' },
      'idle-minutes': { type: 'string', default: '0' },
    },
  })
  const unknown = positionals.filter((name) => !Object.hasOwn(all, name))
  if (unknown.length > 0) return fail(`there is no ${unknown.join(' ')}: ${Object.keys(all).join(', ')}`)
  const chosen = positionals.length > 0 ? positionals : Object.keys(all)
  const deadlineMs = performance.now() + Number(values['build-seconds']) * 1_000
  try {
    process.env['ETCD_BIN'] = buildEtcd(ETCD_OF_API_SERVER, deadlineMs)
    buildKubernetes('kube-apiserver', deadlineMs)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stdout.write(`skipped: onboarding on the API server, since ${error.message}\n0 passed, 0 failed\n`)
    return 0
  }
  // Before the tests, whose time is limited.
  const needed = new Set(chosen.flatMap((name) => all[name]!))
  const wanted = values.agents?.split(',')
  const isWanted = (client: string): boolean =>
    wanted === undefined || agents.some(({ name, client: its }) => its === client && wanted.includes(name))
  const missing = outsideClients.filter(
    (client) => needed.has(client.name) && !(isWanted(client.name) && isProvided(client, deadlineMs)),
  )
  const lacking = new Set(missing.map(({ name }) => name))
  process.env[IDLE_MINUTES] = values['idle-minutes']
  process.env[LACKING] = [...lacking].join()
  const runnable = chosen.filter((name) => name === 'in-cluster' || !all[name]!.some((client) => lacking.has(client)))
  const files = runnable.map((name) => `test/onboarding/${name}.ts`)
  const lack = provideRequirements(sourcesOf(files))
  if (lack !== null) return fail(lack)
  return verdict(await runTap(files, { seconds: Number(values.seconds), jobs: 1 }))
}

await runMain(import.meta.url, main)
