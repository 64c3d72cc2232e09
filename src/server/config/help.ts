/**
 * Presents the option table to people and to other tools: `--help`, rows for the docs, the schema of the Helm values.
 */
import { formatBytes, formatDuration, type Option, type OptionGroup } from './option.js'
import { environmentName, type OptionName, optionNames, options, yamlKey } from './options.js'
import { RESOURCE_FIELDS } from './yaml-file.js'

export interface OptionRow {
  readonly group: OptionGroup
  /** null for an option that may come from the environment only. */
  readonly flag: string | null
  readonly environment: string
  /** null for an option that has no place in the file. */
  readonly yaml: string | null
  readonly kind: string
  /** The default as one would write it; null when there is none. */
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
      flag: option.kind === 'secret' ? null : option.flag,
      environment: environmentName(name),
      yaml: yamlKey(name),
      kind: option.kind,
      default: option.defaultText,
      range: rangeOf(option),
      doc: option.doc,
    }
  })
}

function rangeOf(option: Option<unknown>): string | null {
  if (option.choices !== null) return option.choices.join(' | ')
  if (option.min === null || option.max === null) return null
  const show = option.kind === 'bytes' ? formatBytes : option.kind === 'duration' ? formatDuration : String
  return `${show(option.min)} – ${show(option.max)}`
}

const HELP_COLUMNS = 100
const INDENT = '        '

/** The options that most servers set, in `--help`; `--help all` has every one. */
const FIRST: ReadonlySet<OptionName> = new Set([
  'etcdServers',
  'etcdPrefix',
  'etcdCafile',
  'etcdCertfile',
  'etcdKeyfile',
  'upstream',
  'passthrough',
  'natsServers',
  'bindAddress',
  'port',
  'enableWrites',
  'workers',
  'tlsCertFile',
  'tlsPrivateKeyFile',
  'resource',
  'watchCacheBytes',
  'clientCaFile',
  'tokenAuthFile',
  'authorizationMode',
  'config',
])

export function helpText(which: 'first' | 'all'): string {
  const names = which === 'all' ? optionNames : optionNames.filter((name) => FIRST.has(name))
  const lines = [
    'distributary: watch fan-out proxy and edge cache in front of etcd, in the dialect of the Kubernetes API server',
    '',
    'Usage: distributary [flags]           serve',
    '       distributary COMMAND …         ask a server, see the commands at the end',
    '',
    ...wrap(
      'Every flag can also be given in the environment (--etcd-servers is DISTRIBUTARY_ETCD_SERVERS) and, by its YAML key, in the --config file (etcdServers). A flag wins over the environment, the environment over the file.',
      '',
    ),
  ]
  let group: OptionGroup | null = null
  for (const name of names) {
    const option: Option<unknown> = options[name]
    if (option.group !== group) lines.push('', `${option.group}:`)
    group = option.group
    lines.push(`  ${usage(name)}`, ...wrap(option.doc + facts(option), INDENT))
  }
  lines.push('', '  --help [all]')
  lines.push(`${INDENT}This text; with all, the other ${optionNames.length - FIRST.size} options as well.`)
  lines.push('  --version', `${INDENT}The version.`)
  return `${lines.join('\n')}\n`
}

const PLACEHOLDERS: Readonly<Record<Option<unknown>['kind'], string>> = {
  boolean: '',
  integer: ' N',
  bytes: ' SIZE',
  duration: ' DURATION',
  string: ' TEXT',
  choice: ' CHOICE',
  file: ' FILE',
  list: ' ITEM,…',
  secret: '',
}

function usage(name: OptionName): string {
  const { kind, flag } = options[name]
  return kind === 'secret' ? `${environmentName(name)} (environment only)` : `${flag}${PLACEHOLDERS[kind]}`
}

function facts(option: Option<unknown>): string {
  const range = rangeOf(option)
  const parts = [
    ...(range === null
      ? []
      : [`${range}${option.unit === null || option.kind !== 'integer' ? '' : ` ${option.unit}`}`]),
    ...(option.defaultText === null ? [] : [`default ${option.defaultText}`]),
  ]
  return parts.length === 0 ? '' : ` (${parts.join('; ')})`
}

function wrap(text: string, indent: string): string[] {
  const lines: string[] = []
  let line = indent
  for (const word of text.split(' ')) {
    if (line.length + word.length > HELP_COLUMNS && line.trim() !== '') {
      lines.push(line.trimEnd())
      line = indent
    }
    line += `${word} `
  }
  return [...lines, line.trimEnd()]
}

/** Returns the JSON Schema (draft 7) of the YAML file, which is also that of the chart's `config` values. */
export function optionsSchema(): Readonly<Record<string, unknown>> {
  const properties: Record<string, unknown> = {}
  for (const name of optionNames) {
    const key = yamlKey(name)
    if (key === null) continue
    const option: Option<unknown> = options[name]
    properties[key] = { description: option.doc, ...option.schema }
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
