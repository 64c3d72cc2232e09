/**
 * One HTTP/2 connection to an etcd endpoint with one set of credentials. It connects on request, retries until it
 * succeeds, and reconnects on the next request after a loss.
 *
 *     idle ──connect──▶ connecting ──settings──▶ ready ──lost──▶ idle
 *                         │    ▲
 *                       failed │ after a pause
 *                         ▼    │
 *                       resting
 *
 * The connection is ready when the peer's settings have arrived. An accepted TCP connection is not enough, because the
 * kernel accepts connections even for a stopped process. While calls run, the connection is pinged, and abandoned when
 * a ping goes unanswered and nothing else arrives. Without calls it is not pinged, because etcd would end the connection.
 */
import { connect as connectSocket } from 'node:net'
import { type ClientHttp2Session, connect, type SecureClientSessionOptions } from 'node:http2'
import { endWithSession } from '../../../support/end-with-session.js'
import { errorMessage } from '../../../support/error-message.js'
import { keepUntilClosed } from '../../../support/keep-with-stream.js'

/** In PEM. Without `ca`, the system's root certificates are used. */
export interface EtcdTls {
  readonly ca?: Buffer
  readonly cert?: Buffer
  readonly key?: Buffer
}

export interface GrpcConnectionOptions {
  /**
   * `http://host:port` or `https://host:port`, where the port defaults to 2379, or `unix:///path` or
   * `unix:///@abstract`.
   */
  readonly url: string
  readonly tls?: EtcdTls
  /** Turns the reason for a failed attempt into advice. Default: as it is. */
  readonly explain?: ((reason: string, url: string) => string) | undefined
  readonly keepAliveTimeMs: number
  readonly keepAliveTimeoutMs: number
}

const DEFAULT_PORT = '2379'
/** The flow-control window. HTTP/2's default of 64 KB would delay every page of a list by several round trips. */
const WINDOW_BYTES = 4 * 1024 * 1024
/**
 * The pauses between attempts to connect. A restarted etcd must be found within half a second, because watches must
 * continue within a second of its return. Callers back off by themselves.
 */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 400
/** The longest pause of a spare connection. The server may refuse its credentials for days. */
const LONGEST_SPARE_PAUSE_MS = 30_000
/**
 * The time limit for one attempt. While the endpoint is away, TCP retransmits dropped packets at growing intervals, so
 * a new attempt gets through sooner.
 */
const ATTEMPT_MS = 5_000

export class GrpcConnection {
  readonly #options: GrpcConnectionOptions
  #state: 'idle' | 'connecting' | 'resting' | 'ready' | 'closed' = 'idle'
  #session: ClientHttp2Session | null = null
  #pauseMs = FIRST_PAUSE_MS
  #failure: string | null = null
  #timer: NodeJS.Timeout | null = null
  /** The number of running calls, including those on an earlier session. */
  #calls = 0
  /** Wakes the callers that wait for the outcome of the current attempt. */
  readonly #waiting = new Set<() => void>()

  /** @param isSpare whether another connection works. If so, attempts become rare, until `takeOver`. */
  constructor(
    options: GrpcConnectionOptions,
    private isSpare = false,
  ) {
    this.#options = options
  }

