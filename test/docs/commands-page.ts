/** docs/reference/commands.md, generated from the table of commands. */
import type { Option } from 'commander'
import type { Command } from '../../src/cli/command.js'
import { createCommandLine } from '../../src/cli/command-line.js'
import { createCommands } from '../../src/cli/commands.js'
import { EXIT_CODES } from '../../src/cli/exit-code.js'

const SERVER = 'Server:'

export function commandsPage(): string {
  const commands = createCommands(
    () => '',
    async () => ({ outcome: 'valid', lines: [], problems: [] }),
  )
  const { parsers } = createCommandLine(commands, async () => {})
  const shared = parsers.get(commands[0]!)!.options.filter(({ helpGroupHeading }) => helpGroupHeading === SERVER)
  return `${[
    '# Commands',
    '<!-- Generated from src/cli/ by `npm run generate`. -->',
    'Without a command, distributary is the server: see its [options](options.md). The commands talk to a distributary or any API server; all but `config check` run without the server’s code. Each command’s `--help` has the same text as this page.',
    table(
      ['command', ''],
      commands.map(({ name, summary }) => [`[\`${name}\`](#${name.replaceAll(' ', '-')})`, summary]),
    ),
    ...commands.map((command) => section(command, parsers.get(command)!)),
    '## Server',
    'Flags of every command that talks to a server.',
    flagTable(shared),
    '## Exit codes',
    table(
      ['code', 'meaning'],
      [...EXIT_CODES].map(([code, meaning]) => [String(code), meaning]),
    ),
  ].join('\n\n')}\n`
}

function section(command: Command, parser: { readonly options: readonly Option[]; usage(): string }): string {
  const { name, summary, description, examples: lines } = command
  const own = parser.options.filter(({ helpGroupHeading }) => helpGroupHeading !== SERVER)
  const examples = lines.map(({ doc, line }) => `# ${doc}\n${line}`).join('\n\n')
  return [
    `## ${name}`,
    `\`${name} ${parser.usage()}\`: ${summary}.${description === undefined ? '' : ` ${description}`}`,
    // Not a shell block: what they name exists only in the reader's own cluster.
    `\`\`\`text\n${examples}\n\`\`\``,
    ...(own.length === 0 ? [] : [flagTable(own)]),
    ...(own.length < parser.options.length ? ['Also the flags under [Server](#server).'] : []),
  ].join('\n\n')
}

function flagTable(options: readonly Option[]): string {
  return table(
    ['flag', ''],
    options.map(({ flags, description, argChoices }) => [
      `\`${flags}\``,
      argChoices === undefined ? description : `${description} One of ${argChoices.join(', ')}.`,
    ]),
  )
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
