/**
 * distributary as its users run it: a separate process on a free port, observed through its output. For what a test in
 * the same process cannot show: exit codes, signals, kill -9, system limits, memory.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { endsWithUs } from './ends-with-us.js'
import { serverForm } from '../forms/form.js'
import { programFile, serverRuntime } from './program.js'

const main = programFile('main')

export interface ServerProcessOptions {
  /** The server's flags, after `--port 0` unless they contain a port. */
  readonly flags: readonly string[]
  /** A shell line that sets limits before the server starts: `ulimit -n 200`. */
  readonly limits?: string
  readonly environment?: Readonly<Record<string, string>>
  /** Another program than distributary itself, as a compiled file. */
  readonly program?: string
  /** Whether to wait until the server is ready, or only until it listens. Default: true. */
  readonly ready?: boolean
  /** false to always use the plain form (`test/forms/form.ts`). */
  readonly isSurrounded?: boolean
}

export interface ServerProcess {
  readonly url: string
  readonly port: number
  /** `https://127.0.0.1:PORT`, with the flags for it (`--secure-port 0`). */
  readonly secureUrl: string
  readonly securePort: number
  /** `http://127.0.0.1:PORT` of `--metrics-bind-address`. */
  readonly metricsUrl: string
  readonly pid: number
  /** Returns the process ids of the server and its workers. */
  pids(): readonly number[]
  /** Resolves with the exit code, or the signal's name. */
  readonly exited: Promise<number | string>
  kill(signal?: NodeJS.Signals): Promise<number | string>
  /** Everything it has logged, one JSON object per line. */
  log(): string
  /** Returns its standard output, which may include an audit log. */
  printed(): string
  /** Bytes of resident memory of all its processes, now and at the peak. */
  memory(): { readonly now: number; readonly peak: number }
  /** Samples of /metrics by name, labels included. @param token of a user who may read them. */
  metrics(token?: string): Promise<ReadonlyMap<string, number>>
}

export interface Finished {
  readonly code: number | string
  readonly stdout: string
  readonly stderr: string
}

/** Runs it until it exits: for start-up errors. */
export async function runServer(t: Test, flags: readonly string[], withinMs = 60_000): Promise<Finished> {
  const child = spawnServer(t, { flags })
  const out = collect(child)
  const timer = setTimeout(() => child.kill('SIGKILL'), withinMs)
  const code = await exitOf(child)
  clearTimeout(timer)
  return { code, ...out }
}

/** @throws Error with its log when it exits before it serves. */
export async function startServer(t: Test, asked: ServerProcessOptions): Promise<ServerProcess> {
  const options = await surrounded(t, asked)
  const child = spawnServer(t, options)
  const out = collect(child)
  const exited = exitOf(child)
  let ended: number | string | null = null
  void exited.then((code) => (ended = code))
  const log = (): string => out.stderr
  const wanted = options.ready === false ? 'serving' : 'ready'
  const deadline = Date.now() + 90_000
  // A worker may be ready before the port is open.
  const lines = wanted === 'ready' ? workersIn(options.flags) : 1
  while (countLines(log(), wanted) < lines || !hasLine(log(), 'serving')) {
    if (ended !== null) throw new Error(`the server ended (${String(ended)}): ${log()}`)
    if (Date.now() > deadline) throw new Error(`the server is not ${wanted} after 90 s: ${log()}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  const serving = lineOf(log(), 'serving') as Readonly<Record<string, number | null>>
  const port = Number(serving['port'])
  const securePort = Number(serving['securePort'])
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    port,
    secureUrl: `https://127.0.0.1:${securePort}`,
    securePort,
    metricsUrl: `http://127.0.0.1:${serving['metricsPort']}`,
    pid: child.pid!,
    pids: () => [child.pid!, ...childrenOf(child.pid!)],
    exited,
    async kill(signal = 'SIGKILL') {
      child.kill(signal)
      return await exited
    },
    log,
    printed: () => out.stdout,
    memory: () => memoryOf([child.pid!, ...childrenOf(child.pid!)]),
    async metrics(token) {
      const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` }
      const text = await (await fetch(`${url}/metrics`, { headers })).text()
      const samples = new Map<string, number>()
      for (const line of text.split('\n')) {
        const space = line.lastIndexOf(' ')
        if (space > 0 && !line.startsWith('#')) samples.set(line.slice(0, space), Number(line.slice(space + 1)))
      }
      return samples
    },
  }
}

/** The sum of all samples with one name, whatever their labels. */
export function total(samples: ReadonlyMap<string, number>, name: string): number {
  let sum = 0
  for (const [key, value] of samples) if (key === name || key.startsWith(`${name}{`)) sum += value
  return sum
}

/** Starts the servers around it, when the tests run in a form other than the plain one. */
async function surrounded(t: Test, options: ServerProcessOptions): Promise<ServerProcessOptions> {
  const form = options.isSurrounded === false || options.program !== undefined ? null : await serverForm()
  return { ...options, flags: (await form?.processFlags(t, options.flags)) ?? options.flags }
}

function spawnServer(t: Test, { flags, limits, environment, program = main }: ServerProcessOptions): ChildProcess {
  const port = flags.some((flag) => flag === '--port' || flag.startsWith('--port=')) ? [] : ['--port', '0']
  const line = [serverRuntime(), program, ...flags, ...port]
  const [command = '', ...args] = limits === undefined ? line : ['/bin/sh', '-c', `${limits}; exec "$@"`, 'sh', ...line]
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_OPTIONS: '', ...environment },
  })
  endsWithUs(child)
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  return child
}

/** The characters kept of each output. A string cannot hold an hour of the audit log. */
const KEPT = 2 ** 27

function collect(child: ChildProcess): { stdout: string; stderr: string } {
  const out = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.on('data', (chunk: Buffer) => {
      out[name] += chunk.toString()
      if (out[name].length > 2 * KEPT) out[name] = out[name].slice(-KEPT)
    })
  }
  return out
}

/** Waits for its last output. */
async function exitOf(child: ChildProcess): Promise<number | string> {
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  return code ?? signal ?? 'unknown'
}

/** Each worker logs that it is ready. */
function workersIn(flags: readonly string[]): number {
  const at = flags.findLastIndex((flag) => flag === '--workers' || flag.startsWith('--workers='))
  return at < 0 ? 1 : Number(flags[at]!.split('=')[1] ?? flags[at + 1])
}

function hasLine(log: string, message: string): boolean {
  return countLines(log, message) > 0
}

function countLines(log: string, message: string): number {
  return log.split(`"msg":"${message}"`).length - 1
}

function lineOf(log: string, message: string): unknown {
  return JSON.parse(log.split('\n').find((line) => hasLine(line, message)) ?? '{}')
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number)
}

function memoryOf(pids: readonly number[]): { now: number; peak: number } {
  const statuses = pids.map((pid) => readFileSync(`/proc/${pid}/status`, 'utf8'))
  const bytes = (name: string): number =>
    statuses.reduce(
      (sum, status) => sum + Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0),
      0,
    ) * 1024
  return { now: bytes('VmRSS'), peak: bytes('VmHWM') }
}
