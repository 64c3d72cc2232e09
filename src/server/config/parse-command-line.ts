/**
 * Splits the arguments into the raw values given for each option. It uses the tokens of Node's `parseArgs` in lenient
 * mode, because the strict mode, like commander, stops at the first mistake, and this server reports all of them.
 */
import { parseArgs } from 'node:util'

import { quote } from './option.js'
import { flagNames, options, type OptionName } from './options.js'
import { adviceOn } from './removed-options.js'

export interface CommandLine {
  /** `--help` starts with the options that matter, `--help all` lists every one; null when neither is given. */
  readonly help: 'first' | 'all' | null
  readonly version: boolean
  /** The raw values in order; a bare boolean flag gives "true". */
  readonly texts: ReadonlyMap<OptionName, readonly string[]>
  readonly problems: readonly string[]
}

const byFlag = new Map<string, OptionName>(flagNames.map((name) => [options[name].flag.slice(2), name]))

const parserOptions = Object.fromEntries([
  ...[...byFlag].map(
    ([flag, name]) =>
      [flag, { type: options[name].kind === 'boolean' ? 'boolean' : 'string', multiple: true }] as const,
  ),
  ['help', { type: 'boolean', short: 'h' } as const],
  ['version', { type: 'boolean' } as const],
]) satisfies Record<string, { type: 'boolean' | 'string' }>

export function parseCommandLine(args: readonly string[]): CommandLine {
  const texts = new Map<OptionName, string[]>()
  const problems: string[] = []
  let help: CommandLine['help'] = null
  let version = false
  let afterUnknown = false
  const { tokens } = parseArgs({
    args: [...args],
    options: parserOptions,
    strict: false,
    allowPositionals: true,
    tokens: true,
  })
  for (const token of tokens) {
    if (token.kind === 'positional') {
      if (help !== null && token.value === 'all') help = 'all'
      // The word after an unknown flag is most likely its value, so only the flag is reported.
      else if (!afterUnknown) problems.push(`unexpected argument ${quote(token.value)}`)
      afterUnknown = false
      continue
    }
    afterUnknown = false
    if (token.kind === 'option-terminator') continue
    const name = byFlag.get(token.name)
    if (token.name === 'help') help = token.value === 'all' ? 'all' : (help ?? 'first')
    else if (token.name === 'version') version = true
    else if (name === undefined) {
      problems.push(unknownFlag(token.name, token.rawName))
      afterUnknown = token.value === undefined
    } else if (options[name].kind === 'boolean') push(texts, name, token.value ?? 'true')
    else if (token.value === undefined || (!token.inlineValue && token.value.startsWith('--'))) {
      problems.push(`${token.rawName} needs a value`)
    } else push(texts, name, token.value)
  }
  return { help, version, texts, problems }
}

function push(texts: Map<OptionName, string[]>, name: OptionName, text: string): void {
  const list = texts.get(name)
  if (list === undefined) texts.set(name, [text])
  else list.push(text)
}

function unknownFlag(flag: string, rawName: string): string {
  const known = [...byFlag.keys(), 'help', 'version'].map((name) => `--${name}`)
  return `unknown flag ${quote(rawName)}${adviceOn(`--${flag}`, known, (removed) => removed, '--')}`
}
