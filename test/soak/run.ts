/**
 * `npm run judge -- soak --minutes 20 [--seed N] [--members 1|3] [--watchers 100] [--fuzz | --survival | --fleet | --whole
 * [--only FAULT] [--previous FILE] | --days 14]`: runs random schedules of faults, one scenario after another, and prints the results as
 * numbers. Exits with 1 if we broke a guarantee. `--fleet`: over four replicas, three nats-servers and a proxy on every
 * link between them. `--whole`: over five processes of `main` with all built-in resources. Every resource must have a
 * publisher within 20 s of a single fault, or 40 s of a NATS server's, and no watch may have to start over. `--fuzz`: instead of faults, one
 * server under mutated connections on all its ports, beside honest clients; `--memory`: its memory target in MiB; `--rate`: the most connections per second.
 * `--days`: instead of faults, a server lives through as many intervals as that many days have (`time-lapse.ts`); 14
 * take 20 minutes, five days of warm-up included.
 * `--survival`: requests in every state of their bodies, and configuration files with garbage.
 * `--only`: with `--whole`, the one fault that is injected, by its name in `test/fleet/whole-schedule.ts`.
 * `--previous`: with `--whole`, the compiled `main.js` of another release, which replicas run at random. Ages are not
 * judged then: an older release may not report them, nor can a replica that follows it. One from before NATS 2.12 was
 * supported cannot open object stores there: it needs older servers (`NATS_BIN`).
 *
 * Each round has its own seed, which is printed, and is judged at its end, so memory does not grow over hours. A
 * violation counts as ours if a client of the server saw it, and as etcd's if a plain watch of etcd saw it, directly or
 * through the same broken network. The responses to the writers show what etcd has committed.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect, parseArgs } from 'node:util'
import { FleetSchedule } from '../fleet/fleet-schedule.js'
import { type FleetScenario, startFleet } from '../fleet/fleet-scenario.js'
import { widgets } from '../fleet/fleet-resources.js'
import { WholeSchedule } from '../fleet/whole-schedule.js'
import { Schedule } from '../fault/schedule.js'
import { startScenario } from '../fault/scenario.js'
import { liveThrough } from './time-lapse.js'
import { fuzz, type FuzzOptions } from '../security/support/fuzz.js'
import { survive } from '../security/support/survival.js'
import type { Violation } from '../guarantees/violation.js'
import { sourcesOf } from '../support/imports.js'
import { provideRequirements } from '../support/requirements.js'
import { runMain } from '../support/run-main.js'
import { fail, print } from '../support/verdict.js'
import { withTeardown } from '../support/with-teardown.js'

const ROUND_MS = 40_000
/** A whole fleet takes a while to start, and each fault takes longer there. */
const WHOLE_ROUND_MS = 75_000
/** More failures than this have another cause than the injected fault: a program is missing, or the machine is full. */
const MAX_FAILED_IN_A_ROW = 3

interface Totals {
  rounds: number
  written: number
  deliveries: number
  watches: number
  lists: number
  faults: number
  ours: number
  /**
   * Violations by etcd: seen by a direct watch, by a watch through the same faults, and by our clients because of them.
   */
  straight: number
  besideUs: number
  throughUs: number
  relists: number
  /** Cache checks that matched etcd at the end of a round. */
  checks: number
  unexpected: number
  failed: number
  /** Faults after which a resource had no publisher for too long. */
  late: number
  natsRestarts: number
  /** The longest time that a resource had no publisher after a single fault. */
  unpublishedMs: number
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '20' },
      seed: { type: 'string' },
      members: { type: 'string' },
      watchers: { type: 'string', default: '100' },
      fleet: { type: 'boolean', default: false },
      fuzz: { type: 'boolean', default: false },
      survival: { type: 'boolean', default: false },
      memory: { type: 'string', default: '512' },
      rate: { type: 'string' },
      whole: { type: 'boolean', default: false },
      previous: { type: 'string' },
      only: { type: 'string' },
      days: { type: 'string' },
    },
  })
  if (values.days !== undefined) return await timeLapse(Number(values.days))
  const end = Date.now() + Number(values.minutes) * 60_000
  const totals: Totals = {
    rounds: 0,
    written: 0,
    deliveries: 0,
    watches: 0,
    lists: 0,
    faults: 0,
    ours: 0,
    straight: 0,
    besideUs: 0,
    throughUs: 0,
    relists: 0,
    checks: 0,
    unexpected: 0,
    failed: 0,
    late: 0,
    natsRestarts: 0,
    unpublishedMs: 0,
  }
  const first = Number(values.seed ?? Date.now() % 1_000_000)
  if (values.fuzz) {
    const rate = values.rate === undefined ? {} : { rate: Number(values.rate) }
    return await fuzzRound(first, end, { memoryTargetMiB: Number(values.memory), ...rate })
  }
  if (values.survival) return await survivalRound(first, end)
  let failedInARow = 0
  do {
    const seed = first + totals.rounds
    const members = values.members === undefined ? (seed % 3 === 0 ? 3 : 1) : values.members === '3' ? 3 : 1
    const roundMs = values.whole ? WHOLE_ROUND_MS : ROUND_MS
    const durationMs = Math.max(5_000, Math.min(roundMs, end - Date.now()))
    try {
      const watchers = Number(values.watchers)
      const { previous, only } = values
      if (values.whole) {
        await wholeRound(totals, { seed, watchers, durationMs, ...(previous && { previous }), ...(only && { only }) })
      } else if (values.fleet) await fleetRound(totals, { seed, watchers, durationMs })
      else await round(totals, { seed, members, watchers, durationMs })
      failedInARow = 0
    } catch (error) {
      totals.failed++
      failedInARow++
      print(`seed ${seed}: the round failed: ${inspect(error)}`)
    }
    totals.rounds++
  } while (Date.now() < end && failedInARow < MAX_FAILED_IN_A_ROW)
  const peak = Math.round(process.resourceUsage().maxRSS / 1024)
  print(
    [
      `soak: ${totals.rounds} rounds, seeds ${first} to ${first + totals.rounds - 1}`,
      `events written        ${totals.written}`,
      `deliveries checked    ${totals.deliveries} in ${totals.watches} watches, and ${totals.lists} lists`,
      `faults injected       ${totals.faults}`,
      `violations by us      ${totals.ours}`,
      `violations by etcd    ${totals.straight} seen by a watch straight on it, ${totals.besideUs} by one through the same faults`,
      `  passed on by us     ${totals.throughUs}`,
      `checks at the end     ${totals.checks} equal of ${totals.rounds}`,
      `unexpected answers    ${totals.unexpected}`,
      `rounds that failed    ${totals.failed}`,
      `relists               ${totals.relists}`,
      ...(values.whole
        ? [
            `longest unpublished   ${totals.unpublishedMs} ms after a single fault, ${totals.late} times for too long`,
            `NATS not recovered    ${totals.natsRestarts} times a minute after a fault: its servers were restarted`,
          ]
        : []),
      `peak memory           ${peak} MiB, server and clients together`,
    ].join('\n'),
  )
  const relists = values.whole ? totals.relists : 0
  const { ours, unexpected, failed, late, rounds, checks } = totals
  return ours + unexpected + failed + late + relists + (rounds - checks) === 0 ? 0 : 1
}

