/** The words that the three shells complete, read from the command table. */
import type { Command, Flag } from '../command.js'
import { flagDoc } from '../help-text.js'

export interface CompletedFlag {
  /** `--namespace`, and `-n` where there is one. */
  readonly spellings: readonly string[]
  readonly takesValue: boolean
  readonly takesFile: boolean
  readonly choices: readonly string[]
  /** The first sentence of the doc. */
  readonly doc: string
}

export interface CompletedCommand {
  readonly name: string
  readonly summary: string
  readonly flags: readonly CompletedFlag[]
  /** The choices of the first positional. */
  readonly choices: readonly string[]
  /** Whether names of objects come after the first positional: only the server knows them. */
  readonly takesNames: boolean
}

const HELP: Flag = { kind: 'boolean', short: 'h', doc: 'Tell all about it.' }

export function completedCommands(commands: readonly Command[]): readonly CompletedCommand[] {
  return commands.map(({ name, summary, flags, positionals }) => ({
    name,
    summary,
    flags: Object.entries({ ...flags, help: HELP }).map(([flagName, flag]) => completedFlag(flagName, flag)),
    choices: name === 'help' ? commands.map((command) => command.name) : (positionals[0]?.choices ?? []),
    takesNames: positionals[0]?.name === 'RESOURCE' && positionals[1]?.name === 'NAME',
  }))
}

function completedFlag(name: string, flag: Flag): CompletedFlag {
  const { kind, short, choices = [] } = flag
  return {
    spellings: [`--${name}`, ...(short === undefined ? [] : [`-${short}`])],
    takesValue: kind !== 'boolean',
    takesFile: kind === 'file',
    choices,
    doc: /^.*?[.:;](?=\s|$)/.exec(flagDoc(flag))?.[0].replace(/[.:;]$/, '') ?? flag.doc,
  }
}

/** Returns the text between single quotes, as bash and zsh read them. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
