/** Starts a program that runs until its test ends. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'

export interface RunningProcess {
  /** Returns the last 100,000 characters of both outputs. */
  printed(): string
  hasEnded(): boolean
  /** Asks it to end, for programs that end their own children then. */
  end(): Promise<void>
}

export function startProcess(
  t: Test,
  command: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): RunningProcess {
  const [program = '', ...args] = command
  const env = { ...process.env, ...environment }
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env })
  let text = ''
  const keep = (chunk: Buffer): void => void (text = (text + chunk.toString()).slice(-100_000))
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const closed = once(child, 'close')
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null
  t.teardown(async () => {
    if (!hasEnded()) child.kill('SIGKILL')
    await closed
  })
  const end = async (): Promise<void> => {
    child.kill('SIGTERM')
    await closed
  }
  return { printed: () => text, hasEnded, end }
}
