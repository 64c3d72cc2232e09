/**
 * `npm run judge -- clients [--clients NAME,…] [--build-seconds N] [--seconds N]`: the clients of the table that need
 * tools which not every machine has; a client whose tools are missing is skipped, with a line that says so. `--seconds`
 * bounds one test, `--build-seconds` the building of all programs, which are cached. Names are those of the table, in
 * lower case and with dashes. The last line is `N passed, N failed`.
 */
import { parseArgs } from 'node:util'
import { buildEtcd } from '../etcd/versions.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'
import { ETCD_OF_API_SERVER, isProvided } from './support/provide.js'
import { type OutsideClient, outsideClients } from './table.js'
import { fail, verdict } from '../support/verdict.js'
import { runMain } from '../support/run-main.js'

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      clients: { type: 'string', default: '' },
      'build-seconds': { type: 'string', default: '1200' },
      seconds: { type: 'string', default: '600' },
    },
  })
  const all = outsideClients.filter(({ runsIn }) => runsIn === 'npm run judge -- clients')
  const names = values.clients.split(',').filter((name) => name !== '')
  const unknown = names.filter((name) => !all.some((client) => optionName(client) === name))
  if (unknown.length > 0) return fail(`no client is called ${unknown.join(' ')}: ${all.map(optionName).join(', ')}`)
  const chosen = names.length === 0 ? all : all.filter((client) => names.includes(optionName(client)))
  const deadlineMs = performance.now() + Number(values['build-seconds']) * 1_000
  const runnable = chosen.filter((client) => isProvided(client, deadlineMs))
  if (runnable.length === 0) {
    return verdict({ passed: 0, failed: 0 })
  }
  // Several clients may share a test.
  const filesOf = (clients: readonly OutsideClient[]): string[] => [...new Set(clients.map(({ test }) => test))]
  const lack = provideRequirements(sourcesOf(filesOf(runnable)))
  if (lack !== null) return fail(lack)
  const outcome = { passed: 0, failed: 0 }
  for (const needs of [false, true]) {
    const files = filesOf(runnable.filter(({ needsApiServer = false }) => needsApiServer === needs))
    if (files.length === 0) continue
    if (needs) process.env['ETCD_BIN'] = buildEtcd(ETCD_OF_API_SERVER, deadlineMs)
    const { passed, failed } = await runTap(files, { seconds: Number(values.seconds), jobs: 1 })
    outcome.passed += passed
    outcome.failed += failed
  }
  return verdict(outcome)
}

const optionName = ({ name }: OutsideClient): string => name.toLowerCase().replaceAll(' ', '-')

await runMain(import.meta.url, main)
