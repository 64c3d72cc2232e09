/**
 * `npm run test:reference -- [--seed N] [--questions N] [--seconds N] [--record]`: distributary beside the API server over one
 * etcd. `--seconds` bounds the time in which the questions of the seed are asked, `--build-seconds` that of building the two.
 *
 * First everything is asked while nothing is written; then whole watches run under random writes, with definitions changing
 * between and under them, and questions are asked of what the definitions have become. Ends with `N passed, N failed`; what
 * may differ stands in exceptions.ts, what is still to be mended in known-differences.ts. It needs Go, and is skipped with a line that says why
 * where the two programs cannot be built.
 */
import { parseArgs } from 'node:util'
import type { Test } from 'tap'
import { buildGoProgram, NoProgramError } from '../support/go-program.js'
import { buildEtcd } from '../etcd/versions.js'
import { apiServer } from './programs.js'

interface Settings {
  readonly seed: number
  readonly questions: number
  /** For the questions of the seed. */
  readonly seconds: number
  /** For both programs, where they are not in the cache. */
  readonly buildSeconds: number
  readonly isRecording: boolean
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      questions: { type: 'string', default: '8500' },
      seconds: { type: 'string', default: '3600' },
      'build-seconds': { type: 'string', default: '1800' },
      record: { type: 'boolean', default: false },
    },
  })
  const settings = {
    seed: numberOf('--seed', values.seed),
    questions: numberOf('--questions', values.questions),
    seconds: numberOf('--seconds', values.seconds),
    buildSeconds: numberOf('--build-seconds', values['build-seconds']),
    isRecording: values.record,
  }
  const path = buildBoth(settings.buildSeconds)
  if (path === null) {
    process.stdout.write('0 passed, 0 failed\n')
    return 0
  }
  const teardowns: (() => unknown)[] = []
  // All that the processes want of a test is to be told when it ends.
  const t = { teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test
  try {
    return await compareBoth(t, path, settings)
  } finally {
    for (const done of teardowns.reverse()) await done()
  }
}

/** @throws Error when it is none. */
function numberOf(option: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`${option} is a whole number, not ${JSON.stringify(text)}`)
  return Number(text)
}

/** The API server's path; null, with a line that says why, where the two cannot be had. */
function buildBoth(seconds: number): string | null {
  const deadlineMs = performance.now() + seconds * 1_000
  try {
    // Read by the module that starts etcd, when it is loaded: hence the imports below.
    process.env['ETCD_BIN'] = buildEtcd('3.7', deadlineMs)
    return buildGoProgram(apiServer, deadlineMs)
  } catch (error) {
    if (!(error instanceof NoProgramError)) throw error
    process.stdout.write(`skipped: the comparison with the API server, since ${error.message}\n`)
    return null
  }
}

async function compareBoth(t: Test, path: string, settings: Settings): Promise<number> {
  const { seed, questions, seconds, isRecording } = settings
  const { startEtcd } = await import('../support/etcd-process.js')
  const { startWorld } = await import('./world.js')
  const { record } = await import('./recording.js')
  const { Comparison } = await import('./comparison.js')
  const world = await startWorld(t, await startEtcd(t), path)
  if (isRecording) {
    await record(world, seed)
    return 0
  }
  const comparison = new Comparison(world, seed)
  try {
    await comparison.run(questions, seconds * 1_000)
  } catch (error) {
    // The findings up to here are worth reading all the same.
    comparison.report.abort(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
  comparison.report.print((line) => process.stdout.write(`${line}\n`))
  return comparison.report.failed === 0 ? 0 : 1
}

process.exitCode = await main()
