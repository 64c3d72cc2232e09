/**
 * Builds the parser of all commands from their table. The package commander does the parsing, the suggestions and
 * `--help`.
 */
import { Argument, Command as Parser, InvalidArgumentError, Option } from 'commander'
import { absent, type Command, type Flag, type FlagKind, type Flags, type FlagValues } from './command.js'
import { EXIT_CODES } from './exit-code.js'
import { parseDuration } from '../support/duration.js'

/** Commands of earlier versions, and what to use instead of each. */
const REMOVED = {
  watch: 'use get -w, or get --watch-only for changes alone',
  bench: 'run npm run bench in a clone of the repository; top shows what a server delivers',
}

const PLACEHOLDERS: Readonly<Record<FlagKind, string>> = {
  boolean: '',
  string: 'TEXT',
  list: 'TEXT',
  integer: 'N',
  duration: 'DURATION',
  choice: 'CHOICE',
}

export interface CommandLine {
  /** Throws a CommanderError after it has printed what is wrong, or the requested help. */
  readonly program: Parser
  /** The parser of each command, from which docs/reference/commands.md lists the flags. */
  readonly parsers: ReadonlyMap<Command, Parser>
}

export type Run = (command: Command, flags: FlagValues<Flags>, args: readonly string[]) => Promise<void>

export function createCommandLine(commands: readonly Command[], run: Run): CommandLine {
  const program = new Parser('distributary')
    .usage('COMMAND, or no command to run the server')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'distributary: ')) })
    // A help flag here would never be used, because main.ts starts the server when the first word is a flag.
    .helpOption(false)
  for (const [name, advice] of Object.entries(REMOVED)) {
    program
      .command(`${name} [arguments...]`, { hidden: true })
      .allowUnknownOption()
      .action(() => program.error(`distributary ${name} was removed: ${advice}`))
  }
  const parsers = new Map(commands.map((command) => [command, addParser(program, command, run)]))
  return { program, parsers }
}

function addParser(program: Parser, command: Command, run: Run): Parser {
  const { name, summary, description = '', positionals, flags, examples } = command
  const words = name.split(' ')
  let parser = program
  for (const word of words) {
    parser =
      parser.commands.find((one) => one.name() === word) ??
      parser.command(word).helpOption('-h, --help').summary(summary)
  }
  const help = [
    ['Examples:', ...examples.flatMap(({ doc, line }) => [`  # ${doc}`, `  ${line}`])],
    ['Exit codes:', ...[...EXIT_CODES].map(([code, meaning]) => `  ${String(code).padEnd(3)}  ${meaning}`)],
  ]
  parser
    .description([summary, description].filter((text) => text !== '').join('\n\n'))
    .showHelpAfterError(`See distributary ${name} --help.`)
    .addHelpText('after', `\n${help.map((lines) => lines.join('\n')).join('\n\n')}`)
    .action(async () => await run(command, valuesOf(flags, parser), parser.args))
  for (const word of positionals.split(' ')) if (word !== '') parser.addArgument(new Argument(word))
  for (const [flagName, flag] of Object.entries(flags)) parser.addOption(optionOf(flagName, flag))
  if (command.passesFlags === true) parser.allowUnknownOption()
  return parser
}

function optionOf(name: string, flag: Flag): Option {
  const { kind, short, placeholder = PLACEHOLDERS[kind], choices, doc, group } = flag
  const spelling = `${short === undefined ? '' : `-${short}, `}--${name}`
  if (kind === 'boolean') return grouped(new Option(spelling, doc), group)
  const option = grouped(new Option(`${spelling} <${placeholder}>`, doc), group)
  if (choices !== undefined) option.choices(choices)
  // kubectl accepts `-o=json`, so this does too.
  const textOf = (text: string): string => (short === undefined ? text : text.replace(/^=/, ''))
  return kind === 'list'
    ? option.argParser<readonly string[] | undefined>((text, previous) => [...(previous ?? []), text])
    : option.argParser((text) => valueOf(flag, textOf(text)))
}

function grouped(option: Option, group: string | undefined): Option {
  return group === undefined ? option : option.helpGroup(`${group}:`)
}

function valuesOf(flags: Flags, parser: Parser): FlagValues<Flags> {
  const values = Object.entries(flags).map(([name, flag]) => {
    const option = parser.options.find(({ long }) => long === `--${name}`)!
    const value = parser.getOptionValue(option.attributeName()) as unknown
    // commander reads `--no-headers` as the option `headers`, turned off.
    if (flag.kind === 'boolean') return [name, value === !option.negate]
    return [name, value ?? absent(flag)]
  })
  return Object.fromEntries(values) as FlagValues<Flags>
}

/** @throws InvalidArgumentError */
function valueOf(flag: Flag, text: string): string | number {
  const { kind, choices = [] } = flag
  switch (kind) {
    case 'integer':
      if (!/^\d+$/.test(text)) throw new InvalidArgumentError('Expected a whole number.')
      return within(flag, Number(text), String)
    case 'duration': {
      const duration = parseDuration(text)
      if (duration === null) throw new InvalidArgumentError('Expected a duration such as 30s or 1h30m.')
      return within(flag, duration, (ms) => `${ms / 1_000}s`)
    }
    case 'choice':
      if (!choices.includes(text)) throw new InvalidArgumentError(`Allowed choices are ${choices.join(', ')}.`)
      return text
    default:
      return text
  }
}

function within({ min = 0, max }: Flag, value: number, show: (value: number) => string): number {
  if (value < min) throw new InvalidArgumentError(`Must be at least ${show(min)}.`)
  if (max !== undefined && value > max) throw new InvalidArgumentError(`Must be at most ${show(max)}.`)
  return value
}
