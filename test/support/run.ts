/**
 * `npm test`: sees to what the tests need, runs tap, and ends with one plain line, `N passed, N failed`.
 *
 * The tests are those that have a source today: a compiled test whose source is gone is not run. Arguments name some of
 * them, by source, by compiled path or by folder. The counts are tap's own, of assertions; a run that is red without
 * one of them (a bail-out, a runner that died) counts one failure more, so that it never reads as green.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bundlePrograms } from './program.js'
import { provideRequirements } from './requirements.js'
import { runTap } from './run-tap.js'
import { selectTests } from './select-tests.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

async function main(names: readonly string[]): Promise<number> {
  const files = selectTests(names)
  if (files.length === 0) return fail(`no test is called ${names.join(' ')}`)
  const unbuilt = files.find((file) => !existsSync(join(root, file)))
  if (unbuilt !== undefined) return fail(`${unbuilt} is not there: npm run build:test makes it`)
  const lack = provideRequirements()
  if (lack !== null) return fail(lack)
  await bundlePrograms()
  const { passed, failed } = await runTap(files)
  process.stdout.write(`${passed} passed, ${failed} failed\n`)
  return failed === 0 ? 0 : 1
}

function fail(message: string): number {
  process.stderr.write(`${message}\n`)
  return 1
}

process.exitCode = await main(process.argv.slice(2))
