/**
 * `npm test`: compiles the tests and what they load, sees to what they need, runs tap, and ends with one plain line,
 * `N passed, N failed`. Arguments name some tests, by file or by folder: what these do not load is neither compiled nor
 * asked for.
 *
 * The counts are tap's own, of assertions; a run that is red without one of them (a bail-out, a runner that died) counts
 * one failure more, so that it never reads as green.
 */
import { compile } from './compile.js'
import { sourcesOf } from './imports.js'
import { bundlePrograms, startsPrograms } from './program.js'
import { provideRequirements } from './requirements.js'
import { runTap } from './run-tap.js'
import { selectTests } from './select-tests.js'

async function main(names: readonly string[]): Promise<number> {
  const files = selectTests(names)
  if (files.length === 0) return fail(`no test is called ${names.join(' ')}`)
  const sources = sourcesOf(files)
  const lack = provideRequirements(sources)
  if (lack !== null) return fail(lack)
  await compile(new Set([...sources, ...sourcesOf(['test/support/run-tap.ts'])]))
  if (startsPrograms(sources)) await bundlePrograms()
  const { passed, failed } = await runTap(files)
  process.stdout.write(`${passed} passed, ${failed} failed\n`)
  return failed === 0 ? 0 : 1
}

function fail(message: string): number {
  process.stderr.write(`${message}\n`)
  return 1
}

process.exitCode = await main(process.argv.slice(2))
