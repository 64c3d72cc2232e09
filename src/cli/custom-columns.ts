/**
 * `-o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image`: a table of the values that paths find, as in
 * kubectl.
 */
import type { JsonPath } from '../codec/json-path/parse.js'
import { printedValue } from '../codec/json-path/print.js'
import { type Json, textMember } from '../codec/json-tree.js'
import { UsageError } from './exit-code.js'
import { found } from './jsonpath/evaluate.js'
import { parseTemplate } from './jsonpath/parse.js'
import type { Row } from './table/table-codec.js'

export interface CustomColumn {
  readonly header: string
  readonly path: JsonPath
}

/** @throws UsageError */
export function parseCustomColumns(text: string): readonly CustomColumn[] {
  return splitOutside(text, ',').map((column) => {
    const [header = '', ...rest] = column.split(':')
    const expression = rest.join(':')
    if (header === '' || expression === '') {
      throw new UsageError(`custom-columns are HEADER:PATH, separated by commas, not ${JSON.stringify(column)}`)
    }
    return { header, path: parsePath(expression, `custom column ${header}`) }
  })
}

/** Parses one expression, with or without braces. @throws UsageError */
export function parsePath(expression: string, what: string): JsonPath {
  const parts = parseTemplate(expression)
  const [part] = parts
  if (parts.length !== 1 || part?.kind !== 'path') throw new UsageError(`${what}: ${expression} is not one path`)
  return part.path
}

/** Several values of one path are separated by commas; no value is `<none>`. */
export function customRow(columns: readonly CustomColumn[], object: Json): Row {
  const cells = columns.map(({ path }) => {
    const values = found(path, object)
    return values.length === 0
      ? null
      : values.map((value) => (value === null ? '<nil>' : printedValue(value))).join(',')
  })
  return {
    columns: columns.map(({ header }) => ({ name: header, priority: 0 })),
    cells,
    namespace: '',
    name: textMember(object, 'metadata', 'name'),
    resourceVersion: textMember(object, 'metadata', 'resourceVersion'),
    object,
  }
}

/** Splits at separators outside brackets, braces and quotes, since a filter may contain a comma. */
function splitOutside(text: string, separator: string): string[] {
  const parts = ['']
  let depth = 0
  let quote = ''
  for (const character of text) {
    if (quote !== '') quote = character === quote ? '' : quote
    else if (character === '"' || character === "'") quote = character
    else if ('[{('.includes(character)) depth++
    else if (')}]'.includes(character)) depth--
    if (character === separator && depth === 0 && quote === '') parts.push('')
    else parts[parts.length - 1] += character
  }
  return parts
}
