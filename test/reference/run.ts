/**
 * `npm run test:reference -- [--seed N] [--questions 9000] [--record]`: distributary beside the API server over one etcd.
 *
 * First everything is asked while nothing is written; then whole watches run under random writes, with definitions changing
 * between and under them, and questions are asked of what the definitions have become. Ends with `N passed, N failed`; what
 * may differ stands in exceptions.ts, what is still to be mended in known-differences.ts. It needs Go.
 */
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Test } from 'tap'
import { buildEtcd } from '../etcd/versions.js'
import { buildGoProgram } from '../support/go-program.js'

interface Settings {
  readonly seed: number
  readonly questions: number
  readonly isRecording: boolean
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string', default: '1' },
      questions: { type: 'string', default: '8500' },
      record: { type: 'boolean', default: false },
    },
  })
  const settings = { seed: Number(values.seed), questions: Number(values.questions), isRecording: values.record }
  const source = fileURLToPath(new URL('../../../test/reference/apiserver', import.meta.url))
  const apiServer = buildGoProgram(source, { cache: 'reference' })
  // Read by the module that starts etcd, when it is loaded: hence the imports below.
  process.env['ETCD_BIN'] = buildEtcd('3.7')
  const teardowns: (() => unknown)[] = []
  // All that the processes want of a test is to be told when it ends.
  const t = { teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test
  try {
    return await compareBoth(t, apiServer, settings)
  } finally {
    for (const done of teardowns.reverse()) await done()
  }
}

async function compareBoth(t: Test, apiServer: string, { seed, questions, isRecording }: Settings): Promise<number> {
  const { startEtcd } = await import('../support/etcd-process.js')
  const { startWorld } = await import('./world.js')
  const { record } = await import('./recording.js')
  const { Comparison } = await import('./comparison.js')
  const world = await startWorld(t, await startEtcd(t), apiServer)
  if (isRecording) {
    await record(world, seed)
    return 0
  }
  const comparison = new Comparison(world, seed)
  try {
    await comparison.run(questions)
  } catch (error) {
    // What has been found up to here is worth reading all the same.
    comparison.report.abort(error instanceof Error ? (error.stack ?? error.message) : String(error))
  }
  comparison.report.print((line) => process.stdout.write(`${line}\n`))
  return comparison.report.failed === 0 ? 0 : 1
}

process.exitCode = await main()
