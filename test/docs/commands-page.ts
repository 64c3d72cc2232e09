/** docs/commands.md, from the table of commands. */
import { createCommands } from '../../src/cli/commands.js'
import type { Command, Flag } from '../../src/cli/command.js'
import { EXIT_CODES } from '../../src/cli/exit-code.js'
import { flagDoc, flagUsage, usageOf } from '../../src/cli/help-text.js'

export function commandsPage(): string {
  const commands = createCommands(
    async () => [],
    () => '',
    async () => ({ outcome: 'valid', lines: [], problems: [] }),
  )
  const shared = sharedFlags(commands)
  return `${[
    '# Commands',
    '<!-- Made from src/cli/ by `npm run generate`. -->',
    'With no command, the first word being a flag or none, it is the server: [options](options.md). The commands ask a server, distributary or any API server; none of them but `config check` loads the server’s code. `--help` of each tells what stands here.',
    table(
      ['command', ''],
      commands.map(({ name, summary }) => [`[\`${name}\`](#${name})`, summary]),
    ),
    ...commands.map((command) => section(command, shared)),
    '## Server',
    'Which server, and as whom: flags of every command that asks one.',
    flagTable(shared),
    '## Exit codes',
    table(
      ['code', 'meaning'],
      [...EXIT_CODES].map(([code, meaning]) => [String(code), meaning]),
    ),
  ].join('\n\n')}\n`
}

type Entry = readonly [name: string, flag: Flag]

function sharedFlags(commands: readonly Command[]): readonly Entry[] {
  const flags = new Map<string, Flag>()
  for (const command of commands) {
    for (const [name, flag] of Object.entries(command.flags)) if (flag.group === 'Server') flags.set(name, flag)
  }
  return [...flags]
}

function section(command: Command, shared: readonly Entry[]): string {
  const names = new Set(shared.map(([name]) => name))
  const own = Object.entries(command.flags).filter(([name]) => !names.has(name))
  const asksServer = Object.keys(command.flags).some((name) => names.has(name))
  const examples = command.examples.map(({ doc, line }) => `# ${doc}\n${line}`).join('\n\n')
  return [
    `## ${command.name}`,
    `**${usageOf(command)}**: ${command.summary}.${command.description === undefined ? '' : ` ${command.description}`}`,
    // No shell block: what they name is there only in the reader's own cluster.
    `\`\`\`text\n${examples}\n\`\`\``,
    ...(own.length === 0 ? [] : [flagTable(own)]),
    ...(asksServer ? ['And those of [Server](#server).'] : []),
  ].join('\n\n')
}

function flagTable(flags: readonly Entry[]): string {
  return table(
    ['flag', ''],
    flags.map(([name, flag]) => [`\`${flagUsage(name, flag)}\``, flagDoc(flag)]),
  )
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}
