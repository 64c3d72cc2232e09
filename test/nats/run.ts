/**
 * `npm run judge -- nats [TEST…]`: the tests that use a real nats-server, on the newest release instead of Debian's. It
 * is built from its Go module the first time, which takes minutes. Without Go, or where the module cannot be fetched, a
 * line says that it is skipped. The last line is `N passed, N failed`.
 */
import { fileURLToPath } from 'node:url'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'
import { isUnder, moduleTests, selectTests, systemTests } from '../support/select-tests.js'
import { fail, print, verdict } from '../support/verdict.js'
import { runMain } from '../support/run-main.js'

const NATS = 'test/support/nats-process.ts'
/** Benches, and tests of the commands in the docs. */
const OTHERS = ['test/bench', 'test/docs']

function testsOfNats(): string[] {
  return [...moduleTests(), ...systemTests()].filter((file) => !isUnder(file, OTHERS) && sourcesOf([file]).has(NATS))
}

const source = fileURLToPath(new URL('../../../test/nats/nats-server', import.meta.url))

async function main(): Promise<number> {
  const names = process.argv.slice(2)
  const files = names.length === 0 ? testsOfNats() : selectTests(names)
  const lack = provideRequirements(sourcesOf(files))
  if (lack !== null) return fail(lack)
  try {
    // Inherited and read by the tests' own processes.
    process.env['NATS_BIN'] = buildGoProgram({ source })
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    print(`skipped: the newest nats-server, since ${error.message}`)
    return verdict({ passed: 0, failed: 0 })
  }
  return verdict(await runTap(files))
}

await runMain(import.meta.url, main)
