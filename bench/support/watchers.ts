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
  /** Must be in the head of an HTTP/1.1 answer, so that one wire is not mistaken for another. */
  readonly expect?: string
  readonly tls?: boolean
  readonly http2?: boolean
  /** Objects come as base64 (etcd's JSON gateway). */
  readonly base64?: boolean
}

/** One of the different watches of a connection. */
export interface WatchPath {
  readonly path: string
  readonly accept?: string
  /** With `WatchersOptions.objects`: the path of a streaming list, for when the watch was refused or has ended. */
  readonly again?: string
  /** The kind under which its delays are reported. */
  readonly kind?: string
  /** Which events it is owed, by `WatchersOptions.classesFile`; nothing when unset. */
  readonly owed?: {
    readonly class: number
    /** Connection i is owed those of class `class + i`. */
    readonly isEach: boolean
    /** It is owed those of all classes from `class` to the one before this; the same for all paths that have it. */
    readonly until?: number
  }
}

export interface WatchersOptions {
  readonly connections: number
  /** Watches on each connection; above 1 only over HTTP/2. */
  readonly streams?: number
  /** The sequence of the first event that watcher 0 is owed. */
  readonly first?: number
  /** Paths that the streams of one or several connections watch in turn, instead of the request's path. */
  readonly paths?: readonly WatchPath[]
  /** A file that `writeClassesFile` wrote, in place of `stride`. */
  readonly classesFile?: string
  /** Keep the resource version of every object; the watches are protobuf. */
  readonly objects?: boolean
  /** Watcher k is owed every `stride`-th event, from `first + k % stride` on. */
  readonly stride?: number
  /** The most connections that are opened at one time. */
  readonly burst?: number
  /** How often, in all, a connection that was refused before anything was answered is opened again. Default: never. */
  readonly retries?: number
  /**
   * The receive buffer of each socket, in bytes; the kernel's own takes megabytes before a server feels a slow reader.
   */
  readonly receiveBufferBytes?: number
  /** The largest TCP segment, in bytes: with the loopback's 64 KiB the kernel grants a server 2.6 MB of send buffer. */
  readonly segmentBytes?: number
  /** A file shared with the writer, which reads from it how far the watchers are. */
  readonly progressFile?: string
  readonly readyTimeoutMs?: number
}

export interface Delays {
  readonly count: number
  /** In milliseconds. */
  readonly p50: number
  readonly p90: number
  readonly p99: number
  readonly p999: number
  readonly max: number
}

export interface WatchersReport {
  readonly event: string
  // Since the mark:
  readonly seconds: number
  readonly deliveries: number
  readonly bytes: number
  /** Those received, with `WatchersOptions.objects`. */
  readonly objects: number
  /** Reads that returned bytes: deliveries / reads is at least the number of events in one write of the server. */
  readonly reads: number
  readonly delayMs: Delays
  readonly durationMs: Delays
  /** The delays by the kinds of the paths. */
  readonly kinds: Readonly<Record<string, Delays>>
  // Since the beginning:
  readonly received: number
  readonly missing: number
  readonly repeated: number
  readonly totalBytes: number
  readonly answered: number
  readonly ended: number
  readonly closedEarly: number
  readonly failedStatus: number
  readonly refused: number
  /** Events that reached a watcher they were not for; also counted as repeated, except a watcher's very first one. */
  readonly strays: number
  // With `WatchersOptions.objects`, since the beginning:
  /** Watches that are answered and, where they began with a list, have all of it; and when the last became so. */
  readonly live: number
  readonly liveMs: number
  /**
   * Lists that were requested after the first requests, and how requests and watches ended: 410, 429, anything else.
   */
  readonly relisted: number
  readonly expired: number
  readonly throttled: number
  readonly failed: number
}

/** The versions that a watch received. */
export interface WatchedVersions {
  /** The version of the list that it began with; null when it did not begin with one. */
  readonly listed: number | null
  /** The resourceVersions of the objects in order of arrival; after a list, only those that followed it. */
  readonly versions: readonly number[]
}

export interface Watchers {
  readonly child: Child
  readonly count: number
  /** The time from the first connection attempt to the last answered watch, in milliseconds. */
  readonly openedMs: number
  /** Connections that were opened again. */
  readonly retried: number
  /** Forgets the delays and counts so far, not the sequences. */
  mark(): Promise<void>
  report(): Promise<WatchersReport>
  /** Resolves when every watcher has all that it is owed below `sequence`; `event` is `late` when that took longer. */
  caughtUp(sequence: number, timeoutMs: number): Promise<WatchersReport>
  /** The versions that each watcher received, with `WatchersOptions.objects`, through a file. */
  versions(path: string): Promise<WatchedVersions[]>
  /** Resolves when every response has ended, for lists. */
  allEnded(timeoutMs: number): Promise<WatchersReport>
  /** Makes every `every`-th watcher read nothing for `ms`; its delays are no longer counted. */
  stall(every: number, ms: number): Promise<void>
  end(): Promise<void>
}

/** Begins to open the watches; they are open when `ready` resolves. */
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

/** Owed to nobody. */
const NO_CLASS = 0xffffffff

/** The top bit of a list's version. */
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

/** For each object in the writer's order: the class of watchers that must receive its events; null for none. */
export function writeClassesFile(path: string, classes: readonly (number | null)[]): void {
  writeFileSync(
    path,
    Uint32Array.from(classes, (each) => each ?? NO_CLASS),
  )
}

/** Opens the watches and waits until the last is answered. @throws Error unless every one is. */
export function openWatchers(request: WatchRequest, options: WatchersOptions): Promise<Watchers> {
  return startWatchers(request, options).ready
}
