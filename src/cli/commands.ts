/** Every command, in the order of `--help`. */
import type { Command } from './command.js'
import { type ConfigCheck, createConfigCheckCommand } from './config-check.js'
import { consistencyCheckCommand } from './consistency-check.js'
import { doctorCommand } from './doctor.js'
import { getCommand } from './get.js'
import { topCommand } from './top.js'
import { createVersionCommand } from './version.js'

export function createCommands(version: () => string, checkConfig: ConfigCheck): readonly Command[] {
  return [
    getCommand,
    topCommand,
    consistencyCheckCommand,
    doctorCommand,
    createConfigCheckCommand(checkConfig),
    createVersionCommand(version),
  ]
}

/** Formats the list of commands for the server's own `--help`. */
export function commandList(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length))
  return commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n')
}
