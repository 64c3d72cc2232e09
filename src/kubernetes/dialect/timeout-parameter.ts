/**
 * `?timeout=` of requests other than watches. The API server rejects a value that is not a Go duration before anything
 * else; how long a request may take is decided elsewhere.
 */
import { BadRequestError } from '../../engine/model/status.js'
import { parameter, type Query } from './query.js'

/** Longer values are not parsed: no duration needs as many characters. */
const MAX_SHOWN = 128
const NANOSECONDS: ReadonlyMap<string, number> = new Map([
  ['ns', 1],
  ['us', 1e3],
  ['µs', 1e3],
  ['μs', 1e3],
  ['ms', 1e6],
  ['s', 1e9],
  ['m', 60e9],
  ['h', 3600e9],
])
/** The most nanoseconds of a duration: 290 years. */
const MAX_NANOSECONDS = 2 ** 63

/** @throws BadRequestError in the API server's words */
export function checkTimeout(query: Query): void {
  const text = parameter(query, 'timeout')
  if (text === undefined || text === '') return
  const problem = durationProblem(text.slice(0, MAX_SHOWN))
  if (problem !== null) throw new BadRequestError(`invalid timeout specified in the request URL - ${problem}`)
}

/** Returns why Go's `time.ParseDuration` rejects the text; null if it accepts it. */
function durationProblem(text: string): string | null {
  const invalid = `time: invalid duration ${JSON.stringify(text)}`
  let rest = text.replace(/^[-+]/, '')
  if (rest === '0') return null
  if (rest === '') return invalid
  let total = 0
  while (rest !== '') {
    const [, number, unit = ''] = /^(\d+\.?\d*|\.\d+)([^.\d]*)/.exec(rest) ?? []
    if (number === undefined) return invalid
    if (unit === '') return `time: missing unit in duration ${JSON.stringify(text)}`
    const nanoseconds = NANOSECONDS.get(unit)
    if (nanoseconds === undefined)
      return `time: unknown unit ${JSON.stringify(unit)} in duration ${JSON.stringify(text)}`
    total += Number(number) * nanoseconds
    if (total >= MAX_NANOSECONDS) return invalid
    rest = rest.slice(number.length + unit.length)
  }
  return null
}
