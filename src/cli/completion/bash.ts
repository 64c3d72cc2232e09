/** The script needs only bash itself, not the bash-completion package. */
import type { Command } from '../command.js'
import { type CompletedCommand, completedCommands, quoted } from './words.js'

export function bashCompletion(commands: readonly Command[], serverFlags: readonly string[]): string {
  const completed = completedCommands(commands)
  const names = completed.map(({ name }) => name)
  return `# bash completion for distributary, made by: distributary completion bash
# Names of objects instead, where a resource is given already.
_distributary_names() {
  local names
  [ "$COMP_CWORD" -gt 2 ] || return
  names=$("\${COMP_WORDS[0]}" completion names -- "\${COMP_WORDS[@]:1:COMP_CWORD-1}" 2> /dev/null < /dev/null)
  [ -z "$names" ] || words=$names
}
_distributary() {
  local word=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]} words=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    case $word in
      -*) words=${quoted([...serverFlags, '--help', '--version'].join(' '))} ;;
      *) words=${quoted(names.join(' '))} ;;
    esac
  else
    case $command in
${completed.map(commandCase).join('\n')}
      -*) words=${quoted([...serverFlags, '--help', '--version'].join(' '))} ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _distributary distributary
`
}

function commandCase({ name, flags, choices, takesNames }: CompletedCommand): string {
  const all = flags.flatMap(({ spellings }) => spellings)
  const withChoices = flags.filter((flag) => flag.choices.length > 0)
  // Flags that take any text are left to the shell, which completes file names.
  const free = flags.filter((flag) => flag.takesValue && flag.choices.length === 0)
  const cases = [
    ...withChoices.map((flag) => `          ${flag.spellings.join('|')}) words=${quoted(flag.choices.join(' '))} ;;`),
    ...(free.length === 0 ? [] : [`          ${free.flatMap(({ spellings }) => spellings).join('|')}) return ;;`]),
    `          *) case $word in -*) words=${quoted(all.join(' '))} ;; *) words=${quoted(choices.join(' '))}${takesNames ? '; _distributary_names' : ''} ;; esac ;;`,
  ]
  return `      ${name})
        case $previous in
${cases.join('\n')}
        esac ;;`
}
