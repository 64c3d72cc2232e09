/** Runs mutated connections against a server that honest clients use at the same time. */
import type { Test } from 'tap'
import { seededRandom } from '../../../src/support/random.js'
import { fuzzedConnection, run } from './fuzzed-connections.js'
import { statuses } from './raw.js'
import { BAIT, HonestClients, LOOT, TOKENS, pause, setStage } from './stage.js'

const MiB = 2 ** 20
const MEMORY_TARGET_MIB = 512
/** The share by which memory may exceed its target for a moment. */
const MEMORY_SLACK = 1.15
/** Connections at a time. */
const LANES = 40
/** The server takes longer than a minute to find out that a peer with open requests has gone. */
const SETTLED_MS = 240_000

export interface FuzzOptions {
  readonly seed: number
  /** Whether the run may end after this many connections. */
  readonly isEnough: (connections: number) => boolean
  /** The server's memory target. Default: 512. */
  readonly memoryTargetMiB?: number
  /** The most connections per second. Default: as many as the machine allows. */
  readonly rate?: number
  /** Whether to wait until the server has let go of every connection, which takes minutes. Default: false. */
  readonly settles?: boolean
  /** Called from time to time. */
  readonly onProgress?: (line: string) => void
}

export interface FuzzReport {
  readonly connections: number
  /** The responses by their status. */
  readonly answers: ReadonlyMap<number, number>
  /** Everything that should not have happened; empty when all is well. */
  readonly problems: readonly string[]
  readonly peakMiB: number
}

function countsOf(texts: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1)
  return counts
}

export async function fuzz(t: Pick<Test, 'teardown'>, options: FuzzOptions): Promise<FuzzReport> {
  const { seed, isEnough, settles = false, memoryTargetMiB = MEMORY_TARGET_MIB, rate, onProgress = () => {} } = options
  const stage = await setStage(t as Test, ['--memory-target', String(memoryTargetMiB * MiB)])
  const { server } = stage
  const honest = new HonestClients(stage, 2)
  await pause(500)
  const descriptors = stage.descriptors()
  const random = seededRandom(seed)
  const problems: string[] = []
  const answers = new Map<number, number>()
  let begun = 0
  let hasEnded = false
  void server.exited.then(() => (hasEnded = true))
  const lane = async (): Promise<void> => {
    while (!isEnough(begun) && !hasEnded) {
      const number = begun++
      const connection = fuzzedConnection(random)
      const heard = await run(server, connection)
      for (const code of statuses(heard)) {
        answers.set(code, (answers.get(code) ?? 0) + 1)
        if (code === 500) problems.push(`connection ${number}: ${heard.text.slice(0, 500)}`)
      }
      for (const secret of [LOOT, BAIT, TOKENS.admin, TOKENS.honest]) {
        if (heard.bytes.includes(secret)) problems.push(`connection ${number} received ${secret}`)
      }
      if (number % 5_000 === 4_999) {
        const { lists, events } = honest.take()
        onProgress(
          `${number + 1} connections, ${stage.descriptors()} open files, ${Math.round(server.memory().now / MiB)} MiB, lists ${lists}, events ${events}, ${honest.problems.length} problems`,
        )
      }
      if (rate !== undefined) await pause((LANES / rate) * 1_000)
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  if (hasEnded) {
    const code = await server.exited
    await honest.stop(0)
    const problem = `the server has ended with ${code}: ${server.log().slice(-4_000)}`
    return { connections: begun, answers, problems: [problem], peakMiB: 0 }
  }
  await honest.stop()
  for (const [problem, times] of countsOf(honest.problems)) problems.push(`${times} × ${problem}`)
  const { peak } = server.memory()
  if (peak > memoryTargetMiB * MiB * MEMORY_SLACK) problems.push(`${Math.round(peak / MiB)} MiB at the most`)
  if (settles) {
    const end = performance.now() + SETTLED_MS
    while (stage.descriptors() > descriptors && performance.now() < end) await pause(50)
    const open = stage.descriptors() - descriptors
    if (open > 0) problems.push(`${open} connections were never closed`)
  }
  problems.push(
    ...server
      .log()
      .split('\n')
      .filter((line) => /"level":(50|60)/.test(line)),
  )
  const code = await server.kill('SIGTERM')
  if (code !== 0) problems.push(`it exits with ${code}`)
  return { connections: begun, answers, problems, peakMiB: Math.round(peak / MiB) }
}
