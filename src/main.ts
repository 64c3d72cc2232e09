#!/usr/bin/env node
/**
 * The process: its first argument is a command, or there is none and it is the server. Nobody else reads argv and the
 * environment. Each of the two is loaded only when it is wanted: a command starts in a fraction of the server's time.
 */
import type { Command } from './cli/command.js'
import { packageVersion } from './server/package-version.js'

const argv = process.argv.slice(2)
const [word, ...rest] = argv

if (word === undefined || word.startsWith('-')) {
  const { serve } = await import('./server/serve.js')
  await serve({ argv, environment: process.env, commands: listCommands })
} else {
  const commands = await loadCommands()
  const command = commands.find(({ name }) => name === word)
  if (command === undefined) {
    const { unknownCommand } = await import('./cli/help.js')
    process.stderr.write(`distributary: ${unknownCommand(word, commands)}\n`)
    process.exit(2)
  }
  const { runCommand } = await import('./cli/run-command.js')
  await runCommand(command, { argv: rest, environment: process.env })
}

async function loadCommands(): Promise<readonly Command[]> {
  const { createCommands } = await import('./cli/commands.js')
  return createCommands(
    async () => {
      const { optionRows } = await import('./config/help.js')
      return optionRows().flatMap(({ flag }) => (flag === null ? [] : [flag]))
    },
    packageVersion,
    async (options) => await (await import('./server/check-config.js')).checkConfig(options),
  )
}

/** For the server's own `--help`. */
async function listCommands(): Promise<string> {
  const { commandList } = await import('./cli/help-text.js')
  return commandList(await loadCommands())
}
