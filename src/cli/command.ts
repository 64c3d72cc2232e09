/**
 * What a command is: a row of the table from which parsing, `--help`, completion and docs/commands.md are all made, so
 * that none of them can fall behind, and the function that runs it.
 */
import type { ExitCode } from './exit-code.js'
import type { Output } from './output.js'

export type FlagKind = 'boolean' | 'string' | 'file' | 'list' | 'integer' | 'duration' | 'choice'

export interface Flag {
  readonly kind: FlagKind
  /** One letter: `-n`. */
  readonly short?: string
  /** As in `--namespace NAME`. Default: one that suits the kind. */
  readonly placeholder?: string
  /** Of a choice: these and no others. Of a string: what completion offers. */
  readonly choices?: readonly string[]
  /** Of an integer or a duration (in milliseconds); default 0. */
  readonly min?: number
  readonly max?: number
  /** Sentences, without the default unless it says so itself. */
  readonly doc: string
  /** A heading of its own in `--help`. */
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

/** By the flag's name without dashes. null: not given. Durations in milliseconds. */
export type FlagValues<F extends Flags> = { readonly [K in keyof F]: ValueOf<F[K]> }

export interface Positional {
  /** As the usage line shows it: `RESOURCE`. */
  readonly name: string
  readonly isOptional?: boolean
  /** Takes all that is left. */
  readonly isRepeated?: boolean
  /** What completion offers. */
  readonly choices?: readonly string[]
}

export interface Example {
  readonly doc: string
  readonly line: string
}

export interface CommandContext<F extends Flags = Flags> {
  readonly flags: FlagValues<F>
  /** As many as the positionals allow: it is checked before. */
  readonly args: readonly string[]
  readonly out: Output
  readonly err: Output
  readonly environment: Readonly<Record<string, string | undefined>>
  /** Aborted by Ctrl-C and SIGTERM: end soon and cleanly, whatever is returned; the exit code is then the signal's. */
  readonly signal: AbortSignal
}

export interface CommandOf<F extends Flags> {
  readonly name: string
  /** One line, in the list of commands. */
  readonly summary: string
  /** Paragraphs under the usage line. */
  readonly description?: string
  readonly positionals: readonly Positional[]
  readonly flags: F
  readonly examples: readonly Example[]
  /** @throws CommandError for what is told in one line; anything else is a fault of ours and shown with its stack. */
  run(context: CommandContext<F>): Promise<ExitCode>
}

export type Command = CommandOf<Flags>

/** The flags' types reach `run`; outside, a command is like any other. */
export function defineCommand<const F extends Flags>(command: CommandOf<F>): Command {
  return command as unknown as Command
}
