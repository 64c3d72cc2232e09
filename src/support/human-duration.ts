/**
 * Formats ages as kubectl does, with at most two units, and only one for some greater ages.
 *
 * Source: `HumanDuration` of k8s.io/apimachinery, which has the same steps.
 */
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/**
 * Returns `45s`, `3m29s`, `5h`, `5d3h`, `2y10d`. Because clocks differ, a time up to one second in the future gives
 * `0s`. A later time gives `<invalid>`.
 */
export function humanDuration(durationMs: number): string {
  const seconds = Math.trunc(durationMs / SECOND)
  if (seconds < -1) return '<invalid>'
  if (seconds < 0) return '0s'
  if (seconds < 120) return `${seconds}s`
  const minutes = Math.trunc(durationMs / MINUTE)
  if (minutes < 10) return pair(minutes, 'm', seconds % 60, 's')
  if (minutes < 180) return `${minutes}m`
  const hours = Math.trunc(durationMs / HOUR)
  if (hours < 8) return pair(hours, 'h', minutes % 60, 'm')
  if (hours < 48) return `${hours}h`
  const days = Math.trunc(hours / 24)
  if (hours < 24 * 8) return pair(days, 'd', hours % 24, 'h')
  if (hours < 24 * 365 * 2) return `${days}d`
  const years = Math.trunc(days / 365)
  if (hours < 24 * 365 * 8) return pair(years, 'y', days % 365, 'd')
  return `${years}y`
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`
}

/** Returns the age of an RFC 3339 time: `<unknown>` when it is absent, `<invalid>` when it is not a time. */
export function ageOf(timestamp: unknown, nowMs: number): string {
  if (timestamp === undefined || timestamp === null || timestamp === '') return '<unknown>'
  const then = timeOf(timestamp)
  return Number.isNaN(then) ? '<invalid>' : humanDuration(nowMs - then)
}

/**
 * Returns milliseconds since the epoch, or NaN for anything but an RFC 3339 time. Date.parse alone would also accept
 * `2026`.
 */
export function timeOf(timestamp: unknown): number {
  return typeof timestamp === 'string' && /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d/.test(timestamp)
    ? Date.parse(timestamp)
    : Number.NaN
}
