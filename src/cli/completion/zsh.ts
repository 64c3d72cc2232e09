import type { Command } from '../command.js'
import { type CompletedCommand, type CompletedFlag, completedCommands, quoted } from './words.js'

export function zshCompletion(commands: readonly Command[], serverFlags: readonly string[]): string {
  const completed = completedCommands(commands)
  return `#compdef distributary
# zsh completion for distributary, made by: distributary completion zsh
_distributary_names() {
  local -a names=(\${(f)"$(distributary completion names -- \${words[1,CURRENT-1]} 2> /dev/null < /dev/null)"})
  compadd -a names
}
_distributary() {
  if (( CURRENT == 2 )); then
    if [[ \${words[2]} == -* ]]; then
      compadd -- ${[...serverFlags, '--help', '--version'].join(' ')}
    else
      local -a commands=(
${completed.map(({ name, summary }) => `        ${quoted(`${name}:${summary}`)}`).join('\n')}
      )
      _describe command commands
    fi
    return
  fi
  local command=\${words[2]}
  shift words
  (( CURRENT-- ))
  case $command in
${completed.map(commandCase).join('\n')}
    -*) compadd -- ${[...serverFlags, '--help', '--version'].join(' ')} ;;
  esac
}
if [ "$funcstack[1]" = _distributary ]; then _distributary "$@"; else compdef _distributary distributary; fi
`
}

function commandCase({ name, flags, choices, takesNames }: CompletedCommand): string {
  const specs = [
    ...flags.flatMap((flag) => flag.spellings.map((spelling) => quoted(flagSpec(spelling, flag)))),
    ...(choices.length === 0 ? [] : [quoted(`1:argument:(${choices.join(' ')})`)]),
    ...(takesNames ? [quoted('*:name:_distributary_names')] : []),
  ]
  return `    ${name})
      _arguments \\
${specs.map((spec) => `        ${spec}`).join(' \\\n')} ;;`
}

function flagSpec(spelling: string, { doc, takesValue, takesFile, choices }: CompletedFlag): string {
  const text = doc.replace(/[[\]:\\]/g, '\\$&')
  const action = takesFile ? '_files' : choices.length > 0 ? `(${choices.join(' ')})` : ' '
  return `*${spelling}[${text}]${takesValue ? `:value:${action}` : ''}`
}
