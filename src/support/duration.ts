/** Reads durations in Go's format: `90s`, `1h30m`, `250ms`. */

const NANOSECONDS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
}
/** The longest duration in nanoseconds, about 290 years. */
const MAX_NANOSECONDS = 2 ** 63

/** Returns nanoseconds, or why Go's `time.ParseDuration` rejects the text. */
export function goDuration(text: string): number | string {
  const invalid = `time: invalid duration ${JSON.stringify(text)}`
  let rest = text.replace(/^[-+]/, '')
  if (rest === '0') return 0
  if (rest === '') return invalid
  let total = 0
  while (rest !== '') {
    const [, number, unit = ''] = /^(\d+\.?\d*|\.\d+)([^.\d]*)/.exec(rest) ?? []
    if (number === undefined) return invalid
    if (unit === '') return `time: missing unit in duration ${JSON.stringify(text)}`
    if (!Object.hasOwn(NANOSECONDS, unit))
      return `time: unknown unit ${JSON.stringify(unit)} in duration ${JSON.stringify(text)}`
    total += Number(number) * NANOSECONDS[unit]!
    if (total >= MAX_NANOSECONDS) return invalid
    rest = rest.slice(number.length + unit.length)
  }
  return text.startsWith('-') ? -total : total
}

/**
 * Parses a duration. A bare number means seconds, as in kube-apiserver's `--min-request-timeout`.
 * @returns milliseconds; null for anything else.
 */
export function parseDuration(text: string): number | null {
  const nanoseconds = goDuration(/^\d{1,9}$/.test(text) ? `${text}s` : text)
  return typeof nanoseconds === 'string' || /^[-+]/.test(text) ? null : Math.round(nanoseconds / 1e6)
}
