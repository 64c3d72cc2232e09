/**
 * A handle on `native/watchers.c`: many watches opened by one process, their deliveries counted exactly.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { nativeProgram } from './native.js'
import { type Child, start } from './processes.js'

/** The request of one watch; in the path, `{i}` is replaced by the watcher's number and `{c}` by its connection's. */
export interface WatchRequest {
  readonly port: number
  readonly path: string
  readonly method?: 'GET' | 'POST'
  /** `Name: value` */
  readonly headers?: readonly string[]
  readonly bodyFile?: string
  /** A text that the head of an HTTP/1.1 response must contain, so that one wire is not mistaken for another. */
  readonly expect?: string
  readonly tls?: boolean
  readonly http2?: boolean
  /** Whether objects arrive in base64, as from etcd's JSON gateway. */
  readonly base64?: boolean
}

/** One of the different watches of a connection. */
export interface WatchPath {
  readonly path: string
  readonly accept?: string
  /** With `WatchersOptions.objects`: the path of a streaming list, used when the watch was refused or has ended. */
  readonly again?: string
  /** The kind under which its delays are reported. */
  readonly kind?: string
  /** The classes of events (`WatchersOptions.classesFile`) that the watch must receive. Default: none. */
  readonly owed?: {
    readonly class: number
    /** Whether the watch of connection i receives the events of class `class + i`. */
    readonly isEach: boolean
    /**
     * The watch receives the events of all classes from `class` up to, but not including, this one. It is the same for
     * all paths that have it.
     */
    readonly until?: number
  }
}

export interface WatchersOptions {
  readonly connections: number
  /** The number of watches on each connection; above 1 only over HTTP/2. */
  readonly streams?: number
  /** The sequence of the first event for watcher 0. */
  readonly first?: number
  /** Paths that the streams of one or more connections watch in turn, instead of the request's path. */
  readonly paths?: readonly WatchPath[]
  /** A file written by `writeClassesFile`, instead of `stride`. */
  readonly classesFile?: string
  /** Whether to keep the resourceVersion of every object. The watches are then in protobuf. */
  readonly objects?: boolean
  /** Watcher k must receive every `stride`-th event, from `first + k % stride` on. */
  readonly stride?: number
  /** The maximum number of connections that are being opened at one time. */
  readonly burst?: number
  /** How many times in total to reopen connections that were refused before any response. Default: 0. */
  readonly retries?: number
  /**
   * The receive buffer of each socket, in bytes. With the kernel's default, a server notices a slow reader only after
   * megabytes.
   */
  readonly receiveBufferBytes?: number
  /**
   * The largest TCP segment, in bytes. With the loopback's 64 KiB, the kernel grants a server 2.6 MB of send buffer.
   */
  readonly segmentBytes?: number
  /** A file from which the writer reads how far the watchers have got. */
  readonly progressFile?: string
  readonly readyTimeoutMs?: number
}

export interface Delays {
  readonly count: number
  /** Delays in milliseconds. */
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly p999: number
  readonly max: number
}

export interface WatchersReport {
  readonly event: string
  // These count since the last `mark`.
  readonly seconds: number
  readonly deliveries: number
  readonly bytes: number
  /** The number of objects received, with `WatchersOptions.objects`. */
  readonly objects: number
  /**
   * The number of reads that returned bytes. Deliveries / reads is at least the number of events in one write of the
   * server.
   */
  readonly reads: number
  readonly delayMs: Delays
  readonly durationMs: Delays
  /** The delays, by the kind of the path. */
  readonly kinds: Readonly<Record<string, Delays>>
  // These count since the beginning.
  readonly received: number
  readonly missing: number
  readonly repeated: number
  readonly totalBytes: number
  readonly answered: number
  readonly ended: number
  readonly closedEarly: number
  readonly failedStatus: number
  readonly refused: number
  /**
   * The number of events that reached a watcher for which they were not meant. Except for a watcher's first event, they
   * also count as repeated.
   */
  readonly strays: number
  // These need `WatchersOptions.objects`, and count since the beginning.
  /**
   * The number of watches that have been answered and, if they began with a list, have received all of it; and when the
   * last of them had.
   */
  readonly live: number
  readonly liveMs: number
  /** The number of lists after the first requests, and how requests and watches ended: 410, 429, or anything else. */
  readonly relisted: number
  readonly expired: number
  readonly throttled: number
  readonly failed: number
}

/** The resourceVersions that a watch received. */
export interface WatchedVersions {
  /** The resourceVersion of the list with which the watch began; null if it did not begin with one. */
  readonly listed: number | null
  /** The resourceVersions of the objects in order of arrival, without those of the list. */
  readonly versions: readonly number[]
}

export interface Watchers {
  readonly child: Child
  readonly count: number
  /** The time from the first connection attempt to the last answered watch, in milliseconds. */
  readonly openedMs: number
  /** The number of connections that were opened again. */
  readonly retried: number
  /** Resets the delays and counts, but not the sequences. */
  mark(): Promise<void>
  report(): Promise<WatchersReport>
  /**
   * Resolves when every watcher has all of its events below `sequence`. If that takes longer than `timeoutMs`, `event`
   * is `late`.
   */
  caughtUp(sequence: number, timeoutMs: number): Promise<WatchersReport>
  /**
   * Returns the resourceVersions that each watcher received, with `WatchersOptions.objects`. They are passed through a
   * file.
   */
  versions(path: string): Promise<WatchedVersions[]>
  /** Resolves when every response has ended, for lists. */
  allEnded(timeoutMs: number): Promise<WatchersReport>
  /** Makes every `every`-th watcher read nothing for `ms`; its delays are no longer counted. */
  stall(every: number, ms: number): Promise<void>
  end(): Promise<void>
}

