/**
 * Question: what does a delivery cost with two workers, compared with one? The load generator shares the workers'
 * cores, so the bench compares the CPU time per delivery, summed over all processes. The figures are medians of
 * alternating rounds.
 */
import { attempt, type Choice, type Question, type Target, targets } from './support/choice.js'
import { measureStretch, stretchColumns } from './support/measure.js'
import { withScene } from './support/scene.js'

const ROUNDS = 3

export const workers: Question = async (choice) => {
  for (const target of targets(choice, ['distributary/http1'])) {
    const row = { question: 'workers', subject: target.kind.name, wire: target.wire }
    await attempt(choice, row, async () => {
      const rounds = choice.quick ? 1 : ROUNDS
      const stretches: Record<number, Record<string, unknown>[]> = { 1: [], 2: [] }
      for (let round = 0; round < rounds; round++) {
        for (const count of [1, 2]) stretches[count]!.push(await one(choice, target, count))
      }
      const cpu = (count: number): number =>
        median(stretches[count]!.map((columns) => 1e6 / Number(columns['deliveriesPerCpuSecond'])))
      for (const count of [1, 2]) {
        choice.recorder.row({
          ...row,
          workers: count,
          rounds,
          ...stretches[count]!.at(-1),
          cpuMicrosPerDelivery: cpu(count),
          ofOneWorker: cpu(count) / cpu(1),
        })
      }
    })
  }
}

async function one(choice: Choice, target: Target, count: number): Promise<ReturnType<typeof stretchColumns>> {
  const seconds = choice.seconds ?? (choice.quick ? 2 : 10)
  const rate = choice.rates[0] ?? 20
  const watchers = choice.watchers[0] ?? (choice.quick ? 50 : 1_000)
  const objects = { count: 100, nodes: 100, bytes: 1024 }
  const serverFlags = [...choice.serverFlags, `--workers=${count}`]
  return withScene(
    { ...choice, ...target, serverFlags, watchers, objects },
    async ({ subject, source, openWatchers }) => {
      const opened = await openWatchers()
      const warm = await source.run({ rate, count: 1e9, ms: choice.quick ? 500 : 2_000 })
      await opened.caughtUp(warm.next, 60_000)
      const run = { rate, count: 1e9, ms: seconds * 1000, watchers: opened.count }
      return stretchColumns(await measureStretch({ subject, source, watchers: opened, run }))
    },
  )
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}
