import type { Command } from '../command.js'
import { type CompletedFlag, completedCommands } from './words.js'

export function fishCompletion(commands: readonly Command[], serverFlags: readonly string[]): string {
  const lines = [
    '# fish completion for distributary, made by: distributary completion fish',
    'complete -c distributary -f',
    ...[...serverFlags, '--version'].map(
      (flag) => `complete -c distributary -n __fish_use_subcommand -l ${bare(flag)}`,
    ),
  ]
  for (const { name, summary, flags, choices, takesNames } of completedCommands(commands)) {
    const inside = `-n '__fish_seen_subcommand_from ${name}'`
    lines.push(`complete -c distributary -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`)
    if (choices.length > 0) lines.push(`complete -c distributary ${inside} -a ${quoted(choices.join(' '))}`)
    if (takesNames) lines.push(`complete -c distributary ${inside} -a ${quoted(NAMES)}`)
    for (const flag of flags) lines.push(`complete -c distributary ${inside} ${flagWords(flag)}`)
  }
  return `${lines.join('\n')}\n`
}

/** The server answers this for what has been typed already. */
const NAMES = '(distributary completion names -- (commandline -opc)[2..-1] 2> /dev/null)'

function flagWords({ spellings, doc, takesValue, takesFile, choices }: CompletedFlag): string {
  const names = spellings.map((spelling) => (spelling.startsWith('--') ? `-l ${bare(spelling)}` : `-s ${spelling[1]}`))
  const value = takesFile ? ['-r', '-F'] : takesValue ? ['-x'] : []
  const offered = choices.length === 0 ? [] : ['-a', quoted(choices.join(' '))]
  return [...names, ...value, ...offered, '-d', quoted(doc)].join(' ')
}

const bare = (flag: string): string => flag.replace(/^-+/, '')

/** fish knows two escapes between single quotes. */
function quoted(text: string): string {
  return `'${text.replace(/['\\]/g, '\\$&')}'`
}
