/**
 * A subject of measurement: a server that carries etcd's events to watchers, or a program that shows what that costs.
 *
 * Wires have the names that the results use: `http1`, `http1-tls`, `http2-tls`, `http2x20-tls`, `websocket`, `sse`,
 * `grpc`, `grpc-tls`, …
 */
import type { BenchResource } from '../support/objects.js'
import type { Child } from '../support/processes.js'
import type { EventSource } from '../support/source.js'
import type { WatchRequest } from '../support/watchers.js'
import type { Workspace } from '../support/workspace.js'

export interface WatchQuery {
  /** Exclusive, as in a Kubernetes watch. Default: start from now. */
  readonly afterRevision?: number
  /** Kubernetes' fieldSelector, only for a subject that speaks that dialect. `{i}` is the watcher's number. */
  readonly fieldSelector?: string
  /** A shard selector (KEP-5866), only for a subject that supports it. */
  readonly shardSelector?: string
  /** Selects keys of a declared prefix by how they begin. Only our own server supports this. */
  readonly prefix?: string
}

export interface Subject {
  readonly name: string
  readonly wire: string
  readonly pid: number
  /** The number of watches on one connection. */
  readonly streams: number
  /** The port that serves the wire, for a subject that speaks the Kubernetes dialect. */
  readonly port?: number
  watch(query: WatchQuery): WatchRequest
  /** Returns the request for a full list, if the subject has lists. */
  list?(): WatchRequest
  /** The URL of the subject's Prometheus metrics, if it has any. */
  readonly metricsUrl?: string
  /** Set when the subject generates its own events, without an etcd. */
  readonly source?: EventSource
  end(): Promise<void>
}

export interface SubjectOptions {
  readonly workspace: Workspace
  readonly wire: string
  readonly resource: BenchResource
  /** All defined resources, if the question has more than one. */
  readonly resources?: readonly BenchResource[]
  /** The port of etcd; 0 for a subject that needs none. */
  readonly etcdPort: number
  /** The port of etcd for TLS, if it is a subject on such a wire. */
  readonly etcdSecurePort?: number
  /** The process id of etcd, which may itself be the subject. */
  readonly etcdPid: number
  /** The number of watchers, for a subject that waits for all their connections. */
  readonly watchers: number
  /** The paths of the programs. */
  readonly apiServer?: string
  /** The program that runs our own server. Default: the Node that runs the bench. */
  readonly runtime?: Runtime
  /** Node flags for our own server, such as `--cpu-prof`. */
  readonly nodeFlags?: readonly string[]
  /** Flags for our own server. */
  readonly serverFlags?: readonly string[]
}

export interface Runtime {
  /** `Node 24.21.0`, `Bun 1.4.5` */
  readonly name: string
  readonly program: string
}

export interface SubjectKind {
  readonly name: string
  readonly wires: readonly string[]
  /** If it is `subject`, etcd itself is measured and gets the server's core. */
  readonly etcd: 'behind' | 'subject' | 'none'
  /** Whether the subject is available on this machine and in this run. */
  isAvailable(options: { readonly apiServer?: string | undefined; readonly resource: BenchResource }): boolean
  start(options: SubjectOptions): Promise<Subject>
}

/** Returns the streams per connection in a wire's name: 100 for `http2x100-tls`. */
export function streamsOf(wire: string): number {
  return Number(/^http2x(\d+)/.exec(wire)?.[1] ?? 1)
}

/**
 * Waits until the server answers 200. @throws Error after `timeoutMs`, or when the server ends, with its last output.
 */
export async function awaitOk(child: Child, url: string, timeoutMs: number): Promise<void> {
  await awaitAnswer(child, url, timeoutMs, async () => {
    const answer = await fetch(url, { signal: AbortSignal.timeout(2_000) })
    await answer.arrayBuffer()
    return answer.status
  })
}

/** Like `awaitOk`, for a server with a self-signed certificate. */
export async function awaitOkOverTls(
  child: Child,
  url: string,
  timeoutMs: number,
  headers: Record<string, string> = {},
): Promise<void> {
  const { get } = await import('node:https')
  const ask = (): Promise<number> =>
    new Promise((resolve, reject) => {
      get(url, { rejectUnauthorized: false, headers, timeout: 2_000 }, (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      }).on('error', reject)
    })
  await awaitAnswer(child, url, timeoutMs, ask)
}

async function awaitAnswer(child: Child, url: string, timeoutMs: number, ask: () => Promise<number>): Promise<void> {
  const deadline = performance.now() + timeoutMs
  let last: unknown = 'nothing asked'
  while (!child.hasEnded && performance.now() < deadline) {
    try {
      last = await ask()
      if (last === 200) return
    } catch (error) {
      last = error instanceof Error ? (error.cause ?? error) : error
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const cause = new Error(`${url} is not ready: ${String(last)}`)
  const said = await child.line(() => undefined, 1).catch((error: unknown) => String(error))
  throw new Error(said, { cause })
}
