/** The metrics of the fan-out: watchers, events sent to them, and delays. */
import type { Counter } from 'prom-client'
import type { BroadcastMetrics } from '../../engine/model/stage-metrics.js'
import { type LabelledGauges, type MetricSet, RESOURCE, type ResourceLabels } from './metric-set.js'

/** A section of an event's path: a value of the label `segment`. */
export type Segment = 'upstream-to-cache' | 'cache-to-socket' | 'publisher-to-replica'

export class BroadcastSeries {
  readonly #sentEvents
  readonly #sentBytes
  readonly #ended
  readonly #delay
  /** Observes the seconds of one slice of fan-out work. */
  readonly passSlice: (seconds: number) => void
  readonly #watchers
  readonly #groups
  readonly #logBytes
  readonly #blockedBytes
  /** The totals already added to the counters of sent events and bytes. */
  readonly #sentTotals = new Map<string, number>()

  constructor(set: MetricSet) {
    this.#sentEvents = set.counter(
      'broadcast_events_sent_total',
      'Events written to the connections of watchers.',
      RESOURCE,
    )
    this.#sentBytes = set.counter(
      'broadcast_bytes_sent_total',
      'Bytes written to the connections of watchers.',
      RESOURCE,
    )
    this.#ended = set.counter('broadcast_watchers_ended_total', 'Watches that ended, by reason.', [
      ...RESOURCE,
      'reason',
    ])
    this.#delay = set.hotHistogram('broadcast_delay_seconds', 'Delay of events, by segment of their path.', [
      ...RESOURCE,
      'segment',
    ])
    const passes = set.hotHistogram(
      'broadcast_pass_slice_duration_seconds',
      'Duration of one slice of fan-out work between two turns of the event loop.',
      [],
    )
    this.passSlice = passes.labels({})
    this.#watchers = set.gauge('broadcast_watchers', 'Running watches, by transport and state.', [
      ...RESOURCE,
      'transport',
      'state',
    ])
    this.#groups = set.gauge('broadcast_groups', 'Groups of watchers that share their bytes.', RESOURCE)
    this.#logBytes = set.gauge('broadcast_log_bytes', 'Bytes of encoded events kept for groups of watchers.', RESOURCE)
    this.#blockedBytes = set.gauge(
      'broadcast_socket_bytes',
      'Bytes in sockets that clients have not read yet.',
      RESOURCE,
    )
  }

  of(labels: ResourceLabels): BroadcastMetrics {
    const delay = this.delayOf(labels, 'cache-to-socket')
    return { ended: (reason) => this.#ended.inc({ ...labels, reason }), delay }
  }

  /** Returns a function that observes the seconds an event spends in one segment. */
  delayOf(labels: ResourceLabels, segment: Segment): (seconds: number) => void {
    return this.#delay.labels({ ...labels, segment })
  }

  /** Cumulative counts by upper bound in seconds, for the segment cache-to-socket of all resources. */
  delays(): readonly (readonly [upTo: number, count: number])[] {
    const delays = new Map<number, number>()
    for (const { metricName, labels, value } of this.#delay.get().values) {
      if (metricName?.endsWith('_bucket') !== true || labels['segment'] !== 'cache-to-socket') continue
      const { le } = labels as { readonly le?: string | number }
      const upTo = le === '+Inf' ? Number.MAX_VALUE : Number(le)
      delays.set(upTo, (delays.get(upTo) ?? 0) + value)
    }
    return [...delays].sort(([a], [b]) => a - b)
  }

  /** Sets the gauges of every resource; those of removed resources disappear. */
  readGauges(states: readonly LabelledGauges[]): void {
    for (const gauge of [this.#watchers, this.#groups, this.#logBytes, this.#blockedBytes]) gauge.reset()
    for (const [labels, state] of states) {
      this.#groups.set(labels, state.groups)
      this.#logBytes.set(labels, state.logBytes)
      this.#blockedBytes.set(labels, state.blockedBytes)
      this.#raise(this.#sentEvents, 'events', labels, state.sentEvents)
      this.#raise(this.#sentBytes, 'bytes', labels, state.sentBytes)
      for (const [key, count] of state.watchers) {
        const [transport = '', watcherState = ''] = key.split(' ')
        this.#watchers.set({ ...labels, transport, state: watcherState }, count)
      }
    }
  }

  /** Raises a counter to a total kept elsewhere; after a restart of the source the total counts from zero again. */
  #raise(counter: Counter<keyof ResourceLabels>, what: string, labels: ResourceLabels, total: number): void {
    const key = `${labels.group}/${labels.resource} ${what}`
    const before = this.#sentTotals.get(key) ?? 0
    counter.inc(labels, total >= before ? total - before : total)
    this.#sentTotals.set(key, total)
  }
}
