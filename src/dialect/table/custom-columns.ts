/**
 * Columns that are not written for a kind: a CRD's own (`additionalPrinterColumns`), those of a declared prefix, and the
 * plain ones of any other kind.
 */
import type { PrinterColumn } from '../resource-registry.js'
import { countAt, entriesAt, field, has, textAt } from './fields.js'
import { ageOf } from './human-duration.js'
import { firstMatch, type JsonPath, parseJsonPath } from './json-path.js'
import { AGE, type Cell, type CellColumn, column, NAME, type Printer, printer } from './printer.js'

/** Longest excerpt of a value, in characters: what still leaves room for the other columns on a screen. */
const EXCERPT_LENGTH = 60

/** What the API server shows of a kind that it has no columns for. */
export const plainPrinter: Printer = printer(
  NAME,
  column(
    'Created At',
    'date',
    'When the object was created.',
    (object) => textAt(object, 'metadata', 'creationTimestamp') || null,
  ),
)

/** A declared prefix holds whatever its owner writes: Kubernetes-like objects, or values wrapped as KeyValue. */
export const declaredPrinter: Printer = printer(
  NAME,
  column('Value', 'string', 'The value, or its beginning.', valueExcerpt),
  column(
    'Create Revision',
    'integer',
    'Revision at which the key was made.',
    (object) => orNull(object, 'createRevision'),
    {
      priority: 1,
    },
  ),
  column('Version', 'integer', 'Writes since the key was made.', (object) => orNull(object, 'version'), {
    priority: 1,
  }),
  column('Lease', 'string', 'Lease the key goes with.', (object) => textAt(object, 'lease') || '<none>', {
    priority: 1,
  }),
  AGE,
)

export function customPrinter(columns: readonly PrinterColumn[] | undefined): Printer {
  if (columns === undefined || columns.length === 0) {
    return printer(NAME, { ...AGE, type: 'date' })
  }
  return printer(NAME, ...columns.map(customColumn))
}

function customColumn(given: PrinterColumn): CellColumn {
  const path = parseJsonPath(given.jsonPath)
  const type = TYPES.has(given.type) ? (given.type as CellColumn['type']) : 'string'
  return {
    name: given.name,
    type,
    format: given.format,
    description: given.description || `Custom resource definition column (in JSONPath format): ${given.jsonPath}`,
    priority: given.priority,
    cell: (object, nowMs) => (path === null ? null : customCell(type, object, path, nowMs)),
  }
}

const TYPES: ReadonlySet<string> = new Set(['string', 'integer', 'number', 'boolean', 'date'])

/** A value that is not of the column's type shows as nothing. Source: the API server's table of custom resources. */
function customCell(type: CellColumn['type'], object: unknown, path: JsonPath, nowMs: number): Cell {
  const value = firstMatch(object, path)
  if (value === undefined || value === null) return null
  switch (type) {
    case 'string':
      return typeof value === 'string' ? value : JSON.stringify(value)
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : null
    case 'number':
      return typeof value === 'number' ? value : null
    case 'boolean':
      return typeof value === 'boolean' ? value : null
    case 'date':
      return typeof value === 'string' ? ageOf(value, nowMs) : null
  }
}

function orNull(object: unknown, member: string): Cell {
  return isKeyValue(object) ? countAt(object, member) : null
}

/** As `key-value-object.ts` makes them. */
function isKeyValue(object: unknown): boolean {
  return typeof field(object, 'key') === 'string' && has(object, 'createRevision')
}

function valueExcerpt(object: unknown): string {
  if (isKeyValue(object)) {
    const text = field(object, 'text')
    if (typeof text === 'string') return excerpt(text)
    const bytes = Buffer.byteLength(textAt(object, 'base64'), 'base64')
    return `<${bytes} bytes>`
  }
  const members = entriesAt(object).filter(([name]) => name !== 'kind' && name !== 'apiVersion' && name !== 'metadata')
  return excerpt(JSON.stringify(Object.fromEntries(members)))
}

/** On one line: control characters are what a terminal must not be sent. */
function excerpt(text: string): string {
  const line = text.slice(0, EXCERPT_LENGTH + 1).replace(/\p{C}+/gu, ' ')
  return line.length > EXCERPT_LENGTH ? `${line.slice(0, EXCERPT_LENGTH - 3)}...` : line
}
