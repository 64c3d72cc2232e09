const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/**
 * Reads a duration in Go's format (`90s`, `1h30m`, `250ms`); a bare number means seconds, as in kube-apiserver's
 * `--min-request-timeout`. @returns milliseconds; null for anything else.
 */
export function parseDuration(text: string): number | null {
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000
  if (!/^(\d{1,9}(\.\d{1,3})?(ms|s|m|h))+$/.test(text)) return null
  let sum = 0
  for (const [, number, unit] of text.matchAll(/([\d.]+)(ms|s|m|h)/g)) sum += Number(number) * UNITS[unit!]!
  return Math.round(sum)
}
