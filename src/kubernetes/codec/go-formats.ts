/**
 * Reads strings as the API server's decoder reads a quantity, a time or bytes: why it refuses one, and in which form it
 * writes one back. The strings are untrusted, so every expression here takes time linear in their length.
 */
import { goQuantity, isQuantity } from './go-quantity.js'
import { formatMicroTime, formatTime, ZERO_TIME_SECONDS } from './protobuf/scalars.js'

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/
const DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
/** Matches date, time of day, fraction, zone. Go accepts offsets of 24 hours and of 60 minutes, but no leap seconds. */
const TIME = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d([.,]\d+)?(?:Z|([+-])([01]\d|2[0-4]):([0-5]\d|60))$/
const WHOLE_SECONDS = 'YYYY-MM-DDThh:mm:ss'.length
const RFC3339 = '2006-01-02T15:04:05Z07:00'
const RFC3339_MICRO = '2006-01-02T15:04:05.000000Z07:00'
/** How many characters of a string a message shows. */
const MAX_SHOWN = 64

/** Each returns what is wrong with a string; null if it can be read. */
export const GO_FORMATS: Readonly<Record<string, (text: string) => string | null>> = {
  quantity: quantityProblem,
  time: timeProblem,
  // Exactly six digits.
  microtime: (text) => (fractionOf(text)?.length === 7 ? null : notTime(text, RFC3339_MICRO)),
  bytes: base64Problem,
}

const GO_TEXTS: Readonly<Record<string, (text: string) => string | null>> = {
  quantity: (text) => goQuantity(text),
  time: goTime,
  microtime: goMicroTime,
  bytes: (text) => Buffer.from(text, 'base64').toString('base64'),
}

/** Returns the text that Go writes after reading this one: null for the zero time, the same if Go cannot read it. */
export function goText(type: string, text: string): string | null {
  const write = GO_TEXTS[type]
  if (write === undefined) return text.toWellFormed()
  return GO_FORMATS[type]!(text) === null ? write(text) : text
}

function quantityProblem(text: string): string | null {
  if (isQuantity(text)) return null
  return "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
}

export function timeProblem(text: string): string | null {
  return fractionOf(text) === null ? notTime(text, RFC3339) : null
}

/** Returns the fraction of the seconds with its point, or '' if there is none; null if the text is not a time. */
function fractionOf(text: string): string | null {
  const [, date = '', , fraction = ''] = TIME.exec(text) ?? []
  return isDate(date) ? fraction : null
}

/** Returns the time in UTC and whole seconds. The text must be a time. */
export function goTime(text: string): string | null {
  const seconds = unixSeconds(text)
  return seconds === ZERO_TIME_SECONDS ? null : formatTime(seconds)
}

function goMicroTime(text: string): string | null {
  const seconds = unixSeconds(text)
  const nanos = Number(fractionOf(text)?.slice(1)) * 1_000
  return seconds === ZERO_TIME_SECONDS && nanos === 0 ? null : formatMicroTime(seconds, nanos)
}

/** `Date` alone does not know all offsets that Go accepts. */
function unixSeconds(text: string): number {
  const [, , , , sign = '', hours = '0', minutes = '0'] = TIME.exec(text) ?? []
  const offset = Number(hours) * 3_600 + Number(minutes) * 60
  return Date.parse(`${text.slice(0, WHOLE_SECONDS)}Z`) / 1_000 - (sign === '-' ? -offset : offset)
}

/** Whether the day exists: `2024-02-29`. */
export function isDate(text: string): boolean {
  const [, year, month, day] = (DATE.exec(text) ?? []).map(Number)
  if (year === undefined || month === undefined || day === undefined) return false
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return day >= 1 && day <= (month === 2 && !isLeap ? 28 : (DAYS[month - 1] ?? 0))
}

function notTime(text: string, layout: string): string {
  return `parsing time ${JSON.stringify(text.slice(0, MAX_SHOWN))} as "${layout}": it is not such a time`
}

function base64Problem(text: string): string | null {
  const at = illegalByteOf(text)
  return at === null ? null : `illegal base64 data at input byte ${at}`
}

/**
 * Returns the index of the first illegal byte, as in Go's `base64.StdEncoding`, or null if there is none. The text is
 * padded, and may have line breaks anywhere.
 */
function illegalByteOf(text: string): number | null {
  const end = text.search(/[^A-Za-z0-9+/\r\n]/)
  const digits = (end === -1 ? text : text.slice(0, end)).replace(/[\r\n]/g, '').length % 4
  if (end === -1) return digits === 0 ? null : text.length - digits
  if (text[end] !== '=' || digits < 2) return end
  let next = afterLineBreaks(text, end + 1)
  if (digits === 2) {
    if (next === text.length) return next
    if (text[next] !== '=') return next - 1
    next = afterLineBreaks(text, next + 1)
  }
  return next === text.length ? null : next
}

function afterLineBreaks(text: string, at: number): number {
  let next = at
  while (text[next] === '\r' || text[next] === '\n') next++
  return next
}
