/** `distributary help [COMMAND]`. */
import { nearestName } from '../support/nearest-name.js'
import { type Command, defineCommand } from './command.js'
import { EXIT, UsageError } from './exit-code.js'
import { commandHelp, commandList } from './help-text.js'

export function createHelpCommand(commands: () => readonly Command[]): Command {
  return defineCommand({
    name: 'help',
    summary: 'tell what there is, or all about one command',
    positionals: [{ name: 'COMMAND', isOptional: true }],
    flags: {},
    examples: [{ doc: 'all about get', line: 'distributary help get' }],
    async run({ args: [name], out }) {
      if (name === undefined) {
        await out.line('Usage: distributary COMMAND …, or distributary [flags] to serve (--help tells them)')
        await out.line(`\nCommands:\n${commandList(commands())}`)
        return EXIT.done
      }
      const command = commands().find((one) => one.name === name)
      if (command === undefined) throw new UsageError(unknownCommand(name, commands()))
      await out.write(commandHelp(command))
      return EXIT.done
    },
  })
}

export function unknownCommand(name: string, commands: readonly Command[]): string {
  const names = commands.map((command) => command.name)
  const nearest = nearestName(name, names)
  return `unknown command "${name}"${nearest === null ? `: there are ${names.join(', ')}` : `; did you mean ${nearest}?`}`
}
