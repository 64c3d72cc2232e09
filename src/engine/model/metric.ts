/**
 * Metrics as data. A stage lists its metrics in a table and gets a recording function for each row, so a metric is
 * named, explained and typed in one place. No stage knows Prometheus, and `server/metrics/metric-set.ts`, which turns
 * rows into series, knows no stage.
 */

type Kind = 'counter' | 'gauge' | 'histogram'

/** How the values of several processes are combined. The result is their sum if each process has only its share. */
export type OverProcesses = 'sum' | 'min' | 'max' | 'first'

/** @typeParam V the types of the label values that a recording function takes. */
export interface Metric<K extends Kind = Kind, V extends readonly string[] = readonly string[]> {
  readonly kind: K
  /** The name without the prefix `distributary_`. */
  readonly name: string
  readonly help: string
  /** The labels in addition to those of the whole table, such as `group` and `resource`. */
  readonly labels: readonly string[]
  /** The values of the first labels, if the row is only a part of the metric. */
  readonly fixed: readonly string[]
  /**
   * The label values of series that exist before anything is recorded. Prometheus sees no increase when a counter first
   * appears with a count, so an alert on something that happens once would not fire.
   */
  readonly announced: readonly (readonly string[])[]
  readonly overProcesses: OverProcesses
  /** Whether a recorded amount is added to the gauge instead of becoming its value. */
  readonly isChanged: boolean
  /** The upper bounds of a histogram. */
  readonly buckets: readonly number[]
  /** Exists only for the type `V`; never set. */
  readonly values?: V
}

export type Table = Readonly<Record<string, Metric>>

/** Takes the label values and the amount. The default amount of a counter is 1. */
export type Recorder<M> =
  M extends Metric<'counter', infer V>
    ? (...recorded: [...labels: V, amount?: number]) => void
    : M extends Metric<Kind, infer V>
      ? (...recorded: [...labels: V, amount: number]) => void
      : never
export type Recorders<T extends Table> = { readonly [Name in keyof T]: Recorder<T[Name]> }

/** The buckets range from 0.1 ms (one pass at the head) to 10 s (a peer that is far behind). */
const DELAY_BUCKETS = [0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

type Names<V extends readonly string[]> = { readonly [I in keyof V]: string }

/** Takes the name and the help of a metric and the names of its labels. */
type Named<K extends Kind> = <V extends readonly string[] = []>(
  name: string,
  help: string,
  ...labels: Names<V>
) => Metric<K, V>

function metric<K extends Kind>(kind: K, rest: Partial<Omit<Metric, 'values'>> = {}): Named<K> {
  const common = { fixed: [], announced: [], overProcesses: 'sum', isChanged: false, buckets: DELAY_BUCKETS } as const
  return (name, help, ...labels) => ({ ...common, ...rest, kind, name, help, labels })
}

export const counter = metric('counter')

/** A histogram of seconds. */
export const seconds = metric('histogram')

export function gauge<V extends readonly string[] = []>(
  overProcesses: OverProcesses,
  name: string,
  help: string,
  ...labels: Names<V>
): Metric<'gauge', V> {
  return metric('gauge', { overProcesses })<V>(name, help, ...labels)
}

/** A gauge of what is in progress. A recorded amount is added to it. */
export const inProgress = metric('gauge', { isChanged: true })

/** Returns the part of a metric with this value of its label. */
export function only<K extends Kind, V extends string>(whole: Metric<K, [V]>, value: V): Metric<K, []> {
  const { values: _, ...rest } = whole
  return { ...rest, fixed: [value] }
}

export function announced<K extends Kind, V extends readonly string[]>(
  row: Metric<K, V>,
  ...series: NoInfer<V>[]
): Metric<K, V> {
  return { ...row, announced: series }
}
