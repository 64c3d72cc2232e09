/**
 * The columns of a Table for one kind, and the cells of an object. A column carries the function for its cell, so
 * that columns and cells cannot drift apart.
 */
import type { JsonNumber } from '../../codec/json-tree.js'
import { selectorText } from '../selector-text.js'
import { ageOf } from '../../../support/human-duration.js'
import { countAt, entriesAt, field, has, isTrue, listAt, scalarAt, textAt } from '../../../support/fields.js'

export interface Column {
  readonly name: string
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date'
  readonly format: string
  readonly description: string
  /** Columns of priority 0 are always shown, those of priority 1 only with `-o wide`. */
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
   * Returns one cell per column. Never throws, whatever the object looks like.
   * @param nowMs the time from which ages are counted.
   */
  cells(object: unknown, nowMs: number): readonly Cell[]
  /**
   * Returns the conditions by which `kubectl get --field-selector` and old clients hide rows; undefined when there are
   * none.
   */
  conditions?(object: unknown): readonly RowCondition[] | undefined
  /** The order of rows in a list: by this number and then by key. Default: by key. */
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

type CellOf = CellColumn['cell']

/** Makes a column of text. @param cell a function, or the path of the text. */
export function column(
  name: string,
  description: string,
  cell: CellOf | string,
  options: Partial<Pick<Column, 'type' | 'format' | 'priority'>> = {},
): CellColumn {
  const { type = 'string', format = '', priority = 0 } = options
  return { name, type, format, description, priority, cell: typeof cell === 'string' ? text(cell) : cell }
}

/** Makes a column that only `-o wide` shows. */
export function wide(name: string, description: string, cell: CellOf | string): CellColumn {
  return column(name, description, cell, { priority: 1 })
}

export function integer(name: string, description: string, cell: (object: unknown) => number): CellColumn {
  return column(name, description, cell, { type: 'integer' })
}

export function boolean(name: string, description: string, cell: (object: unknown) => boolean): CellColumn {
  return column(name, description, cell, { type: 'boolean' })
}

/** Turns a function that reads a path into a maker of cell functions for a path such as `spec.nodeName`. */
const reads =
  <T>(read: (object: unknown, ...path: readonly string[]) => T) =>
  (path: string) => {
    const names = path.split('.')
    return (object: unknown): T => read(object, ...names)
  }

export const count = reads(countAt)
export const flag = reads(isTrue)
/** The number of items of a list. */
export const length = reads((object, ...path) => listAt(object, ...path).length)
/** The items of a list: `a,b`. */
export const items = reads((object, ...path) =>
  listAt(object, ...path)
    .map(String)
    .join(','),
)
/** Labels: `a=1,b=2`, sorted; `<none>` when there are none. */
export const labels = reads((object, ...path) => {
  const all = entriesAt(object, ...path).map(([key, value]) => `${key}=${String(value)}`)
  return all.length === 0 ? '<none>' : all.sort().join(',')
})
export const selector = reads((object, ...path) => selectorText(field(object, ...path)))

/** @param otherwise the text to show instead of an empty one. */
export function or(otherwise: string, shown: (object: unknown) => string): (object: unknown) => string {
  return (object) => shown(object) || otherwise
}

/** @param otherwise the text to show if there is none, or an empty one. */
export function text(path: string, otherwise = ''): (object: unknown) => string {
  return or(otherwise, reads(textAt)(path))
}

/** Text or a number, as Quantity and IntOrString are written. */
export function scalar(path: string, otherwise: string): (object: unknown) => string {
  return reads((object, ...names) => scalarAt(otherwise, object, ...names))(path)
}

/** The age of the time that is at a path. */
export function age(path: string, otherwise: string): (object: unknown, nowMs: number) => string {
  const timeOf = reads(field)(path)
  return (object, nowMs) => (has(timeOf(object)) ? ageOf(timeOf(object), nowMs) : otherwise)
}

/** A member of each item of a list: `a,b`. */
export function each(path: string, member: string): (object: unknown) => string {
  return reads((object, ...names) =>
    listAt(object, ...names)
      .map((item) => textAt(item, member))
      .join(','),
  )(path)
}

/** Two members of a reference: `kind/name`. @param otherwise the text to show if there is no reference. */
export function reference(
  path: string,
  [first, second]: readonly [string, string],
  otherwise = '/',
): (object: unknown) => string {
  return reads((object, ...names) => {
    const target = field(object, ...names)
    return has(target) ? `${textAt(target, first)}/${textAt(target, second)}` : otherwise
  })(path)
}

export const nameOf = text('metadata.name')

export const NAME = column('Name', 'Name of the object, unique in its namespace.', nameOf, { format: 'name' })

export const AGE = column('Age', 'Time since the object was created.', age('metadata.creationTimestamp', '<unknown>'))

/** The columns after the name of the object. */
export function named(...columns: readonly CellColumn[]): Printer {
  return printer(NAME, ...columns)
}

/** The columns between the name of the object and its age. */
export function aged(...columns: readonly CellColumn[]): Printer {
  return named(...columns, AGE)
}

/** Makes columns for the names and images of the containers in a pod template. @param podSpec the path of its spec. */
export function containerColumns(podSpec: string): readonly [CellColumn, CellColumn] {
  return [
    wide('Containers', 'Names of the containers in the template.', each(`${podSpec}.containers`, 'name')),
    wide('Images', 'Images of the containers in the template.', each(`${podSpec}.containers`, 'image')),
  ]
}

/** Formats the first few items: `a,b,c + 2 more...`. */
export function firstFew(items: readonly string[], limit: number, none: string, total: number = items.length): string {
  if (items.length === 0) return none
  const shown = items.slice(0, limit).join(',')
  return total > limit && items.length > limit ? `${shown} + ${total - limit} more...` : shown
}

/** Returns the condition of a type from `status.conditions`. */
export function conditionOf(object: unknown, type: string): unknown {
  return listAt(object, 'status', 'conditions').find((condition) => textAt(condition, 'type') === type)
}
