#!/usr/bin/env node
/**
 * The program. If the first argument is a command's name, it runs that command; otherwise it runs the server. Only this
 * file reads argv and the environment. Commands and the server are loaded only when needed, so a command starts in a
 * fraction of the time that the server needs.
 */
import type { Command } from './cli/command.js'
import { takeEarlySignals } from './server/wiring/early-signals.js'
import { packageVersion } from './server/wiring/package-version.js'

const argv = process.argv.slice(2)
const [word] = argv

// A word that cannot name a command is a flag's value on its own: npm keeps flags without `--` to itself, and the server
// says so.
if (word === undefined || !/^[a-z][a-z-]*$/i.test(word)) {
  takeEarlySignals()
  const { serve } = await import('./server/wiring/serve.js')
  await serve({ argv, environment: process.env, commands: listCommands })
} else {
  const { runCommand } = await import('./cli/run-command.js')
  await runCommand(await loadCommands(), { argv, environment: process.env })
}

async function loadCommands(): Promise<readonly Command[]> {
  const { createCommands } = await import('./cli/commands.js')
  return createCommands(
    packageVersion,
    async (options) => await (await import('./server/wiring/check-config.js')).checkConfig(options),
  )
}

/** Returns the list of commands for the server's own `--help`. */
async function listCommands(): Promise<string> {
  const { commandList } = await import('./cli/commands.js')
  return commandList(await loadCommands())
}
