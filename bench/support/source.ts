/**
 * Where a run's events come from: `native/writer.c` for a subject that is fed by etcd, or the subject itself when it
 * only shows what sending costs (the limit, bare Node). Both number and stamp their events alike.
 */
import { nativeProgram } from './native.js'
import { type Child, start } from './processes.js'
import type { Delays } from './watchers.js'

export interface RunOptions {
  /** The rate in events per second; 0 means as many as the subject accepts. */
  readonly rate: number
  /** The source ends after this many events or milliseconds, whichever is first. */
  readonly count: number
  readonly ms: number
  /** The maximum number of puts in flight. */
  readonly concurrency?: number
  /** With `rate` 0: how many events the writer may be ahead of the average watcher. 0 means no bound. */
  readonly window?: number
  readonly watchers?: number
  /** The number of events in one write, for a subject that generates its own events. */
  readonly eventsPerWrite?: number
}

export interface RunResult {
  readonly first: number
  /** The next sequence: `next - first` events were written. */
  readonly next: number
  readonly failed: number
  readonly seconds: number
  /** The longest delay of a paced put behind its schedule, in milliseconds. */
  readonly latestStartMs?: number
  readonly putMs?: Delays
}

export interface EventSource {
  run(options: RunOptions): Promise<RunResult>
  end(): Promise<void>
}

const UNBOUNDED = 1e12

/** The writer first reads all objects. Reading 700 MB of them takes more than ten seconds on a busy machine. */
const READ_OBJECTS_MS = 120_000

export async function startWriter(etcdPort: number, objectsFile: string, progressFile: string): Promise<EventSource> {
  const child = start('writer', 'load', [nativeProgram('writer'), String(etcdPort), objectsFile, progressFile])
  await child.line((text) => (text.includes('ready') ? true : undefined), READ_OBJECTS_MS)
  return {
    run: (o) =>
      ran(child, `run ${o.rate} ${o.count} ${o.ms} ${o.concurrency ?? 64} ${o.window ?? 0} ${o.watchers ?? 1}`, o.ms),
    end: () => child.end(),
  }
}

/**
 * Writes this many events as fast as the subject accepts them. @throws Error when they are not all written within `ms`.
 */
export async function writeAll(source: EventSource, count: number, ms: number): Promise<RunResult> {
  const result = await source.run({ rate: 0, count, ms })
  const written = result.next - result.first
  if (written < count) throw new Error(`only ${written} of ${count} events were written in ${ms} ms`)
  return result
}

/** Uses the subject's own process as the source, which understands the command `run RATE COUNT MS EVENTS`. */
export function selfDriven(child: Child): EventSource {
  return {
    run: (o) => ran(child, `run ${o.rate} ${Math.min(o.count, UNBOUNDED)} ${o.ms} ${o.eventsPerWrite ?? 1}`, o.ms),
    end: async () => {},
  }
}

async function ran(child: Child, line: string, ms: number): Promise<RunResult> {
  child.send(line)
  const parse = (text: string): RunResult | undefined =>
    text.startsWith('{"event":"ran"') ? (JSON.parse(text) as RunResult) : undefined
  const result = await child.line(parse, ms + 60_000)
  if (result.failed > 0) throw new Error(`${result.failed} puts failed`)
  return result
}
