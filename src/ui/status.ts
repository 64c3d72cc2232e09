/** What the status page shows: one plain object of what this process holds and does now, made when somebody looks. */
import type { Cursor } from '../broadcast/cursor.js'
import type { ResourceGauges } from '../metrics/metrics.js'
import { resourceId } from '../model/resource.js'

export interface StatusSource {
  gauges(): ResourceGauges
  readonly cursors: Iterable<Cursor>
  /** Most bytes of history. */
  readonly ringBytes: number
  /** null: ready. */
  readonly problem: string | null
}

export interface StatusInput {
  readonly version: string
  readonly upstream: string
  readonly uptimeSeconds: number
  readonly ready: boolean
  readonly sources: Iterable<StatusSource>
  /** Since the start. */
  readonly receivedEvents: number
  /** Cumulative counts by upper bound in seconds, of the segment cache-to-socket. */
  readonly delays: readonly (readonly [upTo: number, count: number])[]
}

/** Longer lists help nobody on a page, and are bounded here whatever the number of watchers. */
const TOP = 10

export function statusOf(input: StatusInput): Record<string, unknown> {
  const groups = new Map<Cursor['group'], { resource: string; transport: string; selector: string; watchers: number }>()
  const slow: { resource: string; transport: string; state: string; behind: number; pendingBytes: number }[] = []
  const watchers: Record<string, number> = {}
  let sentEvents = 0
  let sentBytes = 0
  const resources = [...input.sources].map((source) => {
    const gauges = source.gauges()
    const resource = resourceId(gauges.resource)
    sentEvents += gauges.sentEvents
    sentBytes += gauges.sentBytes
    for (const [key, count] of gauges.watchers) watchers[key] = (watchers[key] ?? 0) + count
    for (const cursor of source.cursors) {
      const { group } = cursor
      const { transport } = group.wire
      const entry = groups.get(group)
      if (entry === undefined) groups.set(group, { resource, transport, selector: group.matcher.key, watchers: 1 })
      else entry.watchers++
      if (!cursor.isBlocked && cursor.state !== 'lagging') continue
      const behind = Math.max(0, gauges.revision - cursor.revision)
      slow.push({ resource, transport, state: cursor.state, behind, pendingBytes: cursor.sink.pendingBytes })
    }
    const { group, version, plural, namespaced } = gauges.resource
    return {
      resource,
      path: group === '' ? `/api/${version}` : `/apis/${group}/${version}`,
      plural,
      namespaced,
      revision: gauges.revision,
      objects: gauges.objects,
      watchers: [...gauges.watchers.values()].reduce((sum, count) => sum + count, 0),
      ringFill: source.ringBytes === 0 ? 0 : gauges.ringBytes / source.ringBytes,
      ringBatches: gauges.ringBatches,
      ringAgeSeconds: gauges.ringAgeSeconds,
      stalenessSeconds: gauges.stalenessSeconds,
      problem: source.problem,
    }
  })
  return {
    version: input.version,
    upstream: input.upstream,
    uptimeSeconds: input.uptimeSeconds,
    ready: input.ready,
    rssBytes: process.memoryUsage.rss(),
    receivedEvents: input.receivedEvents,
    sentEvents,
    sentBytes,
    delays: input.delays,
    watchers,
    resources,
    groups: [...groups.values()].sort((a, b) => b.watchers - a.watchers).slice(0, TOP),
    slow: slow.sort((a, b) => b.behind - a.behind).slice(0, TOP),
    slowCount: slow.length,
  }
}
