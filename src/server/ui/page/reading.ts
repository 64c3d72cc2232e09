/** What the page computes from the figures of `/ui/events`: rates, delays, the age of the data. */
import type { Delays, ServerStatus } from './figures.js'

export interface Reading {
  readonly status: ServerStatus
  readonly atMs: number
  readonly rates: Rates
  /** The 99th percentile of the delays of the last second; null if there was no event. */
  readonly delayMs: number | null
}

export const NO_RATES: Rates = { in: 0, out: 0, outByPid: new Map() }

interface Rates {
  readonly in: number
  readonly out: number
  readonly outByPid: ReadonlyMap<number, number>
}

/**
 * Returns the rates of events per second. Each process has its own counters, and a process that has restarted has no
 * rate yet. All processes receive the same events, so the highest rate of incoming events is the server's rate.
 */
export function ratesBetween(before: ServerStatus, after: ServerStatus, seconds: number): Rates {
  const old = new Map(before.processes.map((one) => [one.pid, one]))
  const outByPid = new Map<number, number>()
  let mostIn = 0
  for (const { pid, takenEvents, sentEvents } of after.processes) {
    const then = old.get(pid)
    if (then === undefined || takenEvents === null || then.takenEvents === null || seconds <= 0) continue
    outByPid.set(pid, Math.max(0, sentEvents - then.sentEvents) / seconds)
    mostIn = Math.max(mostIn, (takenEvents - then.takenEvents) / seconds)
  }
  return { in: mostIn, out: [...outByPid.values()].reduce((sum, n) => sum + n, 0), outByPid }
}

/**
 * Returns the age of the data. It is the best sign that the upstream is unreachable, because a feed goes through many
 * states between two attempts.
 */
export function awaySeconds({ resources }: ServerStatus): number {
  return Math.max(0, ...resources.map(({ stalenessSeconds }) => stalenessSeconds))
}

/** The number of watchers over all transports and states. */
export function countWatchers({ watchers }: ServerStatus): number {
  return Object.values(watchers).reduce((sum, n) => sum + n, 0)
}

/**
 * Returns a quantile between two readings of a cumulative histogram, as the upper bound of its bucket in milliseconds;
 * null if there was no event.
 */
export function quantile(before: Delays, after: Delays, q: number): number | null {
  const old = new Map(before)
  const counts = after.map(([bound, count]) => [bound, count - (old.get(bound) ?? 0)] as const)
  const total = counts.at(-1)?.[1] ?? 0
  if (total <= 0) return null
  return (counts.find(([, count]) => count >= q * total)?.[0] ?? Number.NaN) * 1000
}
