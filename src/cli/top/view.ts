/**
 * Presents two scrapes of `/metrics` as readable lines: the server's current state, and what happened between the
 * scrapes.
 */
import { humanDuration } from '../../support/human-duration.js'
import { tableLines } from '../table/text-table.js'
import { quantileBetween, type Scrape } from './metrics-text.js'

export const SORT_KEYS = ['watchers', 'events', 'objects', 'lag', 'name'] as const
export type SortKey = (typeof SORT_KEYS)[number]

interface ResourceLine {
  readonly name: string
  readonly objects: number
  readonly revision: number
  readonly watchers: number
  readonly lagging: number
  readonly receivedPerSecond: number
  readonly sentPerSecond: number
  readonly sentBytesPerSecond: number
  /** Seconds since the upstream last confirmed the state; 0 while it is connected. */
  readonly staleness: number
  readonly isReady: boolean
}

export interface ViewOptions {
  readonly server: string
  readonly sort: SortKey
  /** Whether to also show resources that have neither objects nor watchers. */
  readonly withIdle: boolean
}

/** What `top -o json` prints. */
export type Sample = ReturnType<typeof sampleOf>

export function sampleOf(before: Scrape, after: Scrape, { server, sort, withIdle }: ViewOptions) {
  const seconds = secondsBetween(before, after)
  const per = (name: string): number => Math.max(0, after.sum(name) - before.sum(name)) / seconds
  const started = after.samples('process_start_time_seconds')[0]?.value
  /** Infinity is above the last bucket, and null means no events. */
  const delay = (segment: string): number | null =>
    quantileBetween(before, after, 'distributary_broadcast_delay_seconds', segment, 0.99)
  const byTransport: Record<string, number> = {}
  for (const { labels, value } of after.samples('distributary_broadcast_watchers')) {
    const transport = labels['transport'] ?? '?'
    byTransport[transport] = (byTransport[transport] ?? 0) + value
  }
  return {
    server,
    version: after.samples('distributary_build_info')[0]?.labels['version'] ?? null,
    uptimeSeconds: started === undefined ? null : Date.now() / 1_000 - started,
    workers: after.sum('distributary_workers'),
    watchers: after.sum('distributary_broadcast_watchers'),
    watchersByTransport: byTransport,
    receivedPerSecond: per('distributary_cache_events_total'),
    sentPerSecond: per('distributary_broadcast_events_sent_total'),
    sentBytesPerSecond: per('distributary_broadcast_bytes_sent_total'),
    upstreamToCacheP99Seconds: delay('upstream-to-cache'),
    cacheToSocketP99Seconds: delay('cache-to-socket'),
    eventLoopP99Seconds: Math.max(0, ...after.samples('nodejs_eventloop_lag_p99_seconds').map(({ value }) => value)),
    residentBytes: after.sum('process_resident_memory_bytes'),
    heapBytes: after.sum('nodejs_heap_size_used_bytes'),
    historyBytes: after.sum('distributary_cache_ring_bytes'),
    cpuShare: per('process_cpu_seconds_total'),
    resources: resourcesOf(before, after)
      .filter(({ objects, watchers }) => withIdle || objects > 0 || watchers > 0)
      .sort((a, b) => compare(a, b, sort)),
  }
}

export function linesOf(sample: Sample): readonly string[] {
  const table = [
    ['RESOURCE', 'OBJECTS', 'REVISION', 'WATCHERS', 'LAGGING', 'IN/S', 'OUT/S', 'OUT BYTES/S', 'STALE'],
    ...sample.resources.map((line) => [
      line.name,
      String(line.objects),
      String(line.revision),
      String(line.watchers),
      String(line.lagging),
      rate(line.receivedPerSecond),
      rate(line.sentPerSecond),
      bytes(line.sentBytesPerSecond),
      line.isReady ? (line.staleness === 0 ? '-' : `${line.staleness.toFixed(1)}s`) : 'not ready',
    ]),
  ]
  return [...headerOf(sample), '', ...tableLines(table, (column) => column > 0)]
}

function headerOf(sample: Sample): string[] {
  const { server, version, uptimeSeconds, workers, watchers } = sample
  const uptime = uptimeSeconds === null ? '' : `, up ${humanDuration(uptimeSeconds * 1_000)}`
  const delay = (bound: number | null): string =>
    bound === null ? '-' : bound === Infinity ? '> 10 s' : `≤ ${bound * 1_000} ms`
  const transports = Object.entries(sample.watchersByTransport)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} ${count}`)
  return [
    `distributary ${version ?? '(not a distributary: no distributary_build_info)'} at ${server}${uptime}` +
      (workers > 0 ? `, ${workers} workers` : ''),
    `watchers ${watchers}${transports.length === 0 ? '' : ` (${transports.join(', ')})`}` +
      `   events in ${rate(sample.receivedPerSecond)}/s` +
      `   out ${rate(sample.sentPerSecond)}/s, ${bytes(sample.sentBytesPerSecond)}/s`,
    `lag p99: upstream to cache ${delay(sample.upstreamToCacheP99Seconds)}` +
      `, cache to socket ${delay(sample.cacheToSocketP99Seconds)}` +
      `   event loop p99 ${(sample.eventLoopP99Seconds * 1_000).toFixed(0)} ms`,
    `memory ${bytes(sample.residentBytes)}   heap ${bytes(sample.heapBytes)}` +
      `   history ${bytes(sample.historyBytes)}   CPU ${(sample.cpuShare * 100).toFixed(0)} %`,
  ]
}

function resourcesOf(before: Scrape, after: Scrape): ResourceLine[] {
  const seconds = secondsBetween(before, after)
  return after.samples('distributary_cache_objects').map(({ labels, value }) => {
    const { group = '', resource = '' } = labels
    const which = { group, resource }
    const per = (name: string): number => Math.max(0, after.sum(name, which) - before.sum(name, which)) / seconds
    return {
      name: group === '' ? resource : `${resource}.${group}`,
      objects: value,
      revision: after.sum('distributary_cache_resource_version', which),
      watchers: after.sum('distributary_broadcast_watchers', which),
      lagging: after.sum('distributary_broadcast_watchers', { ...which, state: 'lagging' }),
      receivedPerSecond: per('distributary_cache_events_total'),
      sentPerSecond: per('distributary_broadcast_events_sent_total'),
      sentBytesPerSecond: per('distributary_broadcast_bytes_sent_total'),
      staleness: after.sum('distributary_cache_staleness_seconds', which),
      isReady: after.sum('distributary_cache_ready', which) > 0,
    }
  })
}

function secondsBetween(before: Scrape, after: Scrape): number {
  return Math.max(0.001, (after.at - before.at) / 1_000)
}

function compare(a: ResourceLine, b: ResourceLine, key: SortKey): number {
  const byName = a.name < b.name ? -1 : 1
  const difference = {
    watchers: b.watchers - a.watchers,
    events: b.sentPerSecond + b.receivedPerSecond - a.sentPerSecond - a.receivedPerSecond,
    objects: b.objects - a.objects,
    lag: b.staleness - a.staleness || b.lagging - a.lagging,
    name: 0,
  }[key]
  return difference === 0 ? byName : difference
}

function rate(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : value.toFixed(1)
}

function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let unit = 0
  let number = value
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024
    unit++
  }
  return `${unit === 0 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`
}
