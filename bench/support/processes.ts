/**
 * Starts and ends every process of a bench run, and reads their costs.
 *
 * Only processes that were started here are ended, by their ids, and always: on return, on error, on SIGINT. Figures
 * come from /proc, so that our server and others are measured alike, whatever their language.
 */
import { execFileSync, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, constants } from 'node:os'
import { createInterface } from 'node:readline'

/**
 * The measured server runs on the first core and everything else on the second; a server with workers runs on both. A
 * machine with one core pins nothing.
 */
export type Core = 'server' | 'load' | 'both'

const cpuList: Readonly<Record<Core, string>> = { server: '0', load: '1', both: '0,1' }

const canPin = availableParallelism() >= 2
const running = new Set<Child>()

export interface Child {
  readonly pid: number
  readonly name: string
  readonly hasEnded: boolean
  /**
   * Resolves to the value that `parse` returns for the next line of its output for which it returns one. Of several
   * callers, a line goes to the first that wants it. @throws Error after `timeoutMs`, or when the process ends.
   */
  line<T>(parse: (text: string) => T | undefined, timeoutMs: number): Promise<T>
  send(text: string): void
  /** Sends SIGTERM, and SIGKILL after 5 s. Resolves when the process is gone. */
  end(): Promise<void>
}

interface LineReader {
  /** Whether this is the line that the reader waits for. */
  take(text: string): boolean
  /** The process has ended. */
  end(): void
}

/** Starts `command`. If it fails, the error contains its last output. */
export function start(name: string, core: Core, command: readonly string[], env: Record<string, string> = {}): Child {
  const pinned = canPin ? ['taskset', '-c', cpuList[core], ...command] : command
  const child: ChildProcessWithoutNullStreams = spawn(
    'sh',
    ['-c', 'ulimit -n "$(ulimit -Hn)"; exec "$@"', 'sh', ...pinned],
    { env: { ...process.env, ...env } },
  )
  const lines: string[] = [] // printed but not yet taken by `line`, at most 1,000
  const last: string[] = [] // the last output, for error messages
  const readers = new Set<LineReader>()
  let hasEnded = false
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      hasEnded = true
      running.delete(handle)
      for (const reader of readers) reader.end()
      resolve()
    })
  })
  child.on('error', (error) => last.push(String(error)))
  child.stdin.on('error', () => {}) // the process has ended, and `line` reports that
  const remember = (text: string): void => {
    last.push(text)
    if (last.length > 20) last.shift()
  }
  const add = (text: string): void => {
    remember(text)
    for (const reader of readers) if (reader.take(text)) return
    if (readers.size > 0) return
    lines.push(text)
    if (lines.length > 1000) lines.shift()
  }
  createInterface({ input: child.stdout }).on('line', add)
  createInterface({ input: child.stderr }).on('line', add) // etcd says on stderr that it is ready
  const handle: Child = {
    pid: child.pid ?? 0,
    name,
    get hasEnded() {
      return hasEnded
    },
    async line<T>(parse: (text: string) => T | undefined, timeoutMs: number) {
      for (let text = lines.shift(); text !== undefined; text = lines.shift()) {
        const value = parse(text)
        if (value !== undefined) return value
      }
      const failure = (why: string): Error => new Error(`${name}: ${why}\n${last.join('\n')}`)
      if (hasEnded) throw failure('ended')
      return await new Promise<T>((resolve, reject) => {
        const leave = (): void => {
          clearTimeout(timer)
          readers.delete(reader)
        }
        const fail = (error: unknown): void => {
          leave()
          reject(error as Error)
        }
        const timer = setTimeout(() => fail(failure(`no answer in ${timeoutMs} ms`)), timeoutMs)
        const reader: LineReader = {
          take(text) {
            try {
              const value = parse(text)
              if (value === undefined) return false
              leave()
              resolve(value)
            } catch (error) {
              fail(error)
            }
            return true
          },
          end: () => fail(failure('ended')),
        }
        readers.add(reader)
      })
    },
    send: (text) => void child.stdin.write(`${text}\n`),
    async end() {
      if (hasEnded) return
      child.stdin.end()
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000)
      await ended
      clearTimeout(timer)
    },
  }
  running.add(handle)
  return handle
}

/** Ends whatever is still running, newest first. */
export async function endAll(): Promise<void> {
  for (const child of [...running].reverse()) await child.end()
}

/** After this, Ctrl-C and SIGTERM leave nothing behind. */
export function endAllOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      void endAll().finally(() => process.exit(128 + constants.signals[signal]))
    })
  }
}

export interface Usage {
  /** User and system time of the process and its children, in seconds. */
  readonly cpuSeconds: number
  /** Resident memory in bytes, now and at its peak. */
  readonly residentBytes: number
  readonly peakResidentBytes: number
  /** The number of system calls like `write`, on any descriptor. */
  readonly writeCalls: number
}

/** Returns the sum over the process and its descendants, because a server with workers is one server. */
export function usage(pid: number): Usage {
  let cpuSeconds = 0
  let residentBytes = 0
  let peakResidentBytes = 0
  let writeCalls = 0
  for (const id of family(pid)) {
    try {
      const stat = readFileSync(`/proc/${id}/stat`, 'latin1')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      cpuSeconds += (Number(fields[11]) + Number(fields[12])) / 100 // USER_HZ is 100 on every Linux we run on
      const status = readFileSync(`/proc/${id}/status`, 'latin1')
      residentBytes += Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024
      peakResidentBytes += Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024
      writeCalls += Number(/syscw: (\d+)/.exec(readFileSync(`/proc/${id}/io`, 'latin1'))?.[1] ?? 0)
    } catch {
      // The process ended between the listing and the reading.
    }
  }
  return { cpuSeconds, residentBytes, peakResidentBytes, writeCalls }
}

/** Resets `peakResidentBytes`. */
export function resetPeak(pid: number): void {
  for (const id of family(pid)) writeFileSync(`/proc/${id}/clear_refs`, '5')
}

function family(pid: number): number[] {
  const children = new Map<number, number[]>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
      children.set(parent, [...(children.get(parent) ?? []), Number(name)])
    } catch {
      // The process has ended in the meantime.
    }
  }
  const found = [pid]
  for (const id of found) found.push(...(children.get(id) ?? []))
  return found
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** @throws Error that says which limit to raise, if a process may open fewer files. */
export function requireOpenFiles(count: number): void {
  const limit = execFileSync('sh', ['-c', 'ulimit -Hn']).toString().trim()
  if (limit === 'unlimited' || Number(limit) >= count) return
  throw new Error(
    `a process may open ${limit} files on this machine, and these connections take ${count}: raise the hard limit (ulimit -Hn), or ask for fewer by --watchers`,
  )
}
