/**
 * The columns of a Table for one kind, and the cells of an object. A column carries the function for its cell, so that
 * the two cannot drift apart.
 */
import type { JsonNumber } from '../../codec/json-tree.js'
import { ageOf } from '../../../support/human-duration.js'
import { entriesAt, field, listAt, textAt } from '../../../support/fields.js'

export interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date'
  readonly format: string
  readonly description: string
  /** 0 is always shown, 1 only by `-o wide`. */
  readonly priority: number
}

/** A JsonNumber is an integer that JavaScript numbers cannot represent. */
export type Cell = string | number | boolean | null | JsonNumber

export interface RowCondition {
  readonly type: 'Completed'
  readonly status: 'True'
  readonly reason: string
  readonly message: string
}

export interface Printer {
  readonly columns: readonly Column[]
  /**
   * Returns one cell per column. Never throws, whatever the object looks like. @param nowMs the time that ages are
   * counted from.
   */
  cells(object: unknown, nowMs: number): readonly Cell[]
  /**
   * Returns the conditions by which `kubectl get --field-selector` and old clients hide rows; undefined when there are
   * none.
   */
  conditions?(object: unknown): readonly RowCondition[] | undefined
  /**
   * Rows of a list are in the order of these numbers, and of the keys where they are equal. Default: that of the keys.
   */
  readonly order?: (object: unknown) => number
}

export interface CellColumn extends Column {
  readonly cell: (object: unknown, nowMs: number) => Cell
}

export function printer(...columns: readonly CellColumn[]): Printer {
  return {
    columns: definitions(columns),
    cells: (object, nowMs) => columns.map(({ cell }) => cell(object, nowMs)),
  }
}

/** The columns without their functions, with members in the order in which a Table has them. */
export function definitions(columns: readonly CellColumn[]): readonly Column[] {
  return columns.map(({ name, type, format, description, priority }) => ({ name, type, format, description, priority }))
}

export function column(
  name: string,
  type: Column['type'],
  description: string,
  cell: CellColumn['cell'],
  options: { readonly priority?: number; readonly format?: string } = {},
): CellColumn {
  return { name, type, format: options.format ?? '', description, priority: options.priority ?? 0, cell }
}

/** Makes a column that only `-o wide` shows. */
export function wide(name: string, description: string, cell: CellColumn['cell']): CellColumn {
  return column(name, 'string', description, cell, { priority: 1 })
}

export const nameOf = (object: unknown): string => textAt(object, 'metadata', 'name')

export const NAME = column('Name', 'string', 'Name of the object, unique in its namespace.', nameOf, { format: 'name' })

export const AGE = column('Age', 'string', 'Time since the object was created.', (object, nowMs) =>
  ageOf(field(object, 'metadata', 'creationTimestamp'), nowMs),
)

/**
 * Makes columns for the names and images of the containers in a pod template. @param podSpec the path to the template's
 * spec.
 */
export function containerColumns(...podSpec: readonly string[]): readonly [CellColumn, CellColumn] {
  const joined = (object: unknown, member: string): string =>
    listAt(object, ...podSpec, 'containers')
      .map((container) => textAt(container, member))
      .join(',')
  return [
    wide('Containers', 'Names of the containers in the template.', (object) => joined(object, 'name')),
    wide('Images', 'Images of the containers in the template.', (object) => joined(object, 'image')),
  ]
}

/** Returns `a=1,b=2`, sorted; `<none>` when there are none. */
export function formatLabels(object: unknown, ...path: readonly string[]): string {
  const labels = entriesAt(object, ...path).map(([key, value]) => `${key}=${String(value)}`)
  return labels.length === 0 ? '<none>' : labels.sort().join(',')
}

/** `a,b,c + 2 more...`. */
export function firstFew(items: readonly string[], limit: number, none: string, total: number = items.length): string {
  if (items.length === 0) return none
  const shown = items.slice(0, limit).join(',')
  return total > limit && items.length > limit ? `${shown} + ${total - limit} more...` : shown
}

/** Returns the condition of a type from `status.conditions`. */
export function conditionOf(object: unknown, type: string): unknown {
  return listAt(object, 'status', 'conditions').find((condition) => textAt(condition, 'type') === type)
}
