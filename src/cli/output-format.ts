/** `-o`: the format in which objects are written. */
import type { Flag } from './command.js'
import { UsageError } from './exit-code.js'
import { type CustomColumn, parseCustomColumns } from './custom-columns.js'
import { type Part, parseTemplate } from './jsonpath/parse.js'

export type OutputFormat =
  | { readonly kind: 'table'; readonly isWide: boolean }
  | { readonly kind: 'json' | 'yaml' | 'name' }
  | { readonly kind: 'jsonpath'; readonly template: readonly Part[] }
  | { readonly kind: 'custom-columns'; readonly columns: readonly CustomColumn[] }

const NAMES = ['table', 'wide', 'json', 'yaml', 'name'] as const

export const outputFlag = {
  kind: 'string',
  short: 'o',
  placeholder: 'FORMAT',
  choices: [...NAMES, 'jsonpath=', 'custom-columns='],
  doc: 'table (the default), wide, json, yaml, name, or in kubectl’s form jsonpath=TEMPLATE (jsonpath={.metadata.name}) and custom-columns=HEADER:PATH,… (custom-columns=NAME:.metadata.name). In JSON and YAML no number is rounded, and each object of a list has its kind.',
} as const satisfies Flag

/** @throws UsageError */
export function parseOutputFormat(text: string | null): OutputFormat {
  if (text === null || text === 'table') return { kind: 'table', isWide: false }
  if (text === 'wide') return { kind: 'table', isWide: true }
  if (text === 'json' || text === 'yaml' || text === 'name') return { kind: text }
  const columns = /^custom-columns=([^]*)$/.exec(text)?.[1]
  if (columns !== undefined) return { kind: 'custom-columns', columns: parseCustomColumns(columns) }
  const template = /^jsonpath=([^]+)$/.exec(text)?.[1]
  if (template === undefined) {
    throw new UsageError(
      `--output is one of ${NAMES.join(', ')}, jsonpath=TEMPLATE, custom-columns=HEADER:PATH, not "${text}"`,
    )
  }
  return { kind: 'jsonpath', template: parseTemplate(template) }
}
