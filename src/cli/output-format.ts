/** `-o`: how objects are written. */
import type { Flag } from './command.js'
import { UsageError } from './exit-code.js'
import { type Part, parseTemplate } from './jsonpath/parse.js'

export type OutputFormat =
  | { readonly kind: 'table'; readonly isWide: boolean }
  | { readonly kind: 'json' | 'yaml' | 'name' }
  | { readonly kind: 'jsonpath'; readonly template: readonly Part[] }

const NAMES = ['table', 'wide', 'json', 'yaml', 'name'] as const

export const outputFlag = {
  kind: 'string',
  short: 'o',
  placeholder: 'FORMAT',
  choices: [...NAMES, 'jsonpath='],
  doc: 'table (the default), wide, json, yaml, name, or jsonpath=TEMPLATE in kubectl’s form: jsonpath={.metadata.name}. JSON and YAML are the server’s bytes laid out: no number is rounded.',
} as const satisfies Flag

/** @throws UsageError */
export function parseOutputFormat(text: string | null): OutputFormat {
  if (text === null || text === 'table') return { kind: 'table', isWide: false }
  if (text === 'wide') return { kind: 'table', isWide: true }
  if (text === 'json' || text === 'yaml' || text === 'name') return { kind: text }
  const template = /^jsonpath=([^]+)$/.exec(text)?.[1]
  if (template === undefined) {
    throw new UsageError(`--output is one of ${NAMES.join(', ')}, jsonpath=TEMPLATE, not "${text}"`)
  }
  return { kind: 'jsonpath', template: parseTemplate(template) }
}
