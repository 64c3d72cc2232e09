/**
 * `npm run test:reference -- [--seed N] [--questions N] [--seconds N] [--definitions SET] [--record]`: distributary beside the API server over one
 * etcd. `--seconds` bounds the time in which the questions of the seed are asked, `--build-seconds` that of building the two.
 *
 * First everything is asked while nothing is written; then whole watches run under random writes, with definitions changing
 * between and under them, and questions are asked of what the definitions have become. Ends with `N passed, N failed`; what
 * may differ stands in exceptions.ts. It needs Go, and is skipped with a line that says why
 * where the two programs cannot be built.
 */
import { parseArgs } from 'node:util'
import type { Test } from 'tap'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { buildEtcd } from '../etcd/versions.js'
import { Comparison } from './comparison.js'
import type { DefinitionSet } from './definition-set.js'
import { apiServer } from './programs.js'
import { record } from './recording.js'
import { Report } from './report.js'
import { sets } from './sets.js'
import { startWorld, type World } from './world.js'

interface Settings {
  readonly seed: number
  /** Of each set. */
  readonly questions: number
  /** For the questions of the seed, of each set. */
  readonly seconds: number
  /** For both programs, where they are not in the cache. */
  readonly buildSeconds: number
  /** By their names. */
  readonly sets: readonly (readonly [name: string, set: DefinitionSet])[]
  readonly isRecording: boolean
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      questions: { type: 'string', default: '8500' },
      seconds: { type: 'string', default: '3600' },
      'build-seconds': { type: 'string', default: '1800' },
      definitions: { type: 'string' },
      record: { type: 'boolean', default: false },
    },
  })
  const settings = {
    seed: numberOf('--seed', values.seed),
    questions: numberOf('--questions', values.questions),
    seconds: numberOf('--seconds', values.seconds),
    buildSeconds: numberOf('--build-seconds', values['build-seconds']),
    sets: setsOf(values.definitions),
    isRecording: values.record,
  }
  const program = buildBoth(settings.buildSeconds)
  if (program === null) {
    process.stdout.write('0 passed, 0 failed\n')
    return 0
  }
  const report = new Report()
  for (const [name, set] of settings.sets) {
    process.stdout.write(`== ${name} set of definitions\n`)
    await withWorld(program, async (world) => {
      if (settings.isRecording) await record(world, name, set, settings.seed)
      else await compare(new Comparison(world, set, settings.seed, report), report, settings)
    })
  }
  if (settings.isRecording) return 0
  report.print((line) => process.stdout.write(`${line}\n`))
  return report.failed === 0 ? 0 : 1
}

/** @throws Error when it is none. */
function numberOf(option: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`${option} is a whole number, not ${JSON.stringify(text)}`)
  return Number(text)
}

/** @throws Error when there is no such set. */
function setsOf(name: string | undefined): Settings['sets'] {
  const all = Object.entries(sets)
  const chosen = name === undefined ? all : all.filter(([each]) => each === name)
  if (chosen.length === 0) throw new Error(`--definitions is one of ${Object.keys(sets).join(', ')}, not ${name}`)
  return chosen
}

/** The API server's path; null, with a line that says why, where the two cannot be had. */
function buildBoth(seconds: number): string | null {
  const deadlineMs = performance.now() + seconds * 1_000
  try {
    // Read by the module that starts etcd, when it is loaded: hence its import below.
    process.env['ETCD_BIN'] = buildEtcd('3.7', deadlineMs)
    return buildGoProgram(apiServer, deadlineMs)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stdout.write(`skipped: the comparison with the API server, since ${error.message}\n`)
    return null
  }
}

/** Both servers over one etcd of their own, which end with `use`. */
async function withWorld(apiServer: string, use: (world: World) => Promise<void>): Promise<void> {
  const teardowns: (() => unknown)[] = []
  // All that the processes want of a test is to be told when it ends.
  const t = { teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test
  try {
    const { startEtcd } = await import('../support/etcd-process.js')
    await use(await startWorld(t, await startEtcd(t), apiServer))
  } finally {
    for (const done of teardowns.reverse()) await done()
  }
}

async function compare(comparison: Comparison, report: Report, { questions, seconds }: Settings): Promise<void> {
  try {
    await comparison.run(questions, seconds * 1_000)
  } catch (error) {
    // The findings up to here are worth reading all the same.
    report.abort(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
}

process.exitCode = await main()
