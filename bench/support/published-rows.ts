/** Figures that others published, with their sources, and the table that sets ours beside them. */
import type { Row } from './record.js'

export interface Published {
  /** The load, as named in the table. */
  readonly what: string
  readonly source: string
  readonly url: string
  /** Their figures, in their words. */
  readonly theirs: string
  /** Our figures, from a row. */
  readonly ours: (row: Row, figure: (value: unknown) => string) => string
}

export const PUBLISHED = {
  'initial-states': {
    what: 'the longest delay of an event beside 50 initial states of 500,000 objects',
    source: 'kubernetes/kubernetes#139526',
    url: 'https://github.com/kubernetes/kubernetes/issues/139526',
    theirs: 'the watch cache takes no event for 472 ms',
    ours: (row, figure) =>
      `${figure(row['maxMs'])} ms, p99 ${figure(row['p99Ms'])} ms (without them ${figure(row['maxMsWithout'])} and ${figure(row['p99MsWithout'])} ms); the states took ${figure(row['seconds'])} s, and ${figure(row['ended'])} watches were ended`,
  },
  'large-objects': {
    what: 'memory of 100 custom objects of 1.3 MiB',
    source: 'kubernetes/kubernetes#142062',
    url: 'https://github.com/kubernetes/kubernetes/issues/142062',
    theirs: '5.2 × their JSON',
    ours: (row, figure) => `${figure(row['ofJson'])} × their JSON, at the most ${figure(row['peakOfJson'])} ×`,
  },
  'cilium-endpoints': {
    what: 'CiliumEndpoints of 1,000 nodes, 30 pods a second: 90,000 deliveries a second',
    source: 'cilium/cilium#15153',
    url: 'https://github.com/cilium/cilium/issues/15153',
    theirs: 'more than a master of 96 cores takes',
    ours: (row, figure) =>
      `${figure(row['deliveriesPerSecond'])} deliveries a second, ${figure(row['serverBusy'])} cores, p99 ${figure(row['p99Ms'])} ms`,
  },
  'clients-at-once': {
    what: '500 clients that ask for 500,000 objects at once',
    source: 'projectcalico/calico#7047',
    url: 'https://github.com/projectcalico/calico/pull/7047',
    theirs: '25 CPU minutes where clients share nothing, as Typha reckons',
    ours: (row, figure) =>
      `${figure(row['cpuMinutes'])} CPU minutes, all after ${figure(row['seconds'])} s; ${figure(row['peakAboveMb'])} MB more`,
  },
  'terminated-watchers': {
    what: 'endpoint slices of 5,000 nodes, some of which read nothing for a while: watches that are ended, and objects that are listed again',
    source: 'kubernetes/perf-tests#4264',
    url: 'https://github.com/kubernetes/perf-tests/issues/4264',
    theirs: '6,270 to 33,079 watches a run, and 0.83 to 2.77 million objects',
    ours: (row, figure) =>
      `${figure(row['ended'])} watches, ${figure(row['listedAgain'])} objects, at ${figure(row['deliveriesPerSecond'])} deliveries a second to ${figure(row['watchers'])} watchers, ${figure(row['stalled'])} of which stall`,
  },
  browsers: {
    what: '32,000 browsers, 224,000 messages a second',
    source: 'Supabase Realtime',
    url: 'https://supabase.com/docs/guides/realtime/benchmarks',
    theirs: 'p50 6 ms, p99 213 ms, on 2 to 6 servers',
    ours: (row, figure) =>
      `p50 ${figure(row['p50Ms'])} ms, p99 ${figure(row['p99Ms'])} ms, ${figure(row['deliveriesPerSecond'])} messages a second on ${figure(row['serverBusy'])} cores`,
  },
} as const satisfies Readonly<Record<string, Published>>

export type PublishedName = keyof typeof PUBLISHED

export const publishedNames = Object.keys(PUBLISHED) as PublishedName[]

/** A Markdown table. @param nameOf the title of a row's subject. */
export function publishedTable(
  rows: readonly Row[],
  nameOf: (row: Row) => string,
  figure: (value: unknown) => string,
): string {
  const lines = rows.flatMap((row) => {
    const published: Published | undefined = PUBLISHED[row['load'] as PublishedName]
    if (published === undefined) return []
    const scale = Number(row['scale'])
    const ours = row['failed'] === undefined ? published.ours(row, figure) : `failed: ${String(row['failed'])}`
    const cells = [
      published.what,
      `[${published.source}](${published.url}): ${published.theirs}`,
      nameOf(row),
      scale === 1 ? ours : `${ours} (at ${figure(scale)} of the size)`,
    ]
    return [`| ${cells.join(' | ').replaceAll('\n', ' ')} |`]
  })
  return ['| what | published | here | figures here |', '| --- | --- | --- | --- |', ...lines].join('\n')
}
