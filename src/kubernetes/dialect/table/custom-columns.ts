/**
 * The columns of kinds that have no file of their own: a CRD's columns (`additionalPrinterColumns`), the columns of a
 * declared prefix, and plain ones for any other kind.
 */
import { evaluatePath, JsonPathError } from '../../codec/json-path/evaluate.js'
import { goNumber } from '../../../engine/facts/numbers.js'
import { type JsonPath, JsonPathSyntaxError, parseJsonPath } from '../../codec/json-path/parse.js'
import { printedValue } from '../../codec/json-path/print.js'
import { TooMuchWorkError, Work } from '../../codec/json-path/work.js'
import { isNumber, type Json, JsonNumber, jsonText } from '../../codec/json-tree.js'
import type { PrinterColumn } from '../resource-registry.js'
import { entriesAt, field, textAt } from '../../../support/fields.js'
import { ageOf } from '../../../support/human-duration.js'
import {
  AGE,
  aged,
  type Cell,
  type CellColumn,
  type Column,
  column,
  count,
  NAME,
  named,
  type Printer,
  text,
  wide,
} from './printer.js'

/** The longest excerpt of a value in characters, which leaves room for the other columns on a screen. */
const EXCERPT_LENGTH = 60

/**
 * The number of values that all columns of a definition together may examine for one row, which takes some milliseconds
 * of the event loop. Columns beyond that show nothing. Usual columns examine a few dozen values each.
 */
const ROW_VALUES = 50_000

const createdAt = text('metadata.creationTimestamp')

/** The columns that the API server shows for a kind that defines none. */
export const plainPrinter: Printer = named(
  column('Created At', 'When the object was created.', (object) => createdAt(object) || null, { type: 'date' }),
)

/** A declared prefix of values. There is no age, because etcd keeps no times. */
export const valuesPrinter: Printer = named(
  column('Value', 'The value, or its beginning.', valueExcerpt),
  column('Create Revision', 'Revision at which the key was created.', count('createRevision'), {
    type: 'integer',
    priority: 1,
  }),
  column('Version', 'Number of writes since the key was created.', count('version'), { type: 'integer', priority: 1 }),
  wide('Lease', 'Lease that the key is attached to, in hexadecimal as etcdctl prints it.', leaseId),
)

/** A declared prefix of whole objects. */
export const objectsPrinter: Printer = aged(column('Value', 'The object, or its beginning.', contentExcerpt))

/** The column of a definition that declares none. */
const CUSTOM_AGE: PrinterColumn = {
  name: AGE.name,
  type: 'date',
  format: '',
  description: AGE.description,
  priority: 0,
  jsonPath: '.metadata.creationTimestamp',
}

/** As in the API server, the first column whose path is not a JSONPath is left out, along with all columns after it. */
export function customPrinter(columns: readonly PrinterColumn[] | undefined): Printer {
  const custom: CustomColumn[] = []
  for (const given of columns === undefined || columns.length === 0 ? [CUSTOM_AGE] : columns) {
    const path = pathOf(given)
    if (path === null) break
    custom.push({ ...definitionOf(given), path })
  }
  return {
    columns: [...named().columns, ...custom.map(({ path: _path, ...definition }) => definition)],
    cells: (object, nowMs) => {
      const work = new Work(ROW_VALUES)
      return [NAME.cell(object, nowMs), ...custom.map((one) => customCell(one, object as Json, nowMs, work))]
    },
  }
}

interface CustomColumn extends Column {
  readonly path: JsonPath
}

function pathOf({ jsonPath }: PrinterColumn): JsonPath | null {
  try {
    return parseJsonPath(jsonPath)
  } catch (error) {
    if (error instanceof JsonPathSyntaxError) return null
    throw error
  }
}

function definitionOf(given: PrinterColumn): Column {
  return {
    name: given.name,
    type: TYPES.has(given.type) ? (given.type as CellColumn['type']) : 'string',
    format: given.format,
    description: given.description || `Custom resource definition column (in JSONPath format): ${given.jsonPath}`,
    priority: given.priority,
  }
}

const TYPES: ReadonlySet<string> = new Set(['string', 'integer', 'number', 'boolean', 'date'])

/**
 * Shows the first value that the path leads to; a value that does not have the column's type shows as nothing.
 * Source: the API server's table of custom resources (`tableconvertor`).
 */
function customCell({ type, path }: CustomColumn, object: Json, nowMs: number, work: Work): Cell {
  const value = firstFound(path, object, work)
  if (value === undefined) return null
  if (type === 'string') return value === null ? '<no value>' : printedValue(value)
  switch (type) {
    case 'integer':
      return isNumber(value) ? int64Cell(value) : null
    case 'number':
      return isNumber(value) ? Number(value instanceof JsonNumber ? value.text : value) : null
    case 'boolean':
      return typeof value === 'boolean' ? value : null
    case 'date':
      return typeof value === 'string' ? ageOf(value, nowMs) : null
  }
}

/** Returns undefined also for a value that would take too much work to find or to print. */
function firstFound(path: JsonPath, object: Json, work: Work): Json | undefined {
  try {
    const [value] = evaluatePath(path, object, work)
    if (value !== undefined) work.read(value)
    return value
  } catch (error) {
    if (error instanceof JsonPathError || error instanceof TooMuchWorkError) return undefined
    throw error
  }
}

/** What Go gives for a float that no int64 can hold, on the processors that Kubernetes runs on. */
const INT64_OVERFLOW = new JsonNumber('-9223372036854775808')

function int64Cell(value: number | JsonNumber): Cell {
  const number = goNumber(value)
  const int =
    number.kind === 'int' ? number.int : Math.abs(number.float) < 2 ** 63 ? BigInt(Math.trunc(number.float)) : null
  if (int === null) return INT64_OVERFLOW
  return Number.isSafeInteger(Number(int)) ? Number(int) : new JsonNumber(String(int))
}

function leaseId(object: unknown): string {
  const decimal = textAt(object, 'lease')
  return /^\d+$/.test(decimal) ? BigInt(decimal).toString(16).padStart(16, '0') : '<none>'
}

function valueExcerpt(object: unknown): string {
  const text = field(object, 'text')
  if (typeof text === 'string') return excerpt(text)
  const value = field(object, 'value')
  if (value !== undefined) return excerpt(jsonText(value as Json))
  return `<${Buffer.byteLength(textAt(object, 'bytes'), 'base64')} bytes>`
}

function contentExcerpt(object: unknown): string {
  const members = entriesAt(object).filter(([name]) => name !== 'kind' && name !== 'apiVersion' && name !== 'metadata')
  return excerpt(jsonText(Object.fromEntries(members) as Json))
}

/** Puts a value on one line and removes control characters, which must not be sent to a terminal. */
function excerpt(text: string): string {
  const line = text.slice(0, EXCERPT_LENGTH + 1).replace(/\p{C}+/gu, ' ')
  return line.length > EXCERPT_LENGTH ? `${line.slice(0, EXCERPT_LENGTH - 3)}...` : line
}
