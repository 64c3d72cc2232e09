/** The exit codes of commands. Scripts rely on them, so every `--help` and docs/reference/commands.md list them. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  timedOut: 124,
  interrupted: 130,
  terminated: 143,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export const EXIT_CODES: ReadonlyMap<ExitCode, string> = new Map([
  [EXIT.done, 'done, or the reader of the output has exited (`| head`)'],
  [EXIT.failed, 'the server refused, did not answer, or does not have the object'],
  [EXIT.usage, 'an invalid flag or argument'],
  [EXIT.timedOut, 'no answer within --timeout'],
  [EXIT.interrupted, 'Ctrl-C'],
  [EXIT.terminated, 'SIGTERM'],
])

/** An error for which the server or the user is responsible. It is reported in one line on stderr, without a stack. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError'

  constructor(
    message: string,
    readonly exitCode: ExitCode = EXIT.failed,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** The command line itself is wrong. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError'

  constructor(message: string) {
    super(message, EXIT.usage)
  }
}
