/**
 * `npm test`: sees to what the tests need, runs tap, and ends with one plain line, `N passed, N failed`.
 *
 * The tests are those that have a source today: a compiled test whose source is gone is not run. Arguments name some of
 * them, by source, by compiled path or by folder. The counts are tap's own, of assertions; a run that is red without one
 * of them (a bail-out, a runner that died) counts one failure more, so that it never reads as green.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { provideRequirements } from './requirements.js'
import { runTap } from './run-tap.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

async function main(names: readonly string[]): Promise<number> {
  const files = selectTests(names)
  if (files.length === 0) return fail(`no test is called ${names.join(' ')}`)
  const unbuilt = files.find((file) => !existsSync(join(root, file)))
  if (unbuilt !== undefined) return fail(`${unbuilt} is not there: npm run build:test makes it`)
  const lack = provideRequirements()
  if (lack !== null) return fail(lack)
  const { passed, failed } = await runTap(files)
  process.stdout.write(`${passed} passed, ${failed} failed\n`)
  return failed === 0 ? 0 : 1
}

function fail(message: string): number {
  process.stderr.write(`${message}\n`)
  return 1
}

/** Compiled paths relative to the root, of all tests or of those under one of `names`. */
function selectTests(names: readonly string[]): string[] {
  const sources = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  const files = sources
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => join('.build', 'test', file.replace(/\.ts$/, '.js')))
    .sort()
  if (names.length === 0) return files
  const wanted = names.map((name) => {
    const path = relative(root, resolve(name)).replace(/\.ts$/, '.js')
    return path.startsWith('.build') ? path : join('.build', path)
  })
  return files.filter((file) => wanted.some((path) => file === path || file.startsWith(`${path}/`)))
}

process.exitCode = await main(process.argv.slice(2))
