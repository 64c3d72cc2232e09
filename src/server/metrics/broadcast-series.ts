/** The metrics of the fan-out: watchers, events sent to them, and delays. */
import type { Counter } from 'prom-client'
import type { BroadcastMetrics } from '../../engine/model/stage-metrics.js'
import { type LabelledGauges, type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

/** A section of an event's path: a value of the label `segment`. */
export type Segment = 'upstream-to-cache' | 'cache-to-socket' | 'publisher-to-replica'

export function broadcastSeries(set: MetricSet) {
  const sentEvents = set.counter(
    'broadcast_events_sent_total',
    'Events written to the connections of watchers.',
    RESOURCE,
  )
  const sentBytes = set.counter('broadcast_bytes_sent_total', 'Bytes written to the connections of watchers.', RESOURCE)
  const ended = set.counter('broadcast_watchers_ended_total', 'Watches that ended, by reason.', [...RESOURCE, 'reason'])
  const delay = set.hotHistogram('broadcast_delay_seconds', 'Delay of events, by segment of their path.', [
    ...RESOURCE,
    'segment',
  ])
  const passes = set.hotHistogram(
    'broadcast_pass_slice_duration_seconds',
    'Duration of one slice of fan-out work between two turns of the event loop.',
    [],
  )
  const watchers = set.gauge('broadcast_watchers', 'Running watches, by transport and state.', [
    ...RESOURCE,
    'transport',
    'state',
  ])
  const gauges = set.resourceGauges([
    ['broadcast_groups', 'Groups of watchers that share their bytes.', 'sum', (state) => state.groups],
    ['broadcast_log_bytes', 'Bytes of encoded events kept for groups of watchers.', 'sum', (state) => state.logBytes],
    [
      'broadcast_socket_bytes',
      'Bytes in sockets that clients have not read yet.',
      'sum',
      (state) => state.blockedBytes,
    ],
  ])
  /** The totals already added to the counters of sent events and bytes. */
  const sentTotals = new Map<string, number>()

  /** Raises a counter to a total kept elsewhere; after a restart of the source the total counts from zero again. */
  const raise = (counter: Counter<keyof ResourceLabels>, what: string, labels: ResourceLabels, total: number): void => {
    const key = `${labels.group}/${labels.resource} ${what}`
    const before = sentTotals.get(key) ?? 0
    counter.inc(labels, total >= before ? total - before : total)
    sentTotals.set(key, total)
  }

  /** Returns a function that observes the seconds an event spends in one segment. */
  const delayOf = (labels: ResourceLabels, segment: Segment): ((seconds: number) => void) =>
    delay.labels({ ...labels, segment })

  return {
    delayOf,
    /** Observes the seconds of one slice of fan-out work. */
    passSlice: passes.labels({}),

    of: (labels: ResourceLabels): BroadcastMetrics => ({
      ended: (reason) => ended.inc({ ...labels, reason }),
      delay: delayOf(labels, 'cache-to-socket'),
    }),

    /** Cumulative counts by upper bound in seconds, for the segment cache-to-socket of all resources. */
    delays: (): readonly (readonly [upTo: number, count: number])[] => {
      const delays = new Map<number, number>()
      for (const { metricName, labels, value } of delay.get().values) {
        if (metricName?.endsWith('_bucket') !== true || labels['segment'] !== 'cache-to-socket') continue
        const { le } = labels as { readonly le?: string | number }
        const upTo = le === '+Inf' ? Number.MAX_VALUE : Number(le)
        delays.set(upTo, (delays.get(upTo) ?? 0) + value)
      }
      return [...delays].sort(([a], [b]) => a - b)
    },

    readGauges: (states: readonly LabelledGauges[]): void => {
      gauges(states)
      watchers.reset()
      for (const [labels, state] of states) {
        raise(sentEvents, 'events', labels, state.sentEvents)
        raise(sentBytes, 'bytes', labels, state.sentBytes)
        for (const [key, count] of state.watchers) {
          const [transport = '', watcherState = ''] = key.split(' ')
          watchers.set({ ...labels, transport, state: watcherState }, count)
        }
      }
    },
  }
}
