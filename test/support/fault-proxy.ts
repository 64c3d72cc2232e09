/**
 * A TCP proxy on loopback that injects network faults: it stalls, cuts, delays and refuses connections.
 *
 * It forwards bytes and knows no protocols, so it works for etcd, NATS and distributary alike. Faults affect existing
 * connections and, where documented, new ones. Delays use real time.
 */
import net from 'node:net'
import { freePort } from './free-port.js'

export type Direction = 'to-server' | 'to-client'
/** A FIN closes a connection gracefully, an RST breaks it. */
export type Cut = 'fin' | 'rst'

export interface FaultProxyOptions {
  readonly targetPort: number
  /** The host to which connections are forwarded. Default: 127.0.0.1. */
  readonly targetHost?: string
  /** Identifies the caller of a connection by the first bytes from its client; null when they do not identify one. */
  readonly callerOf?: (firstBytes: Buffer) => string | null
}

export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = new FaultProxy(options)
  await proxy.listen()
  return proxy
}

/** Chunks delayed by the latency; beyond this the source is not read. */
const maxQueuedChunks = 1024

const directions: readonly Direction[] = ['to-server', 'to-client']

export class FaultProxy {
  readonly #options: FaultProxyOptions
  readonly #connections = new Set<Connection>()
  readonly #stalled = new Set<Direction>()
  /** The stalled directions of individual callers. */
  readonly #stalledCallers = new Map<string, ReadonlySet<Direction>>()
  #server: net.Server | null = null
  #port = 0
  #latencyMs = 0
  #isBlackhole = false
  #accepted = 0
  readonly #depth: Record<Direction, number> = { 'to-server': 0, 'to-client': 0 }

  constructor(options: FaultProxyOptions) {
    this.#options = options
  }

  /** Stays the same while connections are refused. */
  get port(): number {
    return this.#port
  }

  get connectionCount(): number {
    return this.#connections.size
  }

  /** Connections accepted so far, including those into a blackhole. */
  get acceptedCount(): number {
    return this.#accepted
  }

  /**
   * How many round trips the clients have made one after the other. Bytes that a client sends after it has received
   * bytes of round trip n belong to round trip n + 1, whether or not they depend on those. With a latency much longer
   * than the work, all that is sent side by side counts once.
   */
  get roundTrips(): number {
    return this.#depth['to-client']
  }

