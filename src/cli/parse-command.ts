/**
 * Turns the arguments of one command into the values of its flags. Node's own `parseArgs` is read token by token, so
 * that all mistakes are reported at once, as for the server's flags. commander was tried; it stops at the first
 * mistake.
 */
import { parseArgs } from 'node:util'
import { nearestName } from '../support/nearest-name.js'
import type { Command, FlagValues, Flags } from './command.js'
import { UsageError } from './exit-code.js'
import { readValue } from './flag-values.js'

export type Parsed =
  | { readonly kind: 'help' }
  | { readonly kind: 'run'; readonly flags: FlagValues<Flags>; readonly args: readonly string[] }

/** @throws UsageError with one line for each problem. */
export function parseCommand(command: Command, argv: readonly string[]): Parsed {
  if (command.passesFlags === true) return parsePassing(command, argv)
  const known = new Map(Object.entries(command.flags))
  const values = new Map<string, string | number | boolean | string[] | null>()
  for (const [name, { kind }] of known) values.set(name, kind === 'boolean' ? false : kind === 'list' ? [] : null)
  const args: string[] = []
  const problems: string[] = []
  let hasHelp = false
  let afterUnknown = false
  for (const token of tokensOf(command, argv)) {
    if (token.kind === 'option-terminator') continue
    if (token.kind === 'positional') {
      // The word after an unknown flag is most likely its value, so only the flag is reported.
      if (!afterUnknown) args.push(token.value)
      afterUnknown = false
      continue
    }
    afterUnknown = false
    const { name, rawName } = token
    const flag = known.get(name)
    if (name === 'help') hasHelp = true
    else if (flag === undefined) {
      problems.push(unknownFlag(name, rawName, known.keys()))
      afterUnknown = token.value === undefined
    } else {
      const text = valueText(token, flag.kind === 'boolean')
      if (text === null) problems.push(`${rawName} needs a value`)
      else {
        const read = readValue(flag, name, text)
        if ('problem' in read) problems.push(read.problem)
        else if (flag.kind === 'list') (values.get(name) as string[]).push(String(read.value))
        else values.set(name, read.value)
      }
    }
  }
  if (hasHelp) return { kind: 'help' }
  problems.push(...countProblems(command, args))
  if (problems.length > 0) throw new UsageError(problems.join('\n'))
  return { kind: 'run', flags: Object.fromEntries(values) as FlagValues<Flags>, args }
}

/** Its own flags are words without a value; everything else is left as it is. */
function parsePassing(command: Command, argv: readonly string[]): Parsed {
  const own = new Set(Object.keys(command.flags).map((name) => `--${name}`))
  const [word] = argv
  // The flags of the server have a help of their own.
  if ([word, argv[1]].some((arg) => arg === '--help' || arg === '-h')) return { kind: 'help' }
  const args = argv.filter((arg) => !own.has(arg))
  const problems = countProblems(command, args)
  if (problems.length > 0) throw new UsageError(problems.join('\n'))
  const flags = Object.fromEntries(Object.keys(command.flags).map((name) => [name, argv.includes(`--${name}`)]))
  return { kind: 'run', flags: flags as unknown as FlagValues<Flags>, args }
}

type Token = NonNullable<ReturnType<typeof parseArgs>['tokens']>[number]

function tokensOf(command: Command, argv: readonly string[]): readonly Token[] {
  const options = Object.fromEntries(
    Object.entries(command.flags).map(([name, { kind, short }]) => [
      name,
      { type: kind === 'boolean' ? 'boolean' : 'string', multiple: true, ...(short === undefined ? {} : { short }) },
    ]),
  ) as Record<string, { type: 'boolean' | 'string'; short?: string }>
  const withHelp = { ...options, help: { type: 'boolean', short: 'h' } as const }
  return parseArgs({ args: [...argv], options: withHelp, strict: false, allowPositionals: true, tokens: true }).tokens
}

function valueText(token: Extract<Token, { kind: 'option' }>, isBoolean: boolean): string | null {
  const { value, inlineValue, rawName } = token
  if (value === undefined) return isBoolean ? 'true' : null
  // kubectl accepts `-o=json`, so this does too.
  if (inlineValue) return rawName.startsWith('--') ? value : value.replace(/^=/, '')
  return value.length > 1 && value.startsWith('-') ? null : value
}

function countProblems({ name, positionals }: Command, args: readonly string[]): string[] {
  const missing = positionals.find(({ isOptional }, index) => isOptional !== true && index >= args.length)
  if (missing !== undefined) return [`${name} needs ${missing.name}`]
  if (positionals.some(({ isRepeated }) => isRepeated === true)) return []
  return args.slice(positionals.length).map((arg) => `unexpected argument "${arg}"`)
}

function unknownFlag(name: string, rawName: string, known: Iterable<string>): string {
  const nearest = rawName.startsWith('--') ? nearestName(name, [...known, 'help']) : null
  return `unknown flag "${rawName}"${nearest === null ? '' : `; did you mean --${nearest}?`}`
}