async function fuzzRound(
  seed: number,
  end: number,
  options: Pick<FuzzOptions, 'memoryTargetMiB' | 'rate'>,
): Promise<number> {
  let wrong = 1
  await withTeardown(async (t) => {
    const { connections, answers, problems, peakMiB } = await fuzz(t, {
      seed,
      isEnough: () => Date.now() >= end,
      settles: true,
      ...options,
      onProgress: print,
    })
    const codes = [...answers].sort(([a], [b]) => a - b).map(([code, times]) => `${code} ×${times}`)
    print(`seed ${seed}: ${connections} connections, ${codes.join(', ')}; ${peakMiB} MiB at the most`)
    for (const problem of problems.slice(0, 50)) print(`  ${problem}`)
    wrong = problems.length
  })
  return wrong === 0 ? 0 : 1
}

/** A day takes as long as fourteen do in 15 minutes. */
const MINUTES_PER_DAY = 15 / 14

async function timeLapse(days: number): Promise<number> {
  const lack = provideRequirements(sourcesOf(['test/soak/time-lapse.ts']))
  if (lack !== null) return fail(lack)
  let problems: readonly string[] = []
  await withTeardown(async (t) => {
    problems = await liveThrough(t, { days, minutes: days * MINUTES_PER_DAY, onProgress: print })
  })
  for (const problem of problems.slice(0, 50)) print(`  ${problem}`)
  print(`${days} days: ${problems.length} problems`)
  return problems.length === 0 ? 0 : 1
}

async function survivalRound(seed: number, end: number): Promise<number> {
  let wrong = 1
  await withTeardown(async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'distributary-survival-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const { cases, problems } = await survive(t, folder, { seed, isEnough: () => Date.now() >= end })
    print(`seed ${seed}: ${cases} cases, ${problems.length} problems`)
    for (const problem of problems.slice(0, 50)) print(`  ${problem}`)
    wrong = problems.length
  })
  return wrong === 0 ? 0 : 1
}

interface RoundOptions {
  readonly seed: number
  readonly members: 1 | 3
  readonly watchers: number
  readonly durationMs: number
}

