/** Presents the command table to people: the overview, and `--help` of each command. */
import type { Command, Flag } from './command.js'
import { EXIT_CODES } from './exit-code.js'

const COLUMNS = 100

const PLACEHOLDERS: Readonly<Record<Flag['kind'], string>> = {
  boolean: '',
  string: 'TEXT',
  file: 'FILE',
  list: 'TEXT',
  integer: 'N',
  duration: 'DURATION',
  choice: 'CHOICE',
}

/** `get RESOURCE [NAME…] [flags]` */
export function usageOf({ name, positionals, flags }: Command): string {
  const words = positionals.map(({ name: word, isOptional, isRepeated }) => {
    const text = isRepeated === true ? `${word}…` : word
    return isOptional === true ? `[${text}]` : text
  })
  return [name, ...words, ...(Object.keys(flags).length === 0 ? [] : ['[flags]'])].join(' ')
}

/** `-n, --namespace NAME` */
export function flagUsage(name: string, { kind, short, placeholder = PLACEHOLDERS[kind] }: Flag): string {
  return `${short === undefined ? '' : `-${short}, `}--${name}${placeholder === '' ? '' : ` ${placeholder}`}`
}

/** Returns the doc, with the choices that placeholder and doc do not mention. */
export function flagDoc({ kind, choices, doc }: Flag): string {
  return kind === 'choice' && choices !== undefined ? `${doc} One of ${choices.join(', ')}.` : doc
}

export function commandHelp(command: Command): string {
  const lines = [command.summary, '', `Usage: distributary ${usageOf(command)}`]
  for (const paragraph of (command.description ?? '').split('\n\n')) {
    if (paragraph !== '') lines.push('', ...wrap(paragraph, ''))
  }
  lines.push('', 'Examples:')
  for (const { doc, line } of command.examples) lines.push(`  # ${doc}`, `  ${line}`, '')
  const groups = new Map<string, [string, Flag][]>()
  for (const [name, flag] of Object.entries(command.flags)) {
    const group = flag.group ?? 'Flags'
    groups.set(group, [...(groups.get(group) ?? []), [name, flag]])
  }
  for (const [group, flags] of groups) {
    lines.push(`${group}:`)
    for (const [name, flag] of flags) lines.push(`  ${flagUsage(name, flag)}`, ...wrap(flagDoc(flag), '        '))
    lines.push('')
  }
  lines.push('Exit codes:')
  for (const [code, meaning] of EXIT_CODES) lines.push(`  ${String(code).padEnd(3)}  ${meaning}`)
  return `${lines.join('\n')}\n`
}

/** Returns the lines for the list of commands, also in the server's own `--help`. */
export function commandList(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length))
  return commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n')
}

function wrap(text: string, indent: string): string[] {
  const lines: string[] = []
  let line = indent
  for (const word of text.split(/\s+/)) {
    if (line.length + word.length > COLUMNS && line.trim() !== '') {
      lines.push(line.trimEnd())
      line = indent
    }
    line += `${word} `
  }
  return [...lines, line.trimEnd()]
}
