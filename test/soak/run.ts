/**
 * `npm run test:soak -- --minutes 20 [--seed N] [--members 1|3] [--watchers 100]`: random schedules of faults, one scenario
 * after the other, and what came of it in numbers. Exit code 1 when a guarantee was broken by us.
 *
 * Each round has a seed of its own, printed with it, and is judged at its end, so that memory does not grow with the hours.
 * Ours are the violations that a client of the server saw; etcd's own are those that a watch straight on etcd saw.
 */
import { parseArgs } from 'node:util'
import type { Test } from 'tap'
import { validate } from '../guarantees/validate.js'
import { Schedule } from '../fault/schedule.js'
import { pods, startScenario } from '../fault/scenario.js'

const ROUND_MS = 40_000

interface Totals {
  rounds: number
  written: number
  deliveries: number
  watches: number
  lists: number
  faults: number
  ours: number
  etcds: number
  relists: number
  unexpected: number
  failed: number
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '20' },
      seed: { type: 'string' },
      members: { type: 'string' },
      watchers: { type: 'string', default: '100' },
    },
  })
  const end = Date.now() + Number(values.minutes) * 60_000
  const totals: Totals = {
    rounds: 0,
    written: 0,
    deliveries: 0,
    watches: 0,
    lists: 0,
    faults: 0,
    ours: 0,
    etcds: 0,
    relists: 0,
    unexpected: 0,
    failed: 0,
  }
  const first = Number(values.seed ?? Date.now() % 1_000_000)
  do {
    const seed = first + totals.rounds
    const members = values.members === undefined ? (seed % 3 === 0 ? 3 : 1) : values.members === '3' ? 3 : 1
    const durationMs = Math.max(5_000, Math.min(ROUND_MS, end - Date.now()))
    try {
      await round(totals, { seed, members, watchers: Number(values.watchers), durationMs })
    } catch (error) {
      totals.failed++
      print(`seed ${seed}: the round failed: ${error instanceof Error ? error.stack : String(error)}`)
    }
    totals.rounds++
  } while (Date.now() < end)
  const peak = Math.round(process.resourceUsage().maxRSS / 1024)
  print(
    [
      `soak: ${totals.rounds} rounds, seeds ${first} to ${first + totals.rounds - 1}`,
      `events written        ${totals.written}`,
      `deliveries checked    ${totals.deliveries} in ${totals.watches} watches, and ${totals.lists} lists`,
      `faults injected       ${totals.faults}`,
      `violations by us      ${totals.ours}`,
      `violations by etcd    ${totals.etcds}`,
      `unexpected answers    ${totals.unexpected}`,
      `rounds that failed    ${totals.failed}`,
      `relists               ${totals.relists}`,
      `peak memory           ${peak} MiB, server and clients together`,
    ].join('\n'),
  )
  return totals.ours + totals.unexpected + totals.failed === 0 ? 0 : 1
}

interface RoundOptions {
  readonly seed: number
  readonly members: 1 | 3
  readonly watchers: number
  readonly durationMs: number
}

async function round(totals: Totals, { seed, members, watchers, durationMs }: RoundOptions): Promise<void> {
  const teardowns: (() => unknown)[] = []
  // All that a scenario wants of a test is to be told when it ends.
  const t = { teardown: (done: () => unknown) => void teardowns.push(done) } as unknown as Test
  try {
    const config = { defaultWatchCacheSize: 400 }
    const s = await startScenario(t, { seed, members, hasPeerNetwork: members === 3, config })
    const schedule = new Schedule(s, { watchersAtOnce: watchers })
    await schedule.run(durationMs)
    const settledRevision = await schedule.settle()
    const reference = await s.control.finish()
    const history = s.recorder.history(s.writer.writes)
    const ours = validate(history, reference, { settledRevision })
    const etcds = validate({ watches: [s.control.control(pods.prefix)], lists: [], writes: [] }, reference)
    const deliveries = history.watches.reduce((sum, { items }) => sum + items.length, 0)
    totals.written += reference.batches.reduce((sum, { changes }) => sum + changes.length, 0)
    totals.deliveries += deliveries
    totals.watches += history.watches.length
    totals.lists += history.lists.length
    totals.faults += schedule.faults
    totals.ours += ours.length
    totals.etcds += etcds.length
    totals.unexpected += schedule.unexpected.length
    totals.relists += await s.relists()
    print(
      `seed ${seed}, ${members} member(s): ${deliveries} deliveries, ${schedule.faults} faults, ${ours.length} violations`,
    )
    for (const { name, message } of ours.slice(0, 10)) print(`  ${name}: ${message}`)
    for (const { name, message } of etcds.slice(0, 3)) print(`  etcd itself is ${name}: ${message}`)
    for (const answer of schedule.unexpected.slice(0, 3)) print(`  unexpected: ${answer}`)
  } finally {
    for (const done of teardowns.reverse()) await done()
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

process.exitCode = await main()
