/** An outside client as a process that reads one command per line, and answers each with a line of JSON. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'

export interface ClientProgram {
  /** What it said when it was ready. */
  readonly first: unknown
  /** @throws Error from the response, or with the client's output when it ends or does not answer in time. */
  ask(command: string, withinMs?: number): Promise<unknown>
  /** Returns the program's standard error output. */
  errors(): string
  hasEnded(): boolean
  /** Closes its standard input, and returns its exit code. */
  end(): Promise<number | null>
}

/** Returns when the client has answered once, which it does when it is ready. */
export async function startClient(
  t: Test,
  command: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<ClientProgram> {
  const [program = '', ...args] = command
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], env: { ...process.env, ...environment } })
  t.teardown(() => child.kill('SIGKILL'))
  // If the client has ended, its end answers the command.
  child.stdin.on('error', () => {})
  let errors = ''
  child.stderr.on('data', (text: Buffer) => (errors = (errors + text.toString()).slice(-100_000)))
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const answer = async (what: string, withinMs: number): Promise<unknown> => {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer to ${what} in ${withinMs} ms: ${errors}`)), withinMs)
    })
    try {
      const line = await Promise.race([lines.next(), late])
      if (line.done === true) throw new Error(`the client ended before it answered ${what}: ${errors}`)
      const said = JSON.parse(line.value) as unknown
      const { Error: reason } = Object(said) as { Error?: string }
      if (reason !== undefined) throw new Error(`${what}: ${reason}`)
      return said
    } finally {
      clearTimeout(timer)
    }
  }
  const first = await answer('its start', 60_000)
  return {
    first,
    ask: async (text, withinMs = 60_000) => {
      child.stdin.write(`${text}\n`)
      return await answer(text, withinMs)
    },
    errors: () => errors,
    hasEnded: () => child.exitCode !== null || child.signalCode !== null,
    end: async () => {
      child.stdin.end()
      return await ended
    },
  }
}
