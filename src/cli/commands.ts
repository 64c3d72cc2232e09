/** Every command, in the order of `--help`. */
import { benchCommand } from './bench.js'
import type { Command } from './command.js'
import { createCompletionCommand, type ServerFlags } from './completion.js'
import { type ConfigCheck, createConfigCommand } from './config.js'
import { consistencyCheckCommand } from './consistency-check.js'
import { getCommand } from './get.js'
import { createHelpCommand } from './help.js'
import { topCommand } from './top.js'
import { createVersionCommand } from './version.js'
import { watchCommand } from './watch.js'

export function createCommands(
  serverFlags: ServerFlags,
  version: () => string,
  checkConfig: ConfigCheck,
): readonly Command[] {
  const commands: Command[] = []
  commands.push(
    getCommand,
    watchCommand,
    topCommand,
    benchCommand,
    consistencyCheckCommand,
    createConfigCommand(checkConfig),
    createVersionCommand(version),
    createCompletionCommand(() => commands, serverFlags),
    createHelpCommand(() => commands),
  )
  return commands
}
