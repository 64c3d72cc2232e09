/** Which rows the README is made of: what `bench readme` measures, and nothing else. */

export const README_AGENTS = 300
export const AGENT_SUBJECTS = ['apiserver', 'distributary@24', 'distributary@bun']
/** The runtimes of those subjects, as rows name them. */
const AGENT_RUNTIMES = /^(Go$|Node 24\.|Bun )/

const MANY_STREAMS = ['http2x20-tls', 'http2x100-tls']
/** The loads of the table, for which our own server alone is measured. */
export const LOADS: readonly { readonly watchers: number; readonly rate: number; readonly wires: readonly string[] }[] =
  [
    { watchers: 1_000, rate: 20, wires: ['http1', 'http1-tls', ...MANY_STREAMS, 'websocket', 'sse'] },
    { watchers: 5_000, rate: 5, wires: ['http1', 'http1-tls', ...MANY_STREAMS] },
    { watchers: 10_000, rate: 5, wires: ['http1'] },
  ]

interface ReadRow {
  readonly question: string
  readonly subject: string
  readonly wire: string
  readonly [name: string]: unknown
}

/** Whether a row is one that `readme` produces. Only such rows have figures in the README. */
export function isOfReadme(row: ReadRow): boolean {
  const has = (names: readonly string[]): boolean => names.includes(row.wire)
  if (row.question === 'relief') return true
  if (row.question === 'agents') {
    return (
      row['agents'] === README_AGENTS &&
      (row['shape'] ?? 'mixed') === 'mixed' &&
      AGENT_RUNTIMES.test(String(row['runtime']))
    )
  }
  return (
    row.question === 'fanout' &&
    row.subject === 'distributary' &&
    LOADS.some(({ watchers, rate, wires }) => row['watchers'] === watchers && row['rate'] === rate && has(wires))
  )
}
