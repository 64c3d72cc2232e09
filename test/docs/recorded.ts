/** Recorded measurements (`bench/results.jsonl`), for the pages generated from them. */
import { readText } from './repository.js'

export interface Row {
  readonly run: string
  readonly quick: boolean
  readonly question: string
  readonly subject: string
  readonly wire: string
  readonly failed?: string
  readonly [name: string]: unknown
}

const BEGIN = '<!-- Generated from bench/results.jsonl by `npm run generate`. -->'
const END = '<!-- End of the generated part. -->'

/** The titles of wires, by their names in the benchmark. */
export const WIRES: Readonly<Record<string, string>> = {
  http1: 'HTTP/1.1',
  'http1-tls': 'HTTP/1.1, TLS',
  http2x100: 'HTTP/2, 100 watches per connection',
  'http2x20-tls': 'HTTP/2, TLS, 20 watches per connection',
  'http2x100-tls': 'HTTP/2, TLS, 100 watches per connection',
  websocket: 'WebSocket',
  sse: 'Server-Sent Events',
}

/** The cell of a figure that was never measured. */
export const NOT_YET = '–'

/**
 * Returns a page with its generated part replaced.
 * @param begin the marker before the part, which differs on a page with two generated parts.
 * @throws Error when the markers of that part are missing.
 */
export function withMade(page: string, made: string, begin = BEGIN): string {
  const [before, rest] = split(page, begin)
  const [, after] = split(rest, END)
  return `${before}${begin}\n\n${made === '' ? '' : `${made}\n\n`}${END}${after}`
}

export const recordedRows = (): string => readText('bench/results.jsonl')

function split(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark)
  if (at === -1) throw new Error(`the page has lost ${mark}`)
  return [text.slice(0, at), text.slice(at + mark.length)]
}

/** Returns the rows of the question's last complete run. */
export function lastRun(text: string, question: string): Row[] {
  const rows = text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row)
    .filter((row) => row.question === question && !row.quick)
  const run = rows
    .map((row) => row.run)
    .toSorted()
    .at(-1)
  return rows.filter((row) => row.run === run)
}

/** Our own rows that did not fail. */
export function parseRows(text: string): Row[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row)
    .filter((row) => row.subject === 'distributary' && row.failed === undefined && (row['serverFlags'] ?? '') === '')
}

/** The last complete run, or the last small one if there is none. */
export function newest(rows: readonly Row[]): Row | undefined {
  const full = rows.filter(({ quick }) => !quick)
  return (full.length > 0 ? full : rows).toSorted((a, b) => (a.run < b.run ? -1 : 1)).at(-1)
}

export function figure(value: unknown): string {
  if (typeof value !== 'number' || !Number.isFinite(value)) return NOT_YET
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)))
}
