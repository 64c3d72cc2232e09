/**
 * Summarizes the rounds of `bench agents`: the median of each subject, and of its ratio to the API server's in the same
 * round.
 */
import type { Shape } from './agents.js'
import type { Row } from './record.js'

export interface AgentsSummary {
  readonly agents: number
  readonly shape: Shape
  /** `distributary` or `apiserver`. */
  readonly subject: string
  readonly runtime: string
  readonly rounds: number
  readonly failed: number
  readonly cpuMicrosPerDelivery: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly residentMb: number
  /** The number of watches that the server ended, over all rounds. */
  readonly ended: number
  readonly deliveriesPerSecond: number
  readonly deliveriesPerWrite: number
  readonly clientCores: number
  /** The ratios to the API server's figures; null if it was not measured. */
  readonly ofCpu: Ratios | null
  readonly ofP99: Ratios | null
  readonly ofMemory: Ratios | null
  /** All CPU of an event, in µs, including the baseline. */
  readonly cpuMicrosPerEvent: number
  /** The cost of an event beyond the baseline, in µs; NaN if the baseline was not measured. */
  readonly addedMicrosPerEvent: number
  /** All CPU of ours for an event, against what the agents add to the API server. */
  readonly ofAdded: Ratios | null
}

/** Returns what changed in a row. Earlier rows had one shape, and do not name it. */
export const shapeOf = (row: Row): Shape => (row['shape'] ?? 'mixed') as Shape

export interface Ratios {
  readonly median: number
  readonly least: number
  readonly most: number
}

/** Returns a summary for each number of agents. @param rows the rows of one run. */
export function agentsSummaries(rows: readonly Row[]): AgentsSummary[] {
  const whoOf = (row: Row): string =>
    `${String(row['agents'])} ${shapeOf(row)} ${row.subject} ${String(row['runtime'])}`
  return [...new Set(rows.map(whoOf))].flatMap((who) => {
    const own = rows.filter((row) => whoOf(row) === who)
    const good = own.filter((row) => row['failed'] === undefined)
    const [first] = good
    if (first === undefined) return []
    const peers = rows.filter(
      (row) =>
        row.subject === 'apiserver' &&
        row['agents'] === first['agents'] &&
        shapeOf(row) === shapeOf(first) &&
        row['failed'] === undefined,
    )
    const middle = (name: string): number => median(good.map((row) => Number(row[name])))
    const ratios = (name: string, peerOf = (row: Row) => Number(row[name])): Ratios | null => {
      const all = good.flatMap((row) => {
        const peer = peers.find((one) => one['round'] === row['round'])
        const ratio = peer === undefined || peer === row ? NaN : Number(row[name]) / peerOf(peer)
        return Number.isFinite(ratio) ? [ratio] : []
      })
      return all.length === 0 ? null : { median: median(all), least: Math.min(...all), most: Math.max(...all) }
    }
    return [
      {
        agents: Number(first['agents']),
        shape: shapeOf(first),
        subject: first.subject,
        runtime: String(first['runtime']),
        rounds: good.length,
        failed: own.length - good.length,
        cpuMicrosPerDelivery: middle('cpuMicrosPerDelivery'),
        p50Ms: middle('p50Ms'),
        p99Ms: middle('p99Ms'),
        residentMb: middle('residentMb'),
        ended: good.reduce((sum, row) => sum + Number(row['ended']), 0),
        deliveriesPerSecond: middle('deliveriesPerSecond'),
        deliveriesPerWrite: middle('deliveriesPerWrite'),
        clientCores: middle('clientCores'),
        ofCpu: ratios('cpuMicrosPerDelivery'),
        ofP99: ratios('p99Ms'),
        ofMemory: ratios('residentMb'),
        cpuMicrosPerEvent: middle('cpuMicrosPerEvent'),
        addedMicrosPerEvent: median(good.map(addedMicros)),
        ofAdded: ratios('cpuMicrosPerEvent', addedMicros),
      },
    ]
  })
}

const addedMicros = (row: Row): number => Number(row['cpuMicrosPerEvent']) - Number(row['baseMicrosPerEvent'])

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const half = sorted.length / 2
  return sorted.length % 2 === 1 ? sorted[Math.floor(half)]! : (sorted[half - 1]! + sorted[half]!) / 2
}