  async listen(): Promise<void> {
    // While it refuses connections, nobody else may get its port.
    if (this.#port === 0) this.#port = await freePort()
    const server = net.createServer({ allowHalfOpen: true }, (client) => this.#accept(client))
    this.#server = server
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(this.#port, '127.0.0.1', resolve)
    })
  }

  /** Stops bytes without closing anything, on old and new connections, until `release`. Default: both directions. */
  stall(...which: Direction[]): void {
    for (const direction of which.length === 0 ? directions : which) this.#stalled.add(direction)
    this.#applyStalls()
  }

  release(...which: Direction[]): void {
    for (const direction of which.length === 0 ? directions : which) this.#stalled.delete(direction)
    this.#applyStalls()
  }

  /** Like `stall`, for the connections of one caller. Without a direction, ends the stall. */
  stallCaller(caller: string, ...which: Direction[]): void {
    if (which.length === 0) this.#stalledCallers.delete(caller)
    else this.#stalledCallers.set(caller, new Set(which))
    this.#applyStalls()
  }

  /** Closes every connection; new ones are accepted. */
  cut(how: Cut = 'rst'): void {
    for (const connection of this.#connections) connection.cut(how)
  }

  /** Closes every connection after this many more bytes in that direction: in the middle of a message. */
  cutAfter(bytes: number, direction: Direction = 'to-client', how: Cut = 'rst'): void {
    for (const connection of this.#connections) connection.cutAfter(bytes, direction, how)
  }

  /** Delays each direction from now on, on old and new connections. */
  setLatency(latencyMs: number): void {
    this.#latencyMs = latencyMs
  }

  /** Refuses new connections, as if no process were listening; existing ones stay. */
  async refuse(): Promise<void> {
    const server = this.#server
    this.#server = null
    // Waiting for `close` would wait for the existing connections.
    server?.close()
    await Promise.resolve()
  }

  /** Ends `refuse`. */
  async accept(): Promise<void> {
    if (this.#server === null) await this.listen()
  }

  /** Accepts new connections and forwards nothing; existing ones continue. */
  setBlackhole(isBlackhole: boolean): void {
    this.#isBlackhole = isBlackhole
  }

  async close(): Promise<void> {
    const server = this.#server
    this.#server = null
    for (const connection of this.#connections) connection.cut('rst')
    if (server !== null) await new Promise((resolve) => server.close(resolve))
  }

  #accept(client: net.Socket): void {
    this.#accepted++
    const { targetPort, targetHost = '127.0.0.1', callerOf } = this.#options
    if (callerOf !== undefined) {
      // Before the pipe receives them: a stall of this caller also holds back its first bytes.
      client.once('data', (bytes: Buffer) => {
        connection.caller = callerOf(bytes)
        this.#applyStalls()
      })
    }
    const server = this.#isBlackhole ? null : net.connect({ port: targetPort, host: targetHost, allowHalfOpen: true })
    const connection: Connection = new Connection(
      client,
      server,
      () => this.#latencyMs,
      this.#depth,
      () => this.#connections.delete(connection),
    )
    this.#connections.add(connection)
    connection.setStalled(this.#stalledFor(connection))
  }

  #applyStalls(): void {
    for (const connection of this.#connections) connection.setStalled(this.#stalledFor(connection))
  }

  #stalledFor({ caller }: Connection): ReadonlySet<Direction> {
    const own = caller === null ? undefined : this.#stalledCallers.get(caller)
    return own === undefined ? this.#stalled : new Set([...this.#stalled, ...own])
  }
}

/** One connection, which consists of two pipes. */
class Connection {
  caller: string | null = null
  readonly #client: net.Socket
  readonly #server: net.Socket | null
  readonly #pipes: ReadonlyMap<Direction, Pipe>

  /** @param server null in a blackhole: nobody reads what the client sends. */
  constructor(
    client: net.Socket,
    server: net.Socket | null,
    latencyMs: () => number,
    depth: Record<Direction, number>,
    onClosed: () => void,
  ) {
    this.#client = client
    this.#server = server
    this.#pipes =
      server === null
        ? new Map()
        : new Map([
            ['to-server', new Pipe(client, server, latencyMs, (how) => this.cut(how))],
            ['to-client', new Pipe(server, client, latencyMs, (how) => this.cut(how))],
          ])
    this.#pipes.get('to-server')?.count(
      () => depth['to-client'] + 1,
      (arrived) => (depth['to-server'] = Math.max(depth['to-server'], arrived)),
    )
    this.#pipes.get('to-client')?.count(
      () => depth['to-server'],
      (arrived) => (depth['to-client'] = Math.max(depth['to-client'], arrived)),
    )
    for (const socket of [client, server]) {
      socket?.setNoDelay(true)
      // The other side is closed by `close`, which follows.
      socket?.on('error', () => {})
    }
    let open = server === null ? 1 : 2
    const closed = (): void => {
      if (--open === 0) onClosed()
    }
    client.on('close', (hadError) => {
      this.#pipes.get('to-server')?.afterQueued(() => closeLike(server, hadError))
      closed()
    })
    server?.on('close', (hadError) => {
      this.#pipes.get('to-client')?.afterQueued(() => closeLike(client, hadError))
      closed()
    })
  }

  setStalled(stalled: ReadonlySet<Direction>): void {
    for (const [direction, pipe] of this.#pipes) pipe.setStalled(stalled.has(direction))
  }

  cutAfter(bytes: number, direction: Direction, how: Cut): void {
    this.#pipes.get(direction)?.cutAfter(bytes, how)
  }

  cut(how: Cut): void {
    for (const pipe of this.#pipes.values()) pipe.stop()
    for (const socket of [this.#client, this.#server]) {
      if (how === 'rst') reset(socket)
      else socket?.destroySoon()
    }
  }
}

/** One direction of a connection: a queue of chunks and ends, each with the time at which it may be forwarded. */
class Pipe {
  readonly #source: net.Socket
  readonly #target: net.Socket
  readonly #latencyMs: () => number
  readonly #onCut: (how: Cut) => void
  readonly #queue: { readonly dueMs: number; readonly task: () => void }[] = []
  #timer: NodeJS.Timeout | null = null
  #isStalled = false
  #isStopped = false
  #isFull = false
  #bytesLeft = Number.POSITIVE_INFINITY
  #cut: Cut = 'rst'
  #depthOfSource = (): number => 0
  #onArrived: (depth: number) => void = () => {}

  constructor(source: net.Socket, target: net.Socket, latencyMs: () => number, onCut: (how: Cut) => void) {
    this.#source = source
    this.#target = target
    this.#latencyMs = latencyMs
    this.#onCut = onCut
    source.on('data', (chunk: Buffer) => {
      const depth = this.#depthOfSource()
      this.afterQueued(() => {
        this.#onArrived(depth)
        this.#forward(chunk)
      })
    })
    source.on('end', () => this.afterQueued(() => target.end()))
    target.on('drain', () => {
      this.#isFull = false
      this.#updateReading()
    })
  }

  /** As in `FaultProxy.roundTrips`: the depth of what the source sends now, and what to do when it arrives. */
  count(depthOfSource: () => number, onArrived: (depth: number) => void): void {
    this.#depthOfSource = depthOfSource
    this.#onArrived = onArrived
  }

  setStalled(isStalled: boolean): void {
    this.#isStalled = isStalled
    this.#drain()
    this.#updateReading()
  }

  cutAfter(bytes: number, how: Cut): void {
    this.#bytesLeft = bytes
    this.#cut = how
  }

  stop(): void {
    this.#isStopped = true
    this.#queue.length = 0
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  /** Runs after everything queued before it, after the latency, and not while the direction is stalled. */
  afterQueued(task: () => void): void {
    if (this.#isStopped) return
    const before = this.#queue.at(-1)?.dueMs ?? 0
    this.#queue.push({ dueMs: Math.max(before, performance.now() + this.#latencyMs()), task })
    this.#drain()
    this.#updateReading()
  }

  #drain(): void {
    if (this.#timer !== null) return
    while (!this.#isStopped && !this.#isStalled) {
      const [next] = this.#queue
      if (next === undefined) return
      const waitMs = next.dueMs - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => {
          this.#timer = null
          this.#drain()
          this.#updateReading()
        }, Math.ceil(waitMs))
        return
      }
      this.#queue.shift()
      next.task()
    }
  }

  #forward(chunk: Buffer): void {
    if (this.#target.destroyed) return
    if (chunk.length >= this.#bytesLeft) {
      this.stop()
      this.#target.write(chunk.subarray(0, this.#bytesLeft), () => this.#onCut(this.#cut))
      return
    }
    this.#bytesLeft -= chunk.length
    this.#isFull = !this.#target.write(chunk)
  }

  #updateReading(): void {
    if (this.#isStopped) return
    if (this.#isStalled || this.#isFull || this.#queue.length >= maxQueuedChunks) this.#source.pause()
    else this.#source.resume()
  }
}

function closeLike(socket: net.Socket | null, hadError: boolean): void {
  if (hadError) reset(socket)
  else socket?.destroySoon()
}

/**
 * Sends only an RST. `resetAndDestroy` sends a FIN first and often appears as a graceful end; the flag that it sets as
 * well is what makes `destroy` reset. When a FIN is already in flight, a reset is impossible: libuv refuses it, and the
 * handle would stay open and keep the process alive.
 */
function reset(socket: net.Socket | null): void {
  if (socket === null) return
  if (!socket.writableEnded) Object.assign(socket, { resetAndClosing: true })
  socket.destroy()
}
