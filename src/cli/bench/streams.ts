/** Opens many endless responses over HTTP/1.1 or HTTP/2, and passes on their bytes as they arrive. */
import http from 'node:http'
import http2 from 'node:http2'
import https from 'node:https'
import { headersByName } from '../../client/reflector/impersonation-headers.js'
import type { NodeTransportOptions } from '../../client/node/node-transport.js'
import { agentFor, tlsConnection } from '../../support/https-agent.js'

export interface StreamHandler {
  /** Called once, before any data and before the end. */
  onResponse(status: number): void
  onData(chunk: Buffer): void
  /** Called when the stream has ended or could not be opened. @param error null if the server ended it properly. */
  onEnd(error: Error | null): void
}

export interface Streams {
  open(path: string, handler: StreamHandler): void
  readonly connections: number
  close(): void
}

export interface StreamsOptions {
  readonly target: NodeTransportOptions
  readonly isHttp2: boolean
  /** The number of watches on each connection, for HTTP/2. */
  readonly streamsPerConnection: number
}

export function createStreams(options: StreamsOptions): Streams {
  return options.isHttp2 ? overHttp2(options) : overHttp1(options)
}

function headersOf({ authorization, impersonate }: NodeTransportOptions): Record<string, string | string[]> {
  const credentials = authorization?.() ?? null
  return {
    accept: 'application/json',
    ...(headersByName(impersonate) as Record<string, string[]>),
    ...(credentials === null ? {} : { authorization: credentials }),
  }
}

function overHttp1({ target }: StreamsOptions): Streams {
  const server = target.server.replace(/\/+$/, '')
  const isPlain = server.startsWith('http:')
  // Every watch has its own connection, like a separate client.
  const agent = agentFor(server, target, { maxSockets: Infinity })
  const start = isPlain ? http.get : https.get
  const open = new Set<http.ClientRequest>()
  return {
    get connections() {
      return open.size
    },
    open(path, handler) {
      const request = start(`${server}${path}`, { agent, headers: headersOf(target) }, (response) => {
        handler.onResponse(response.statusCode ?? 0)
        response.on('data', (chunk: Buffer) => handler.onData(chunk))
        response.on('end', () => end(null))
        response.on('error', end)
      })
      let hasEnded = false
      const end = (error: Error | null): void => {
        open.delete(request)
        if (!hasEnded) handler.onEnd(error)
        hasEnded = true
      }
      open.add(request)
      request.on('error', end)
    },
    close() {
      for (const request of open) request.destroy()
      agent.destroy()
    },
  }
}

function overHttp2({ target, streamsPerConnection }: StreamsOptions): Streams {
  const { origin, pathname } = new URL(target.server)
  const prefix = pathname.replace(/\/+$/, '')
  const sessions = new Set<http2.ClientHttp2Session>()
  let session: http2.ClientHttp2Session | null = null
  let left = 0
  const connect = (): http2.ClientHttp2Session => {
    const opened = http2.connect(origin, {
      ...tlsConnection(target),
      settings: { enablePush: false, initialWindowSize: 2 ** 20 },
    })
    sessions.add(opened)
    // The streams of the connection report the error themselves.
    opened.on('error', () => undefined)
    opened.on('close', () => {
      sessions.delete(opened)
      if (session === opened) session = null
    })
    left = streamsPerConnection
    return opened
  }
  return {
    get connections() {
      return sessions.size
    },
    open(path, handler) {
      if (session === null || left === 0) session = connect()
      left--
      const stream = session.request({ ':path': `${prefix}${path}`, ...headersOf(target) })
      let error: Error | null = null
      stream.on('response', (headers) => handler.onResponse(headers[':status'] ?? 0))
      stream.on('data', (chunk: Buffer) => handler.onData(chunk))
      stream.on('error', (cause: Error) => (error = cause))
      stream.on('close', () => handler.onEnd(error))
    },
    close() {
      for (const one of sessions) one.destroy()
    },
  }
}
