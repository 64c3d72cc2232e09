/**
 * Turns tables of metrics into series. Recording a value only adds to a number, and prom-client's form is built at
 * scrape time. prom-client's own counters look up the labels, check them and allocate memory for each observation,
 * which takes a tenth of the cost of an event. Its registry writes the text and merges the metrics of several
 * processes.
 */
import { type Metric as Registered, Registry } from 'prom-client'
import type { Metric, Recorder, Recorders, Table } from '../../engine/model/metric.js'

type Labels = Readonly<Record<string, string>>

interface Series {
  readonly labels: Labels
  /** For a histogram, the sum of the observations. */
  value: number
  /** For a histogram, one count per bucket and one above the last bucket, not cumulative; empty for other kinds. */
  readonly counts: Float64Array
  /** The last total of the source, if the source counts by itself. */
  sourceTotal: number
  isDropped: boolean
}

interface Sample {
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
  readonly metricName?: string
}

/** One metric with its series. */
class Family {
  readonly #series = new Map<string, Series>()

  constructor(
    readonly metric: Metric,
    readonly labelNames: readonly string[],
  ) {}

  get series(): Iterable<Series> {
    return this.#series.values()
  }

  at(values: readonly string[]): Series {
    const key = values.join('\0')
    let series = this.#series.get(key)
    if (series === undefined) {
      const { kind, buckets } = this.metric
      const labels = Object.fromEntries(this.labelNames.map((name, i) => [name, values[i]!]))
      const counts = new Float64Array(kind === 'histogram' ? buckets.length + 1 : 0)
      series = { labels, value: 0, counts, sourceTotal: 0, isDropped: false }
      this.#series.set(key, series)
    }
    return series
  }

  clear(): void {
    this.#series.clear()
  }

  retain(isKept: (labels: Labels) => boolean): void {
    for (const [key, series] of this.#series) {
      if (isKept(series.labels)) continue
      this.#series.delete(key)
      series.isDropped = true
    }
  }

  /** @param bound the values of the first labels. The series appears when something is recorded. */
  recorder(bound: readonly string[]): (...recorded: (string | number | undefined)[]) => void {
    const record = recorderOf(this.metric)
    const free = this.labelNames.length - bound.length
    if (free > 0) {
      return (...recorded) => {
        const [amount = 1] = recorded.splice(free) as [number?]
        record(this.at([...bound, ...(recorded as string[])]), amount)
      }
    }
    let series: Series | null = null
    return (amount = 1) => {
      if (series === null || series.isDropped) series = this.at(bound)
      record(series, amount as number)
    }
  }

  get(): object {
    const { kind, name, help, overProcesses } = this.metric
    const samples = [...this.#series.values()].flatMap((series) => this.#samples(series))
    return { name: PREFIX + name, help, type: kind, values: samples, aggregator: overProcesses }
  }

  #samples({ labels, value, counts }: Series): Sample[] {
    const { kind, buckets } = this.metric
    if (kind !== 'histogram') return [{ labels, value }]
    const name = PREFIX + this.metric.name
    let below = 0
    const samples = [...counts].map((count, bucket): Sample => {
      below += count
      return { labels: { ...labels, le: buckets[bucket] ?? '+Inf' }, value: below, metricName: `${name}_bucket` }
    })
    return [
      ...samples,
      { labels, value, metricName: `${name}_sum` },
      { labels, value: below, metricName: `${name}_count` },
    ]
  }
}

const PREFIX = 'distributary_'

function recorderOf({ kind, buckets, isChanged }: Metric): (series: Series, amount: number) => void {
  if (kind === 'gauge' && !isChanged) return (series, amount) => void (series.value = amount)
  if (kind !== 'histogram') return (series, amount) => void (series.value += amount)
  return (series, amount) => {
    let bucket = 0
    while (bucket < buckets.length && amount > buckets[bucket]!) bucket++
    series.counts[bucket]!++
    series.value += amount
  }
}

export class MetricSet {
  readonly registry = new Registry()
  readonly #families = new Map<string, Family>()

  /** The series so far. */
  series({ name }: Metric): Iterable<Series> {
    return this.#families.get(name)?.series ?? []
  }

  /** @returns the recording functions of a table whose series have only the labels of its rows. */
  open<T extends Table>(table: T): Recorders<T> {
    return this.declare(table, [])([])
  }

  /**
   * @param common the labels of every series of the table.
   * @returns a function that makes the recording functions for one value of each common label.
   */
  declare<T extends Table>(table: T, common: readonly string[]): (values: readonly string[]) => Recorders<T> {
    const rows = Object.entries(table).map(([name, metric]) => ({ name, metric, family: this.#family(metric, common) }))
    return (values) => {
      const recorders = rows.map(({ name, metric, family }): [string, Recorder<Metric>] => {
        for (const series of metric.announced) family.at([...values, ...series])
        return [name, family.recorder([...values, ...metric.fixed])]
      })
      return Object.fromEntries(recorders) as Recorders<T>
    }
  }

  /** @returns a function that replaces all series of a table at once. Series that are no longer given disappear. */
  declareRead<T extends Table>(table: T, common: readonly string[]): (all: readonly Reading<T>[]) => void {
    const rows = Object.entries(table).map(([name, metric]) => ({ name, family: this.#family(metric, common) }))
    return (all) => {
      for (const { name, family } of rows) {
        if (family.metric.kind === 'gauge') family.clear()
        for (const [values, read] of all) {
          const value: number | ReadonlyMap<string, number> = read[name]!
          if (typeof value === 'number') take(family, values, value)
          else for (const [labels, one] of value) take(family, [...values, ...split(labels, family.metric)], one)
        }
      }
    }
  }

  /** Drops all other series. One that is dropped begins at zero again when something is recorded. */
  retain(isKept: (labels: Labels) => boolean): void {
    for (const family of this.#families.values()) family.retain(isKept)
  }

  /** A metric that appears in several tables is registered once. */
  #family(metric: Metric, common: readonly string[]): Family {
    const known = this.#families.get(metric.name)
    if (known !== undefined) return known
    const labelNames = [...common, ...metric.labels]
    const family = new Family(metric, labelNames)
    this.#families.set(metric.name, family)
    // As in prom-client: without labels, there is one series from the start.
    if (labelNames.length === 0) family.at([])
    // The registry needs only the names and values of its metrics; the label names are for the documentation.
    const registered = { name: PREFIX + metric.name, labelNames, get: () => Promise.resolve(family.get()), reset() {} }
    this.registry.registerMetric(registered as unknown as Registered)
    return family
  }
}

/**
 * The values read for one value of each common label: numbers, or maps from the values of a row's labels to numbers.
 */
type Reading<T extends Table> = readonly [
  values: readonly string[],
  read: Readonly<Record<keyof T & string, number | ReadonlyMap<string, number>>>,
]

/** Splits the values of several labels at spaces. The value of a single label may contain spaces. */
function split(values: string, { labels }: Metric): readonly string[] {
  return labels.length === 1 ? [values] : values.split(' ')
}

/** After a restart of its source, the total of a counter begins at zero again. */
function take(family: Family, values: readonly string[], amount: number): void {
  const series = family.at(values)
  if (family.metric.kind === 'gauge') series.value = amount
  else {
    series.value += amount >= series.sourceTotal ? amount - series.sourceTotal : amount
    series.sourceTotal = amount
  }
}
