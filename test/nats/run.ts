/**
 * `npm run test:nats -- [TEST…]`: the tests that use a real nats-server, on the newest release instead of Debian's. It
 * is built from its Go module the first time, which takes minutes. Without Go, or where the module cannot be fetched, a
 * line says that it is skipped. The last line is `N passed, N failed`.
 */
import { fileURLToPath } from 'node:url'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'
import { selectTests } from '../support/select-tests.js'

const SUITES = [
  'test/fleet',
  'test/integration/nats-processes.test.ts',
  'test/integration/nats-servers.test.ts',
  'test/ops/chart-nats.test.ts',
]

const source = fileURLToPath(new URL('../../../test/nats/nats-server', import.meta.url))

async function main(): Promise<number> {
  const names = process.argv.slice(2)
  const files = selectTests(names.length === 0 ? SUITES : names)
  const lack = provideRequirements(sourcesOf(files))
  if (lack !== null) return fail(lack)
  try {
    // Inherited and read by the tests' own processes.
    process.env['NATS_BIN'] = buildGoProgram({ source })
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    print(`skipped: the newest nats-server, since ${error.message}`)
    print('0 passed, 0 failed')
    return 0
  }
  const { passed, failed } = await runTap(files)
  print(`${passed} passed, ${failed} failed`)
  return failed === 0 ? 0 : 1
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

function fail(message: string): number {
  process.stderr.write(`${message}\n`)
  return 1
}

process.exitCode = await main()
