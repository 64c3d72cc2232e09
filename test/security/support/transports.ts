/**
 * Sends one request over each transport, keeps it open as long as the test wants, and collects the response as text.
 */
import { request as httpRequest } from 'node:http'
import { type ClientHttp2Session, connect } from 'node:http2'
import { gunzipSync } from 'node:zlib'
import { WebSocket } from 'ws'

export const TRANSPORTS = ['HTTP/1.1', 'HTTP/2', 'SSE', 'WebSocket'] as const
export type Transport = (typeof TRANSPORTS)[number]

export interface Held {
  /** The status; 200 for an open WebSocket. */
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Everything received so far. */
  readonly text: string
  readonly bytes: Buffer
  readonly hasEnded: boolean
  /** Resolves when the server ends it. */
  readonly ended: Promise<void>
  close(): void
}

export interface HoldOptions {
  readonly token?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

class Hearing implements Held {
  status = 0
  headers: Held['headers'] = {}
  hasEnded = false
  readonly #chunks: Buffer[] = []
  #end = (): void => {}
  readonly ended = new Promise<void>((resolve) => (this.#end = resolve))
  close = (): void => {}

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  get text(): string {
    if (this.headers['content-encoding'] !== 'gzip') return this.bytes.toString('utf8')
    // The gzip of a running stream is incomplete.
    return gunzipSync(this.bytes, { finishFlush: 2 }).toString('utf8')
  }

  hear(chunk: Buffer): void {
    this.#chunks.push(chunk)
  }

  finish(): void {
    this.hasEnded = true
    this.#end()
  }
}

/** Resolves with the head of the response. @param url the server's URL, `http://…`. */
export async function hold(
  url: string,
  transport: Transport,
  path: string,
  { token = null, headers = {} }: HoldOptions = {},
): Promise<Held> {
  const credentials: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` }
  const held = new Hearing()
  switch (transport) {
    case 'HTTP/1.1':
    case 'SSE': {
      const accept: Record<string, string> = transport === 'SSE' ? { accept: 'text/event-stream' } : {}
      await new Promise<void>((resolve, reject) => {
        const all = { ...accept, ...credentials, ...headers }
        const request = httpRequest(`${url}${path}`, { headers: all, agent: false }, (response) => {
          Object.assign(held, { status: response.statusCode ?? 0, headers: response.headers })
          response.on('data', (chunk: Buffer) => held.hear(chunk))
          response.on('close', () => held.finish())
          response.on('error', () => {})
          resolve()
        })
        held.close = () => request.destroy()
        request.on('error', (error) => {
          held.finish()
          reject(error)
        })
        request.end()
      })
      return held
    }
    case 'HTTP/2': {
      const session = connect(url)
      await new Promise<void>((resolve, reject) => {
        session.on('error', reject)
        http2Request(session, path, { ...credentials, ...headers }, held, resolve, reject)
      })
      return held
    }
    case 'WebSocket': {
      const prefix = 'base64url.bearer.authorization.k8s.io.'
      const protocols = token === null ? [] : [`${prefix}${Buffer.from(token).toString('base64url')}`, 'v1']
      await new Promise<void>((resolve, reject) => {
        const socket = new WebSocket(`${url.replace('http', 'ws')}${path}`, protocols, { headers })
        held.close = () => socket.terminate()
        socket.on('message', (data: Buffer) => held.hear(Buffer.concat([data, Buffer.from('\n')])))
        socket.on('close', () => held.finish())
        socket.on('open', () => {
          held.status = 200
          resolve()
        })
        socket.on('unexpected-response', (_request, response) => {
          held.status = response.statusCode ?? 0
          response.on('data', (chunk: Buffer) => held.hear(chunk))
          response.on('close', () => held.finish())
          resolve()
        })
        socket.on('error', reject)
      })
      return held
    }
    default:
      return transport satisfies never
  }
}

function http2Request(
  session: ClientHttp2Session,
  path: string,
  headers: Readonly<Record<string, string>>,
  held: Hearing,
  resolve: () => void,
  reject: (error: Error) => void,
): void {
  const stream = session.request({ ':path': path, ...headers })
  held.close = () => session.destroy()
  stream.on('response', (answered) => {
    Object.assign(held, { status: answered[':status'] ?? 0, headers: answered })
    resolve()
  })
  stream.on('data', (chunk: Buffer) => held.hear(chunk))
  stream.on('close', () => {
    held.finish()
    session.destroy()
    // A session that the server destroys ends its streams without an error.
    reject(new Error('the stream has ended without a response'))
  })
  stream.on('error', reject)
  stream.end()
}

/** The whole response. */
export async function ask(url: string, transport: Transport, path: string, options: HoldOptions = {}): Promise<Held> {
  const held = await hold(url, transport, path, options)
  await held.ended
  return held
}
