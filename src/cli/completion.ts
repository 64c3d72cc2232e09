/** `distributary completion SHELL`: prints a script made from the command table. */
import { type Command, defineCommand } from './command.js'
import { bashCompletion } from './completion/bash.js'
import { EXIT, UsageError } from './exit-code.js'
import { fishCompletion } from './completion/fish.js'
import { completeNames } from './completion/names.js'
import { zshCompletion } from './completion/zsh.js'

const SHELLS = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion }

/**
 * Returns the server's own flags. It is a function, since only completion needs them and loading their table takes
 * time.
 */
export interface ServerFlags {
  (): Promise<readonly string[]>
}

export function createCompletionCommand(commands: () => readonly Command[], serverFlags: ServerFlags): Command {
  return defineCommand({
    name: 'completion',
    summary: 'print a script that completes commands, flags and names of objects in a shell',
    description:
      'The script asks the server for names by "completion names -- COMMAND…": those that the line typed so far can go on with.',
    positionals: [
      { name: 'SHELL', choices: Object.keys(SHELLS) },
      { name: 'WORD', isOptional: true, isRepeated: true },
    ],
    flags: {},
    examples: [
      { doc: 'in this bash', line: 'source <(distributary completion bash)' },
      { doc: 'in every zsh', line: 'distributary completion zsh > "${fpath[1]}/_distributary"' },
      { doc: 'in every fish', line: 'distributary completion fish > ~/.config/fish/completions/distributary.fish' },
    ],
    async run({ args: [shell = '', ...words], out, environment, signal }) {
      if (shell === 'names') {
        for (const name of await completeNames(commands(), words, { environment, signal })) await out.line(name)
        return EXIT.done
      }
      if (words.length > 0) throw new UsageError(`unexpected argument "${words[0]}"`)
      if (!Object.hasOwn(SHELLS, shell)) {
        throw new UsageError(`SHELL is one of ${Object.keys(SHELLS).join(', ')}, not "${shell}"`)
      }
      await out.write(SHELLS[shell as keyof typeof SHELLS](commands(), await serverFlags()))
      return EXIT.done
    },
  })
}