async function round(totals: Totals, { seed, members, watchers, durationMs }: RoundOptions): Promise<void> {
  await withTeardown(async (t) => {
    const config = { watchCacheBytes: 300_000 }
    const s = await startScenario(t, { seed, members, hasPeerNetwork: members === 3, hasControlBesideUs: true, config })
    const schedule = new Schedule(s, { watchersAtOnce: watchers })
    await schedule.run(durationMs)
    const { reference, history, ours, throughUs, straight, besideUs } = await s.verdict(await schedule.settle())
    // An armed cut may still happen: check again.
    let check = await s.h.app.checkConsistency()
    if (check.outcome === 'incomplete') check = await s.h.app.checkConsistency()
    if (check.outcome === 'equal') totals.checks++
    else print(`  the check at the end: ${JSON.stringify(check)}`)
    const deliveries = history.watches.reduce((sum, { items }) => sum + items.length, 0)
    totals.written += reference.batches.reduce((sum, { changes }) => sum + changes.length, 0)
    totals.deliveries += deliveries
    totals.watches += history.watches.length
    totals.lists += history.lists.length
    totals.faults += schedule.faults
    totals.ours += ours.length
    totals.straight += straight.length
    totals.besideUs += besideUs.length
    totals.throughUs += throughUs.length
    totals.unexpected += schedule.unexpected.length
    totals.relists += await s.relists()
    print(
      `seed ${seed}, ${members} member(s): ${deliveries} deliveries, ${schedule.faults} faults, ${ours.length} violations`,
    )
    for (const { name, message } of ours.slice(0, 10)) print(`  ${name}: ${message}`)
    for (const { name, message } of [...straight, ...besideUs].slice(0, 3))
      print(`  etcd itself is ${name}: ${message}`)
    for (const { name, message } of throughUs.slice(0, 3)) print(`  passed on: ${name}: ${message}`)
    for (const answer of schedule.unexpected.slice(0, 3)) print(`  unexpected: ${answer}`)
  })
}

type FleetRound = Pick<RoundOptions, 'seed' | 'watchers' | 'durationMs'>

async function fleetRound(totals: Totals, { seed, watchers, durationMs }: FleetRound): Promise<void> {
  await withTeardown(async (t) => {
    const s = await startFleet(t, { seed, watchers })
    const schedule = new FleetSchedule(s)
    await schedule.run(durationMs)
    await judge(totals, s, { seed, faults: schedule.faults, isJudged: () => true })
  })
}

async function wholeRound(
  totals: Totals,
  { durationMs, only, ...options }: FleetRound & { readonly previous?: string; readonly only?: string },
): Promise<void> {
  await withTeardown(async (t) => {
    const s = await startFleet(t, { ...options, isWhole: true })
    const schedule = new WholeSchedule(s, only)
    try {
      await schedule.run(durationMs)
    } catch (error) {
      print(`seed ${options.seed}: ${timed(schedule).join()}`)
      throw error
    }
    totals.late += schedule.late.length
    totals.natsRestarts += s.natsRestarts
    for (const { publishedAfterMs } of schedule.faults) {
      totals.unpublishedMs = Math.max(totals.unpublishedMs, publishedAfterMs ?? 0)
    }
    const faults = timed(schedule)
    const isJudged = ({ guarantee }: Violation): boolean => options.previous === undefined || guarantee !== 'aged'
    await judge(totals, s, { seed: options.seed, faults, isJudged })
  })
}

/**
 * Each fault, with the time until every resource had a publisher again, and the resources that had none for too long.
 */
function timed({ faults }: WholeSchedule): string[] {
  return faults.map(({ fault, publishedAfterMs, missing }) => {
    const without = missing.length === 0 ? '' : `, ${missing.join(' ')}`
    return publishedAfterMs === null ? fault : `${fault} (${publishedAfterMs} ms${without})`
  })
}

/** Log lines of replicas about streams that they could not follow: they then load snapshots, and watches expire. */
function brokenChains({ replicas }: FleetScenario): string[] {
  const said = /rereading the stream|the chain is broken|"snapshot loaded"/
  return replicas.flatMap(({ name, server }) =>
    server
      .log()
      .split('\n')
      .filter((line) => said.test(line) && !line.includes('"reason":"initial"'))
      .map((line) => `${name}: ${line}`),
  )
}

interface Judged {
  readonly seed: number
  readonly faults: readonly string[]
  readonly isJudged: (violation: Violation) => boolean
}

async function judge(totals: Totals, s: FleetScenario, { seed, faults, isJudged }: Judged): Promise<void> {
  const last = await s.settle()
  if ((await s.checkConsistency()).every((outcome) => outcome === 'equal')) totals.checks++
  const violations = (await s.violations(last)).filter(isJudged)
  const history = s.history()
  const deliveries = history.watches.reduce((sum, { items }) => sum + items.length, 0)
  // No watch can resume from before the deletion of its definition.
  const relists = history.watches.filter(({ code, scope }) => code === 410 && scope.prefix !== widgets.target.prefix)
  totals.written += s.writer.writes.length
  totals.deliveries += deliveries
  totals.watches += history.watches.length
  totals.lists += history.lists.length
  totals.faults += faults.length
  totals.ours += violations.length
  totals.unexpected += s.unexpected.length
  totals.relists += relists.length
  print(
    `seed ${seed}: ${deliveries} deliveries, ${violations.length} violations, ${relists.length} relists, ${faults.join(', ')}`,
  )
  for (const { name, message } of violations.slice(0, 10)) print(`  ${name}: ${message}`)
  for (const { name, scope } of relists.slice(0, 3)) print(`  relist: ${name} of ${scope.prefix}`)
  if (relists.length > 0) for (const line of brokenChains(s)) print(`  ${line}`)
  for (const answer of s.unexpected.slice(0, 3)) print(`  unexpected: ${answer}`)
}

// Everything that a round started ends with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
await runMain(import.meta.url, main)
