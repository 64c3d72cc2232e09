/**
 * Runs one command: parses its arguments, calls it, and turns the outcome into an exit code. A signal aborts the
 * command's AbortSignal; a second one ends the process at once.
 */
import type { Command } from './command.js'
import { CommandError, EXIT, type ExitCode } from './exit-code.js'
import { commandHelp } from './help-text.js'
import { Output } from './output.js'
import { parseCommand } from './parse-command.js'

export interface Surroundings {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Does not return: the process ends with the command's exit code, after its last output. */
export async function runCommand(command: Command, { argv, environment }: Surroundings): Promise<never> {
  // When the reader is gone, no remaining work is useful.
  const onClosed = (): never => process.exit(EXIT.done)
  const out = new Output(process.stdout, { environment, onClosed })
  const err = new Output(process.stderr, { environment, onClosed })
  const stop = new AbortController()
  let stopCode: ExitCode | null = null
  const onSignal = (code: ExitCode) => (): void => {
    if (stopCode !== null) process.exit(stopCode)
    stopCode = code
    stop.abort()
  }
  process.on('SIGINT', onSignal(EXIT.interrupted)).on('SIGTERM', onSignal(EXIT.terminated))
  let code: ExitCode
  try {
    const parsed = parseCommand(command, argv)
    if (parsed.kind === 'help') {
      await out.write(commandHelp(command))
      code = EXIT.done
    } else {
      const { flags, args } = parsed
      code = await command.run({ flags, args, out, err, environment, signal: stop.signal })
    }
  } catch (error) {
    // A failure after the command was stopped does not count.
    code = stopCode ?? (await tell(error, command, err))
  }
  // The process ends after the last byte, which a pipe may accept later.
  await new Promise<void>((resolve) => process.stdout.write('', () => resolve()))
  process.exit(stopCode ?? code)
}

async function tell(error: unknown, { name }: Command, err: Output): Promise<ExitCode> {
  if (!(error instanceof CommandError)) {
    await err.line(`distributary ${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return EXIT.failed
  }
  for (const line of error.message.split('\n')) await err.line(`distributary ${name}: ${line}`)
  if (error.exitCode === EXIT.usage) await err.line(`distributary ${name} --help tells more`)
  return error.exitCode
}
