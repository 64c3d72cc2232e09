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

export function viewOf(before: Scrape, after: Scrape, options: ViewOptions): readonly string[] {
  const { sort, withIdle } = options
  const shown = resourcesOf(before, after)
    .filter(({ objects, watchers }) => withIdle || objects > 0 || watchers > 0)
    .sort((a, b) => compare(a, b, sort))
  const table = [
    ['RESOURCE', 'OBJECTS', 'REVISION', 'WATCHERS', 'LAGGING', 'IN/S', 'OUT/S', 'OUT BYTES/S', 'STALE'],
    ...shown.map((line) => [
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
  return [...headerOf(before, after, options), '', ...tableLines(table, (column) => column > 0)]
}

function headerOf(before: Scrape, after: Scrape, { server }: ViewOptions): string[] {
  const seconds = secondsBetween(before, after)
  const per = (name: string): number => Math.max(0, after.sum(name) - before.sum(name)) / seconds
  const version = after.samples('distributary_build_info')[0]?.labels['version']
  const started = after.samples('process_start_time_seconds')[0]?.value
  const uptime = started === undefined ? '' : `, up ${humanDuration(Date.now() - started * 1_000)}`
  const workers = after.sum('distributary_workers')
  const delay = (segment: string): string => {
    const bound = quantileBetween(before, after, 'distributary_broadcast_delay_seconds', segment, 0.99)
    return bound === null ? '-' : bound === Infinity ? '> 10 s' : `≤ ${bound * 1_000} ms`
  }
  const byTransport = new Map<string, number>()
  for (const { labels, value } of after.samples('distributary_broadcast_watchers')) {
    const transport = labels['transport'] ?? '?'
    byTransport.set(transport, (byTransport.get(transport) ?? 0) + value)
  }
  const transports = [...byTransport].filter(([, count]) => count > 0).map(([name, count]) => `${name} ${count}`)
  const watchers = after.sum('distributary_broadcast_watchers')
  return [
    `distributary ${version ?? '(not a distributary: no distributary_build_info)'} at ${server}${uptime}` +
      (workers > 0 ? `, ${workers} workers` : ''),
    `watchers ${watchers}${transports.length === 0 ? '' : ` (${transports.join(', ')})`}` +
      `   events in ${rate(per('distributary_cache_events_total'))}/s` +
      `   out ${rate(per('distributary_broadcast_events_sent_total'))}/s, ` +
      `${bytes(per('distributary_broadcast_bytes_sent_total'))}/s`,
    `lag p99: upstream to cache ${delay('upstream-to-cache')}, cache to socket ${delay('cache-to-socket')}` +
      `   event loop p99 ${(Math.max(0, ...after.samples('nodejs_eventloop_lag_p99_seconds').map(({ value }) => value)) * 1_000).toFixed(0)} ms`,
    `memory ${bytes(after.sum('process_resident_memory_bytes'))}` +
      `   heap ${bytes(after.sum('nodejs_heap_size_used_bytes'))}` +
      `   history ${bytes(after.sum('distributary_cache_ring_bytes'))}` +
      `   CPU ${(per('process_cpu_seconds_total') * 100).toFixed(0)} %`,
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

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let unit = 0
  let number = value
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024
    unit++
  }
  return `${unit === 0 ? Math.round(number) : number.toFixed(1)} ${units[unit]}`
}
