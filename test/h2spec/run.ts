/**
 * `npm run judge -- h2spec [--build-seconds N]`: h2spec, the conformance tests for HTTP/2, on the ports of a server: over
 * TLS on Node and, where npm brings it, on Bun; without TLS on Node. Cases that fail for reasons that are not ours are
 * listed in `expected.ts`; any other that fails, or one of those that passes, fails the run. h2spec is built from its Go
 * module the first time; without Go, or where the module cannot be fetched, a line says that it is skipped. The last
 * line is `N passed, N failed`.
 */
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { bundlePrograms } from '../support/program.js'
import { runMain } from '../support/run-main.js'
import { runtimeProgram } from '../support/runtime-program.js'
import { secureFlags } from '../support/secure-flags.js'
import { startServer } from '../support/server-process.js'
import { print, verdict } from '../support/verdict.js'
import { withTeardown } from '../support/with-teardown.js'
import { expectedFailures, type Port, ports } from './expected.js'

const source = fileURLToPath(new URL('../../../test/h2spec/h2spec', import.meta.url))
/** On a busy machine a case may miss its deadline of two seconds. */
const ATTEMPTS = 3

/** Whether each case passes, by section and name. */
type Results = ReadonlyMap<string, boolean>
type Ask = (sections: readonly string[]) => Promise<Results>

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { 'build-seconds': { type: 'string', default: '600' } } })
  const program = build(performance.now() + Number(values['build-seconds']) * 1_000)
  if (program === null) return verdict({ passed: 0, failed: 0 })
  await bundlePrograms()
  const bun = runtimeProgram('bun', '1')
  let outcomes: readonly { readonly passed: number; readonly failed: number }[] = []
  await withTeardown(async (t) => {
    const judged = []
    for (const port of ports) {
      if (port.startsWith('Bun')) {
        if (bun === null) continue
        process.env['TEST_SERVER_RUNTIME'] = bun
      }
      const server = await startServer(t, { flags: secureFlags() })
      const target = port.endsWith('TLS') ? ['-t', '-k', '-p', `${server.securePort}`] : ['-p', `${server.port}`]
      judged.push(judge(port, (sections) => run(program, [...target, ...sections])))
    }
    outcomes = await Promise.all(judged)
  })
  const sum = (name: 'passed' | 'failed'): number => outcomes.reduce((total, outcome) => total + outcome[name], 0)
  return verdict({ passed: sum('passed'), failed: sum('failed') })
}

/** Returns the path of h2spec; null, after printing the reason, when it cannot be built. */
function build(deadlineMs: number): string | null {
  try {
    return buildGoProgram({ source, package: 'github.com/summerwind/h2spec/cmd/h2spec' }, deadlineMs)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    print(`skipped: h2spec, since ${error.message}`)
    return null
  }
}

async function judge(port: Port, ask: Ask): Promise<{ passed: number; failed: number }> {
  const rows = new Map(
    expectedFailures
      .filter(({ on }) => on.includes(port))
      .flatMap((row) => row.cases.map((name) => [name, row] as const)),
  )
  const isWrong = ([name, passes]: readonly [string, boolean]): boolean => {
    const row = rows.get(name)
    return row === undefined ? !passes : passes && row.vary === undefined
  }
  const results = await ask([])
  if (results.size === 0) {
    print(`${port}: h2spec writes no report`)
    return { passed: 0, failed: 1 }
  }
  let wrong = new Map([...results].filter(isWrong))
  for (let i = 1; i < ATTEMPTS && wrong.size > 0; i++) {
    const again = await ask([...new Set([...wrong.keys()].map((name) => name.split(' ', 1)[0]!))])
    wrong = new Map([...wrong].map(([name, passes]) => [name, again.get(name) ?? passes] as const).filter(isWrong))
  }
  for (const [name, passes] of wrong) print(`${port}: ${name}: ${passes ? 'passes, so its row can go' : 'fails'}`)
  const unknown = [...rows.keys()].filter((name) => !results.has(name))
  for (const name of unknown) print(`${port}: ${name}: h2spec has no such case`)
  const expected = [...results].filter(([name, passes]) => !passes && !wrong.has(name)).length
  const failed = wrong.size + unknown.length
  print(`${port}: ${results.size} cases, ${expected} fail as expected, ${wrong.size} otherwise`)
  return { passed: results.size - wrong.size, failed }
}

const CASE = /<testcase package="([^"]*)" classname="([^"]*)"[^>]*>([^]*?)<\/testcase>/g

/** Runs h2spec again if it cannot connect: then it writes no report, and nothing of it is here either. */
async function run(program: string, args: readonly string[]): Promise<Results> {
  let results: Results = new Map()
  for (let i = 0; i < ATTEMPTS && results.size === 0; i++) results = await runOnce(program, args)
  return results
}

/** Runs h2spec, which exits with 1 if any case fails. The report says which. */
async function runOnce(program: string, args: readonly string[]): Promise<Results> {
  const folder = mkdtempSync(join(tmpdir(), 'distributary-h2spec-'))
  const report = join(folder, 'report.xml')
  try {
    await new Promise((resolve) => {
      execFile(program, ['-P', '/version', '-j', report, ...args], { maxBuffer: 2 ** 26 }, resolve)
    })
    if (!existsSync(report)) return new Map()
    const cases = readFileSync(report, 'latin1').matchAll(CASE)
    return new Map(
      [...cases].map(([, section, name, problem]) => [
        `${section} ${name!.replaceAll('&#34;', '"')}`,
        problem!.trim() === '',
      ]),
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

await runMain(import.meta.url, main)
