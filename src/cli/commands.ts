/** Every command, in the order of `--help`. */
import { auditCommand } from './audit.js'
import { benchCommand } from './bench.js'
import type { Command } from './command.js'
import { createCompletionCommand } from './completion.js'
import { getCommand } from './get.js'
import { createHelpCommand } from './help.js'
import { topCommand } from './top.js'
import { createVersionCommand } from './version.js'
import { watchCommand } from './watch.js'

/** The server's own flags, for completion; asked for only then, since reading their table costs time. */
export interface ServerFlags {
  (): Promise<readonly string[]>
}

export function createCommands(serverFlags: ServerFlags, version: () => string): readonly Command[] {
  const commands: Command[] = []
  commands.push(
    getCommand,
    watchCommand,
    topCommand,
    benchCommand,
    auditCommand,
    createVersionCommand(version),
    createCompletionCommand(() => commands, serverFlags),
    createHelpCommand(() => commands),
  )
  return commands
}
