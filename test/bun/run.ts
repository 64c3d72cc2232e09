/**
 * `npm run judge -- bun [TEST…]`: tests that start the server as a process, with Bun in place of Node, from npm's
 * package `bun`. The tests themselves stay on Node. If npm cannot install it, a line says that the run is skipped. The
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

/** Tests that need nothing that Bun lacks, or skip that part (docs/guide/runtimes.md). */
const SUITES = [
  ...['encodings', 'errors', 'fixtures', 'list', 'paths', 'selectors', 'shards', 'watch'].map(
    (name) => `test/conformance/${name}.test.ts`,
  ),
  'test/fault/bounds.test.ts',
  'test/fault/process.test.ts',
  'test/fault/slow-loris.test.ts',
  'test/integration/main-job.test.ts',
  'test/ops/image.test.ts',
  'test/security/early-data.test.ts',
  'test/security/limits.test.ts',
  'test/security/many-headers.test.ts',
  'test/security/rapid-reset.test.ts',
  'test/security/service-accounts.test.ts',
  'test/security/idle-connections.test.ts',
  'test/security/unread-bodies.test.ts',
  'test/server/transports/passthrough.test.ts',
  'test/server/wiring/runtime.test.ts',
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
  // The tests' own processes inherit both. Bundled like the package, because Bun would replace our `ws` with its own.
  process.env['TEST_SERVER_RUNTIME'] = bun
  await bundlePrograms()
  return verdict(await runTap(files))
}

await runMain(import.meta.url, main)
