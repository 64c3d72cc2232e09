/**
 * `npm run test:clients [NAME…]`: the clients of the table that need tools which not every machine has, each skipped with a line
 * that says so. The last line is `N passed, N failed`.
 */
import { provideRequirements } from '../support/requirements.js'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { runTap } from '../support/run-tap.js'
import { NoPythonError, providePython } from './support/python.js'
import { type OutsideClient, outsideClients } from './table.js'

/** For all programs that have to be built first, which are kept. */
const BUILD_MS = 20 * 60_000

/** For one client. */
const TIMEOUT_SECONDS = 600

async function main(names: readonly string[]): Promise<number> {
  const all = outsideClients.filter(({ runsIn }) => runsIn === 'npm run test:clients')
  const unknown = names.filter((name) => !all.some((client) => client.name === name))
  if (unknown.length > 0)
    return fail(`no client is called ${unknown.join(' ')}: ${all.map(({ name }) => name).join(', ')}`)
  const chosen = names.length === 0 ? all : all.filter(({ name }) => names.includes(name))
  const deadlineMs = performance.now() + BUILD_MS
  const runnable = chosen.filter((client) => isProvided(client, deadlineMs))
  if (runnable.length === 0) {
    print('0 passed, 0 failed')
    return 0
  }
  const lack = provideRequirements()
  if (lack !== null) return fail(lack)
  const files = runnable.map(({ test }) => `.build/${test.replace(/\.ts$/, '.js')}`)
  const { passed, failed } = await runTap(files, { seconds: TIMEOUT_SECONDS, jobs: 1 })
  print(`${passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}

function isProvided({ name, program, needsPython = false }: OutsideClient, deadlineMs: number): boolean {
  try {
    if (program !== undefined) buildGoProgram(program, deadlineMs)
    if (needsPython) providePython()
    return true
  } catch (error) {
    if (!(error instanceof NoProgramError || error instanceof NoPythonError)) throw error
    print(`skipped: ${name}, since ${error.message}`)
    return false
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

function fail(message: string): number {
  process.stderr.write(`${message}\n`)
  return 1
}

process.exitCode = await main(process.argv.slice(2))