  /** The session, if calls can be made on it; otherwise null. Only a ping detects a peer that has vanished silently. */
  get ready(): ClientHttp2Session | null {
    const session = this.#session
    if (this.#state !== 'ready' || session === null) return null
    if (!session.closed && !session.destroyed) return session
    // The calls of a lost connection are notified before the connection's own event arrives.
    this.#lost(session)
    return null
  }

  /** Why the last attempt failed; null after a success. */
  get failure(): string | null {
    return this.#failure
  }

  /**
   * Connects if necessary. Resolves to false as soon as an attempt has failed, the time is over or the signal aborts.
   * Further attempts are made in the background.
   */
  async connect(timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    if (this.ready !== null) return true
    if (this.#state === 'idle') this.#attempt()
    if (this.#state === 'connecting' && signal?.aborted !== true) await this.#outcome(timeoutMs, signal)
    return this.ready !== null
  }

  /** The other connection is no longer used. */
  takeOver(): void {
    this.isSpare = false
    this.#pauseMs = FIRST_PAUSE_MS
    if (this.#state === 'resting') this.#attempt()
  }

  /** Called when a call begins. @returns a function to be called when the call ends. */
  use(): () => void {
    this.#calls++
    return () => {
      this.#calls--
    }
  }

  /** Takes no more calls. Running calls continue, and the connection closes after the last one. */
  retire(): void {
    this.#become('closed')
    const session = this.#session
    if (session === null) return
    if (this.#calls === 0) session.destroy()
    else session.close()
  }

  #attempt(): void {
    const { url, tls = {}, explain } = this.#options
    const options: SecureClientSessionOptions = {
      ...tls,
      // As in Go, the authority may be an intermediate.
      allowPartialTrustChain: true,
      settings: { initialWindowSize: WINDOW_BYTES, enablePush: false },
      // Pages and revisions may be of any size. The reader limits the size of one message.
      maxSessionMemory: Number.MAX_SAFE_INTEGER,
    }
    const path = socketPath(url)
    const session =
      path === null
        ? connect(withPort(url), options)
        : connect('http://localhost', { ...options, createConnection: () => connectSocket(path) })
    this.#session = session
    endWithSession(session)
    keepUntilClosed(session)
    this.#become('connecting')
    const silent = new Error(`no answer within ${ATTEMPT_MS} ms`)
    this.#timer = setTimeout(() => session.destroy(silent), ATTEMPT_MS)
    session.once('connect', () => {
      // Node emits this event a tick late. The session may be destroyed by then, and the call would throw.
      if (!session.destroyed) session.setLocalWindowSize(WINDOW_BYTES)
    })
    session.once('remoteSettings', () => {
      if (this.#session !== session || this.#state !== 'connecting') return
      this.#pauseMs = FIRST_PAUSE_MS
      this.#failure = null
      this.#become('ready')
      this.#keepAlive(session)
    })
    let failure = 'it closed the connection'
    session.on('error', (error) => (failure = errorMessage(error))) // it closes as well
    session.once('goaway', () => this.#lost(session))
    session.once('close', () => {
      if (this.#session === session && this.#state === 'connecting') this.#failure = explain?.(failure, url) ?? failure
      this.#lost(session)
    })
  }

  #lost(session: ClientHttp2Session): void {
    if (this.#session !== session || this.#state === 'closed') return
    if (this.#state !== 'connecting') {
      // Do not destroy the session: after a GOAWAY, the peer decides how the remaining calls end.
      this.#session = null
      this.#become('idle')
      return
    }
    this.#session = null
    this.#become('resting')
    const pauseMs = this.#pauseMs * (0.8 + 0.4 * Math.random())
    this.#pauseMs = Math.min(this.#pauseMs * 1.6, this.isSpare ? LONGEST_SPARE_PAUSE_MS : LONGEST_PAUSE_MS)
    this.#timer = setTimeout(() => this.#attempt(), pauseMs).unref()
    session.destroy()
  }

  #become(state: 'idle' | 'connecting' | 'resting' | 'ready' | 'closed'): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#state = state
    if (state === 'connecting') return
    for (const wake of this.#waiting) wake()
  }

  #outcome(timeoutMs: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done)
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, timeoutMs)
      signal?.addEventListener('abort', done, { once: true })
      this.#waiting.add(done)
    })
  }

  /** Pings as long as the session lives, even when it takes no more calls. */
  #keepAlive(session: ClientHttp2Session): void {
    const { keepAliveTimeMs, keepAliveTimeoutMs } = this.#options
    let timer: NodeJS.Timeout
    const plan = (): void => {
      timer = setTimeout(() => {
        // After a GOAWAY, a session closes only when its socket does, and the peer may delay that.
        if (session.destroyed) return
        if (this.#calls === 0) plan()
        else ping()
      }, keepAliveTimeMs).unref()
    }
    const ping = (): void => {
      let isAnswered = false
      let received = session.socket.bytesRead
      let silences = 0
      // This process may stand still for longer than the limit, before it has written the ping, or while the answer
      // waits to be read. So the peer is gone only if nothing arrives in two waits, each with a poll at its end.
      const wait = (): void => {
        timer = setTimeout(() => setImmediate(check), keepAliveTimeoutMs / 2).unref()
      }
      const check = (): void => {
        if (isAnswered || session.destroyed) return
        const { bytesRead } = session.socket
        silences = bytesRead === received ? silences + 1 : 0
        received = bytesRead
        if (silences === 2) session.destroy()
        else wait()
      }
      wait()
      session.ping((error) => {
        isAnswered = true
        clearTimeout(timer)
        if (error === null && !session.destroyed) plan()
      })
    }
    session.once('close', () => clearTimeout(timer))
    plan()
  }
}

/** Returns the path of a Unix socket; null for any other URL. A name in Linux's abstract namespace begins with NUL. */
function socketPath(url: string): string | null {
  const [, path] = /^unix:\/\/(\/.+)$/.exec(url) ?? []
  if (path === undefined) return null
  return path.startsWith('/@') ? `\0${path.slice(2)}` : path
}

/**
 * Returns the URL with its port. The port is taken from the text, because `URL` drops a scheme's default port, as in
 * `https://host:443`.
 */
function withPort(url: string): string {
  const { protocol, hostname } = new URL(url)
  const [, port = DEFAULT_PORT] = /^[^/]*\/\/[^/]*:(\d+)(?:[/?#]|$)/.exec(url) ?? []
  return `${protocol}//${hostname}:${port}`
}
