/** The option table for other tools: rows for docs/reference/options.md, and the schema of the chart's `config` values. */
import { rangeOf } from '../../src/server/config/help.js'
import { OptionValueError } from '../../src/server/config/option.js'
import {
  environmentName,
  type Option,
  type OptionGroup,
  optionNames,
  options,
  yamlKey,
} from '../../src/server/config/options.js'
import { RESOURCE_FIELDS } from '../../src/server/config/yaml-file.js'

type Schema = Readonly<Record<string, unknown>>

export interface OptionRow {
  readonly group: OptionGroup
  readonly flag: string
  /** null for an option that is set only in the file. */
  readonly environment: string | null
  /** The key in the file; null for an option that cannot be set there. */
  readonly yaml: string | null
  /** The default in readable form; null without one. */
  readonly default: string | null
  /** A range such as `1s – 24h` or `expire | coalesce`; null when every value of the kind is allowed. */
  readonly range: string | null
  readonly doc: string
}

/** Returns one row for each option, in the table's order. */
export function optionRows(): readonly OptionRow[] {
  return optionNames.map((name) => {
    const option: Option<unknown> = options[name]
    return {
      group: option.group,
      flag: option.flag,
      environment: option.isFileOnly === true ? null : environmentName(name),
      yaml: yamlKey(name),
      default: option.defaultText,
      range: rangeOf(option),
      doc: option.doc,
    }
  })
}

/** Returns the JSON Schema (draft 7) of the YAML file, which is also that of the chart's `config` values. */
export function optionsSchema(): Schema {
  const properties: Record<string, Schema> = {}
  for (const name of optionNames) {
    const key = yamlKey(name)
    if (key !== null) properties[key] = { description: options[name].doc, ...schemaOf(options[name]) }
  }
  const types = {
    string: { type: 'string' },
    boolean: { type: 'boolean' },
    strings: { type: 'array', items: { type: 'string' } },
  }
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    additionalProperties: false,
    properties: {
      ...properties,
      resources: {
        description:
          'The resource table: known resources by name, with - in front to leave one out, and etcd prefixes served as resources.',
        type: 'array',
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['name'],
          properties: Object.fromEntries(Object.entries(RESOURCE_FIELDS).map(([field, type]) => [field, types[type]])),
        },
      },
    },
  }
}

/** Returns the JSON Schema of an option's value in YAML. */
function schemaOf(option: Option<unknown>): Schema {
  const whole = { type: 'integer', minimum: option.min, maximum: option.max }
  switch (option.kind) {
    case 'boolean':
      return { type: 'boolean' }
    case 'integer':
      return accepts(option, 'off') ? { anyOf: [whole, { const: 'off' }] } : whole
    case 'fraction':
      return { ...whole, type: 'number' }
    case 'bytes':
      return { anyOf: [whole, { type: 'string', pattern: '^[0-9]+(\\.[0-9]+)? ?[A-Za-z]{0,3}$' }] }
    case 'duration':
      return {
        anyOf: [
          { type: 'integer', minimum: 0 },
          { type: 'string', pattern: '^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$|^[0-9]+$' },
        ],
      }
    case 'choice':
      return { enum: option.choices }
    case 'list':
      return { type: 'array', items: option.choices === null ? { type: 'string' } : { enum: option.choices } }
    case 'string':
    case 'file':
      return { type: 'string' }
  }
}

function accepts(option: Option<unknown>, text: string): boolean {
  try {
    option.parse([text])
    return true
  } catch (error) {
    if (error instanceof OptionValueError) return false
    throw error
  }
}