/** Begins to open the watches, which are open when `ready` resolves. */
export function startWatchers(
  request: WatchRequest,
  options: WatchersOptions,
): { readonly watchers: Watchers; readonly ready: Promise<Watchers> } {
  const streams = options.streams ?? 1
  const flags: [string, string | number][] = [
    ['port', request.port],
    ['method', request.method ?? 'GET'],
    ['tls', request.tls ? 1 : 0],
    ['h2', request.http2 ? 1 : 0],
    ['base64', request.base64 ? 1 : 0],
    ['authority', `localhost:${request.port}`],
    ['connections', options.connections],
    ['streams', streams],
    ['first', options.first ?? 0],
    ['stride', options.stride ?? 1],
    ...(options.paths ?? [{ path: request.path }]).flatMap(pathFlags),
    ['objects', options.objects === true ? 1 : 0],
    ['burst', options.burst ?? 128],
    ['retries', options.retries ?? 0],
    ['receive-buffer', options.receiveBufferBytes ?? 0],
    ['segment', options.segmentBytes ?? 0],
    ...(request.headers ?? []).map((header): [string, string] => ['header', header]),
  ]
  if (request.expect !== undefined) flags.push(['expect', request.expect])
  if (options.classesFile !== undefined) flags.push(['classes', options.classesFile])
  if (request.bodyFile !== undefined) flags.push(['body-file', request.bodyFile])
  if (options.progressFile !== undefined) flags.push(['progress', options.progressFile])
  const command = [nativeProgram('watchers'), ...flags.flatMap(([name, value]) => [`--${name}`, String(value)])]
  const child = start('watchers', 'load', command)

  const answer = async <T extends { event: string }>(events: readonly string[], timeoutMs: number): Promise<T> =>
    child.line((text) => {
      if (!text.startsWith('{')) return undefined
      const value = JSON.parse(text) as T
      return events.includes(value.event) ? value : undefined
    }, timeoutMs)

  let openedMs = 0
  let retried = 0
  const watchers: Watchers = {
    child,
    count: options.connections * streams,
    get openedMs() {
      return openedMs
    },
    get retried() {
      return retried
    },
    async mark() {
      child.send('mark')
      await answer(['marked'], 10_000)
    },
    report() {
      child.send('report')
      return answer(['report'], 10_000)
    },
    caughtUp(sequence, timeoutMs) {
      child.send(`await ${sequence} ${timeoutMs}`)
      return answer(['caught-up', 'late'], timeoutMs + 10_000)
    },
    async versions(path) {
      child.send(`dump ${path}`)
      await answer(['dumped'], 30_000)
      return readVersions(readFileSync(path))
    },
    allEnded(timeoutMs) {
      child.send(`await-end ${timeoutMs}`)
      return answer(['all-ended', 'late'], timeoutMs + 10_000)
    },
    async stall(every, ms) {
      child.send(`stall ${every} ${ms}`)
      await answer(['stalled'], 10_000)
    },
    end: () => child.end(),
  }
  const ready = answer<{
    event: string
    elapsedMs: number
    failedStatus: number
    refused: number
    retried: number
    answered: number
  }>(['ready'], options.readyTimeoutMs ?? 120_000).then((status) => {
    if (status.failedStatus > 0 || status.refused > 0 || status.answered < watchers.count) {
      throw new Error(`not every watch was opened: ${JSON.stringify(status)}`)
    }
    openedMs = status.elapsedMs
    retried = status.retried
    return watchers
  })
  ready.catch(() => {}) // its awaiter sees the error; a storm looks at the report instead
  return { watchers, ready }
}

/** The class of events that no watcher receives. */
const NO_CLASS = 0xffffffff

/** The top bit marks the version of a list. */
const LISTED = 1n << 63n

function readVersions(file: Buffer): WatchedVersions[] {
  const watchers: WatchedVersions[] = []
  for (let at = 0; at < file.length;) {
    const count = file.readUInt32LE(at)
    let listed: number | null = null
    let versions: number[] = []
    for (let i = 0; i < count; i++) {
      const version = file.readBigUInt64LE(at + 4 + i * 8)
      if (version < LISTED) versions.push(Number(version))
      else [listed, versions] = [Number(version - LISTED), []]
    }
    watchers.push({ listed, versions })
    at += 4 + count * 8
  }
  return watchers
}

function pathFlags({ path, accept, again, kind, owed }: WatchPath): [string, string | number][] {
  return [
    ['path', path],
    ['class', owed?.class ?? NO_CLASS],
    ['each', owed?.isEach ? 1 : 0],
    ...(owed?.until === undefined ? [] : [['until', owed.until] satisfies [string, number]]),
    ...(again === undefined ? [] : [['again', again] satisfies [string, string]]),
    ...(accept === undefined ? [] : [['accept', accept] satisfies [string, string]]),
    ...(kind === undefined ? [] : [['kind', kind] satisfies [string, string]]),
  ]
}

/**
 * Writes the classes file. @param classes for each object in the writer's order, the class of watchers that must
 * receive its events; null for none.
 */
export function writeClassesFile(path: string, classes: readonly (number | null)[]): void {
  writeFileSync(
    path,
    Uint32Array.from(classes, (each) => each ?? NO_CLASS),
  )
}

/** Opens the watches and waits until the last one is answered. @throws Error unless every watch is answered. */
export function openWatchers(request: WatchRequest, options: WatchersOptions): Promise<Watchers> {
  return startWatchers(request, options).ready
}
