/** Runs the command line as its users do: as a process with its output in pipes. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import type { Test } from 'tap'
import { programFile } from '../../support/program.js'

export const program = programFile('main')

export interface CliResult {
  readonly code: number | string
  readonly stdout: string
  readonly stderr: string
}

export interface CliProcess {
  readonly child: ChildProcess
  stdout(): string
  stderr(): string
  /** Resolves after the last output. */
  readonly ended: Promise<CliResult>
}

export interface CliOptions {
  readonly environment?: Readonly<Record<string, string>>
}

export function startCli(t: Test, args: readonly string[], { environment = {} }: CliOptions = {}): CliProcess {
  const { NO_COLOR: _noColor, KUBECONFIG: _kubeconfig, ...inherited } = process.env
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...inherited, NODE_OPTIONS: '', ...environment },
  })
  t.teardown(() => child.kill('SIGKILL'))
  const out = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (out.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (out.stderr += chunk.toString()))
  const ended = once(child, 'close').then(([code, signal]) => ({
    code: (code as number | null) ?? (signal as string),
    ...out,
  }))
  return { child, ended, stdout: () => out.stdout, stderr: () => out.stderr }
}

export async function runCli(t: Test, args: readonly string[], options: CliOptions = {}): Promise<CliResult> {
  return await startCli(t, args, options).ended
}

/** Whether a terminal can be played: script is one of Debian's bsdutils. */
export const hasTerminal = spawnSync('script', ['--version']).status === 0

/** Runs it on a terminal. @returns what that shows. */
export async function runOnTerminal(
  t: Test,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { NO_COLOR: _noColor, KUBECONFIG: _kubeconfig, ...inherited } = process.env
  const env = { ...inherited, NODE_OPTIONS: '', TERM: 'xterm', SHELL: '/bin/sh', ...environment }
  const line = ['exec', process.execPath, program, ...args].join(' ')
  const child = spawn('script', ['-qec', line, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  let shown = ''
  child.stdout.on('data', (chunk: Buffer) => (shown += chunk.toString()))
  await once(child, 'close')
  return shown
}

/** A few processes at a time, because starting one takes most of its time. */
export async function eachAtOnce<C>(cases: readonly C[], run: (one: C) => Promise<void>): Promise<void> {
  const left = [...cases]
  const worker = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await run(one)
  }
  await Promise.all(Array.from({ length: 4 }, worker))
}
