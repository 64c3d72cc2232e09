import type { Recorders, Table } from '../../src/engine/model/metric.js'

/** The metrics of a stage whose test looks at none of them. */
export function silent<T extends Table>(table: T): Recorders<T> {
  return Object.fromEntries(Object.keys(table).map((name) => [name, () => {}])) as unknown as Recorders<T>
}
