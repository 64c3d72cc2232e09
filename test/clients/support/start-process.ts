/** Starts a program that runs until its test ends. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'

export interface RunningProcess {
  /** What it has written, on both outputs; the last 100 000 characters. */
  printed(): string
  hasEnded(): boolean
}

export function startProcess(
  t: Test,
  command: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): RunningProcess {
  const [program = '', ...args] = command
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...environment } })
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
  return { printed: () => text, hasEnded }
}
