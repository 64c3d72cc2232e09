/**
 * Runs the command named on the command line, and turns the outcome into an exit code. A signal aborts the command's
 * AbortSignal; a second one ends the process at once.
 */
import { CommanderError } from 'commander'
import type { Command } from './command.js'
import { createCommandLine } from './command-line.js'
import { CommandError, EXIT, type ExitCode } from './exit-code.js'
import { Output } from './command-output.js'

export interface Invocation {
  readonly argv: readonly string[]
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Runs a command and then ends the process with its exit code, after the last output. */
export async function runCommand(commands: readonly Command[], { argv, environment }: Invocation): Promise<never> {
  // When the reader of the output has exited, the remaining work is pointless.
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
  let code: ExitCode = EXIT.done
  const { program } = createCommandLine(commands, async (command, flags, args) => {
    try {
      code = await command.run({ flags, args, out, err, environment, signal: stop.signal })
    } catch (error) {
      // Once the command was stopped, its failures do not matter.
      code = stopCode ?? (await report(error, command, err))
    }
  })
  try {
    await program.parseAsync(argv, { from: 'user' })
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    code = error.exitCode === 0 ? EXIT.done : EXIT.usage
  }
  // Wait until the last byte is written, because a pipe may not accept all bytes at once.
  await new Promise<void>((resolve) => process.stdout.write('', () => resolve()))
  process.exit(stopCode ?? code)
}

async function report(error: unknown, { name }: Command, err: Output): Promise<ExitCode> {
  if (!(error instanceof CommandError)) {
    await err.line(`distributary ${name}: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
    return EXIT.failed
  }
  await err.line(`distributary ${name}: ${error.message}`)
  if (error.exitCode === EXIT.usage) await err.line(`See distributary ${name} --help.`)
  return error.exitCode
}
