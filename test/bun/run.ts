/**
 * `npm run test:bun -- [TEST…]`: tests that start the server as a process, with Bun in place of Node; npm's package
 * `bun` brings it. The tests themselves stay on Node. Where npm cannot bring it, a line says that it is skipped. The
 * last line is `N passed, N failed`.
 */
import { bundlePrograms } from '../support/program.js'
import { runtimeProgram } from '../support/runtime-program.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runTap } from '../support/run-tap.js'
import { selectTests } from '../support/select-tests.js'
import { fail, verdict } from '../support/verdict.js'
import { runMain } from '../support/run-main.js'

/** Those that need nothing that Bun lacks, and depend on no garbage collector (docs/runtimes.md). */
const SUITES = [
  'test/server/wiring/runtime.test.ts',
  'test/server/transports/passthrough.test.ts',
  'test/integration/main-job.test.ts',
  'test/security/limits.test.ts',
]

async function main(): Promise<number> {
  const names = process.argv.slice(2)
  const files = selectTests(names.length === 0 ? SUITES : names)
  const lack = provideRequirements(sourcesOf(files))
  if (lack !== null) return fail(lack)
  const bun = runtimeProgram('bun', '1')
  if (bun === null) {
    return verdict({ passed: 0, failed: 0 })
  }
  // The tests' own processes inherit both. Bundled as the package is: Bun would put its own `ws` in place of ours.
  process.env['TEST_SERVER_RUNTIME'] = bun
  await bundlePrograms()
  return verdict(await runTap(files))
}

await runMain(import.meta.url, main)
