/**
 * A command: a row of the command table, with the function that runs it. Parsing, `--help` and docs/reference/commands.md all use
 * that table, so they cannot contradict each other.
 */
import type { ExitCode } from './exit-code.js'
import type { Output } from './command-output.js'

export type FlagKind = 'boolean' | 'string' | 'list' | 'integer' | 'duration' | 'choice'

export interface Flag {
  readonly kind: FlagKind
  /** One letter, as in `-n`. */
  readonly short?: string
  /** The placeholder, as in `--namespace <NAME>`. The default depends on the kind. */
  readonly placeholder?: string
  /** The allowed values of a choice. */
  readonly choices?: readonly string[]
  /** The minimum integer, or the minimum duration in milliseconds; default 0. */
  readonly min?: number
  readonly max?: number
  /** The description, in full sentences. It mentions the default only if nothing else shows it. */
  readonly doc: string
  /** The heading in `--help` that the flag belongs to. */
  readonly group?: string
}

export type Flags = Readonly<Record<string, Flag>>

type ValueOf<F extends Flag> = F['kind'] extends 'boolean'
  ? boolean
  : F['kind'] extends 'list'
    ? readonly string[]
    : F['kind'] extends 'integer' | 'duration'
      ? number | null
      : F extends { readonly kind: 'choice'; readonly choices: readonly (infer C)[] }
        ? C | null
        : string | null

/** Values by the flag's name without dashes; null for a flag that is not given. Durations are in milliseconds. */
export type FlagValues<F extends Flags> = { readonly [K in keyof F]: ValueOf<F[K]> }

/** Puts flags under a heading of `--help`. */
export function inGroup<const F extends Flags>(group: string, flags: F): F {
  return Object.fromEntries(Object.entries(flags).map(([name, flag]) => [name, { ...flag, group }])) as F
}

/** The value of a flag that is not given. */
export function absent({ kind }: Flag): false | readonly string[] | null {
  return kind === 'boolean' ? false : kind === 'list' ? [] : null
}

export interface Example {
  readonly doc: string
  readonly line: string
}

export interface CommandContext<F extends Flags = Flags> {
  readonly flags: FlagValues<F>
  /** The positional arguments. Their number has already been checked. */
  readonly args: readonly string[]
  readonly out: Output
  readonly err: Output
  readonly environment: Readonly<Record<string, string | undefined>>
  /**
   * Aborted by Ctrl-C and SIGTERM. The command should then end soon and cleanly. The exit code is the signal's,
   * whatever the command returns.
   */
  readonly signal: AbortSignal
}

export interface CommandOf<F extends Flags> {
  /** One word, or two as in `config check`. */
  readonly name: string
  /** One line for the list of commands. */
  readonly summary: string
  /** The paragraphs under the usage line. */
  readonly description?: string
  /** As in the usage line: `<RESOURCE> [NAME...]`. */
  readonly positionals: string
  /** Whether unknown flags are passed as arguments, because they are meant for another program. */
  readonly passesFlags?: boolean
  readonly flags: F
  readonly examples: readonly Example[]
  /** @throws CommandError for a failure to report in one line. Any other error is a bug and is shown with its stack. */
  run(context: CommandContext<F>): Promise<ExitCode>
}

export type Command = CommandOf<Flags>

/**
 * Defines a command. Its `run` sees the exact types of its flags, but for the rest of the program all commands have the
 * same type.
 */
export function defineCommand<const F extends Flags>(command: CommandOf<F>): Command {
  return command as unknown as Command
}
