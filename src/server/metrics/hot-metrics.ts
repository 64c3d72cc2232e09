/**
 * Metrics that every event changes. prom-client looks up a labelled value, checks it and allocates for each
 * observation, a tenth of the cost of an event. Here an observation adds to a number, and prom-client's form is built
 * at scrape time.
 */
import type { Metric, Registry } from 'prom-client'

export interface HotMetricOptions<L extends string> {
  readonly name: string
  readonly help: string
  readonly labelNames: readonly L[]
}

interface Value {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  readonly metricName?: string
}

interface Series {
  readonly labels: Readonly<Record<string, string>>
}

/** The series of one metric, keyed by labels. */
class SeriesMap<S extends Series> {
  readonly #byKey = new Map<string, S>()

  constructor(private readonly labelNames: readonly string[]) {}

  of(labels: Readonly<Record<string, string>>, create: () => S): S {
    const key = JSON.stringify(this.labelNames.map((name) => labels[name]))
    let series = this.#byKey.get(key)
    if (series === undefined) this.#byKey.set(key, (series = create()))
    return series
  }

  values(): Iterable<S> {
    return this.#byKey.values()
  }
}

interface CounterSeries extends Series {
  value: number
}

export class HotCounter<L extends string> {
  readonly #options: HotMetricOptions<L>
  readonly #series: SeriesMap<CounterSeries>

  constructor(registry: Registry, options: HotMetricOptions<L>) {
    this.#options = options
    this.#series = new SeriesMap(options.labelNames)
    register(registry, this, options)
  }

  /** Returns the counting function. The series appears with its first count. */
  labels(labels: Readonly<Record<L, string>>): (count: number) => void {
    const series = this.#series.of(labels, () => ({ labels, value: 0 }))
    return (count) => {
      series.value += count
    }
  }

  total(): number {
    let total = 0
    for (const { value } of this.#series.values()) total += value
    return total
  }

  get(): { readonly values: readonly Value[] } {
    const { name, help } = this.#options
    const values = [...this.#series.values()]
      .filter(({ value }) => value > 0)
      .map(({ labels, value }) => ({ labels, value }))
    return { name, help, type: 'counter', values, aggregator: 'sum' } as { readonly values: readonly Value[] }
  }
}

interface HistogramSeries extends Series {
  /** One per bucket plus one above the last; not cumulative. */
  readonly counts: Float64Array
  sum: number
}

export class HotHistogram<L extends string> {
  readonly name: string
  readonly labelNames: readonly L[]
  readonly #options: HotMetricOptions<L>
  readonly #buckets: readonly number[]
  readonly #series: SeriesMap<HistogramSeries>

  /** @param buckets upper bounds, ascending. */
  constructor(registry: Registry, options: HotMetricOptions<L>, buckets: readonly number[]) {
    this.name = options.name
    this.labelNames = options.labelNames
    this.#options = options
    this.#buckets = buckets
    this.#series = new SeriesMap(options.labelNames)
    register(registry, this, options)
  }

  /** Returns the observing function. The series appears with its first observation. */
  labels(labels: Readonly<Record<L, string>>): (value: number) => void {
    const buckets = this.#buckets
    const create = (): HistogramSeries => ({ labels, counts: new Float64Array(buckets.length + 1), sum: 0 })
    const series = this.#series.of(labels, create)
    const { counts } = series
    return (value) => {
      let bucket = 0
      while (bucket < buckets.length && value > buckets[bucket]!) bucket++
      counts[bucket]!++
      series.sum += value
    }
  }

  get(): { readonly values: readonly Value[] } {
    const { name, help, labelNames } = this.#options
    const values: Value[] = []
    for (const { labels, counts, sum } of this.#series.values()) {
      const total = counts.reduce((before, count) => before + count, 0)
      if (total === 0 && labelNames.length > 0) continue
      let below = 0
      for (const [bucket, count] of counts.entries()) {
        below += count
        const le = this.#buckets[bucket] ?? '+Inf'
        values.push({ labels: { ...labels, le }, value: below, metricName: `${name}_bucket` })
      }
      values.push({ labels, value: sum, metricName: `${name}_sum` })
      values.push({ labels, value: total, metricName: `${name}_count` })
    }
    return { name, help, type: 'histogram', values, aggregator: 'sum' } as { readonly values: readonly Value[] }
  }
}

/** A registry needs the names and values of its metrics; the label names are for the documentation. */
function register(
  registry: Registry,
  metric: { get(): unknown },
  { name, labelNames }: { readonly name: string; readonly labelNames: readonly string[] },
): void {
  const registered = { name, labelNames, get: () => Promise.resolve(metric.get()), reset() {} }
  registry.registerMetric(registered as unknown as Metric)
}
