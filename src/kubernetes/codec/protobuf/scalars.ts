/**
 * Formats numbers from the wire as in Kubernetes' JSON: times as RFC 3339 in UTC, durations in Go's notation,
 * doubles. The output equals that of Go's `Time.Format`, `Duration.String` and `encoding/json`.
 */
import { CodecError } from './codec-error.js'

const SECONDS_PER_DAY = 86_400
/** Go's zero time, 0001-01-01T00:00:00Z, which its JSON form shows as null. */
export const ZERO_TIME_SECONDS = -62_135_596_800

/**
 * Returns a time such as `2006-01-02T15:04:05Z`. The calendar is plain arithmetic, because a Date per field costs more
 * than the rest of the field.
 */
export function formatTime(unixSeconds: number): string {
  if (!Number.isSafeInteger(unixSeconds)) throw new CodecError('malformed', `${unixSeconds} s is not a time`)
  const days = Math.floor(unixSeconds / SECONDS_PER_DAY)
  const second = unixSeconds - days * SECONDS_PER_DAY
  return `${formatDate(days)}T${two(Math.floor(second / 3600))}:${two(Math.floor(second / 60) % 60)}:${two(second % 60)}Z`
}

/** Always writes six digits, as meta/v1 MicroTime does; the rest of the nanoseconds is cut off. */
export function formatMicroTime(unixSeconds: number, nanos: number): string {
  // Nanoseconds out of range carry over, as in Go's time.Unix.
  const carry = Math.floor(nanos / 1e9)
  const micros = Math.floor((nanos - carry * 1e9) / 1e3)
  const whole = formatTime(unixSeconds + carry)
  return `${whole.slice(0, -1)}.${String(micros).padStart(6, '0')}Z`
}

/**
 * Turns days since 1970-01-01 into year-month-day of the proleptic Gregorian calendar. Years start on March 1st, so
 * that the leap day is the last of its year, and are grouped into eras of 400 years = 146,097 days.
 */
function formatDate(days: number): string {
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const dayOfEra = shifted - era * 146_097
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  )
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100))
  const monthFromMarch = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * monthFromMarch + 2) / 5) + 1
  const month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
  const year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  const yearText = year < 0 ? `-${String(-year).padStart(4, '0')}` : String(year).padStart(4, '0')
  return `${yearText}-${two(month)}-${two(day)}`
}

function two(value: number): string {
  return value < 10 ? `0${value}` : String(value)
}

/** Writes nanoseconds as `1h2m3.5s`, `1.5ms`, `0s`. */
export function formatDuration(nanoseconds: bigint): string {
  if (nanoseconds === 0n) return '0s'
  const sign = nanoseconds < 0n ? '-' : ''
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds
  if (size < 1_000n) return `${sign}${size}ns`
  if (size < 1_000_000n) return `${sign}${fraction(size, 1_000n)}µs`
  if (size < 1_000_000_000n) return `${sign}${fraction(size, 1_000_000n)}ms`
  const minutes = size / 60_000_000_000n
  const seconds = `${fraction(size % 60_000_000_000n, 1_000_000_000n)}s`
  if (minutes === 0n) return `${sign}${seconds}`
  if (minutes < 60n) return `${sign}${minutes}m${seconds}`
  return `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`
}

function fraction(value: bigint, unit: bigint): string {
  const digits = String(unit).length - 1
  const rest = String(value % unit)
    .padStart(digits, '0')
    .replace(/0+$/, '')
  return rest === '' ? String(value / unit) : `${value / unit}.${rest}`
}

/** @throws CodecError for NaN and the infinities, which JSON does not have. */
export function formatDouble(value: number): string {
  if (!Number.isFinite(value)) throw new CodecError('malformed', `JSON has no number for ${value}`)
  return Object.is(value, -0) ? '-0' : String(value)
}

/** Returns the shortest text that converts back to this 32-bit float. */
export function formatFloat(value: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const text = Number(value.toPrecision(digits))
    if (Math.fround(text) === value) return formatDouble(text)
  }
  return formatDouble(value)
}
