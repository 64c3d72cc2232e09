/** A prom-client registry whose metrics have our prefix and are aggregated over worker processes. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { ResourceGauges } from '../../engine/pipeline/resource-gauges.js'
import { HotCounter, HotHistogram } from './hot-metrics.js'

/** From 0.1 ms (one pass at the head) to 10 s (a peer that is far behind). */
const DELAY_BUCKETS = [0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

/** The labels of all per-resource metrics. */
export const RESOURCE = ['group', 'resource'] as const
export type ResourceLabels = Record<(typeof RESOURCE)[number], string>
export type LabelledGauges = readonly [labels: ResourceLabels, gauges: ResourceGauges]

/** How the values of several processes become one: as a sum if each has its own share. */
type OverWorkers = 'sum' | 'min' | 'max' | 'first'

type ResourceGauge = readonly [name: string, help: string, OverWorkers, read: (state: ResourceGauges) => number]

/**
 * Shows a series before its first count, which Prometheus would not see as an increase: no alert would fire for
 * something that happens once.
 */
export function announce<L extends string>(counter: Counter<L>, labels: Readonly<Record<L, string>>): void {
  counter.inc(labels, 0)
}

export class MetricSet {
  readonly registry = new Registry()

  counter<L extends string>(name: string, help: string, labelNames: readonly L[]): Counter<L> {
    return new Counter({ name: `distributary_${name}`, help, labelNames: [...labelNames], registers: [this.registry] })
  }

  gauge<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    overWorkers: OverWorkers = 'sum',
  ): Gauge<L> {
    return new Gauge({
      name: `distributary_${name}`,
      help,
      labelNames: [...labelNames],
      registers: [this.registry],
      aggregator: overWorkers,
    })
  }

  /** @returns sets the gauges of every resource; those of removed resources disappear. */
  resourceGauges(rows: readonly ResourceGauge[]): (states: readonly LabelledGauges[]) => void {
    const gauges = rows.map(([name, help, overWorkers, read]) => ({
      gauge: this.gauge(name, help, RESOURCE, overWorkers),
      read,
    }))
    return (states) => {
      for (const { gauge, read } of gauges) {
        gauge.reset()
        for (const [labels, state] of states) gauge.set(labels, read(state))
      }
    }
  }

  histogram<L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets: readonly number[] = DELAY_BUCKETS,
  ): Histogram<L> {
    return new Histogram({
      name: `distributary_${name}`,
      help,
      labelNames: [...labelNames],
      buckets: [...buckets],
      registers: [this.registry],
    })
  }

  /** A counter incremented by every event. */
  hotCounter<L extends string>(name: string, help: string, labelNames: readonly L[]): HotCounter<L> {
    return new HotCounter(this.registry, { name: `distributary_${name}`, help, labelNames })
  }

  /** A histogram observed by every event. */
  hotHistogram<L extends string>(name: string, help: string, labelNames: readonly L[]): HotHistogram<L> {
    return new HotHistogram(this.registry, { name: `distributary_${name}`, help, labelNames }, DELAY_BUCKETS)
  }
}
