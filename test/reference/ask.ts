/**
 * Sends one request to one server, with the path verbatim (no URL parser normalizes `//` and `%2F`), and returns the
 * whole response or, for a watch, its events as they arrive.
 */
import http from 'node:http'
import https from 'node:https'
import type { LosslessJson } from './lossless.js'
import { parseLossless } from './lossless.js'

export interface Server {
  readonly name: 'ours' | 'theirs'
  readonly protocol: 'http:' | 'https:'
  readonly port: number
  readonly agent: http.Agent
  /** The bearer token for requests without one. */
  readonly token: string | null
}

export interface Question {
  readonly method: string
  /** The path with its query, which is sent verbatim. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** The body of a review, which is a POST. */
  readonly body?: string
}

export interface Answer {
  readonly code: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** More than any correct answer takes: a stream that never ends is a fault to report, not to wait for. */
const WITHIN_MS = 20_000

/** Both servers are on loopback, with certificates created at their start. */
export function serverAt(name: Server['name'], url: string, token: string | null = null): Server {
  const { protocol, port } = new URL(url)
  const settings = { keepAlive: true, maxSockets: 64 }
  if (protocol === 'http:') return { name, protocol, port: Number(port), token, agent: new http.Agent(settings) }
  const agent = new https.Agent({ ...settings, rejectUnauthorized: false })
  return { name, protocol: 'https:', port: Number(port), token, agent }
}

function open(server: Server, question: Question, agent: http.Agent | false, body?: Buffer): http.ClientRequest {
  const { method, path, headers } = question
  const length = body === undefined ? {} : { 'content-length': String(body.length) }
  const credentials = server.token === null ? {} : { authorization: `Bearer ${server.token}` }
  const options = { host: '127.0.0.1', port: server.port, rejectUnauthorized: false, agent, method, path }
  const module = server.protocol === 'http:' ? http : https
  return module.request({ ...options, headers: { ...credentials, ...headers, ...length } })
}

/** @throws Error that names the server, when the connection breaks or nothing arrives. */
export async function ask(server: Server, question: Question, body?: Buffer): Promise<Answer> {
  // Bytes after a bodyless head would be taken for the next response: they are this one's fault.
  const agent = question.method === 'HEAD' ? false : server.agent
  return await new Promise((resolve, reject) => {
    const request = open(server, question, agent, body)
    const fail = (error: Error): void => {
      request.destroy()
      reject(new Error(`${server.name}: ${question.method} ${question.path}: ${error.message}`, { cause: error }))
    }
    request.setTimeout(WITHIN_MS, () => fail(new Error(`nothing for ${WITHIN_MS} ms`)))
    request.on('error', fail)
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', fail)
      response.on('end', () => {
        const headers = Object.entries(response.headers).map(([name, value]) => [name, [value].flat().join(', ')])
        resolve({
          code: response.statusCode ?? 0,
          headers: Object.fromEntries(headers) as Record<string, string>,
          body: Buffer.concat(chunks),
        })
      })
    })
    request.end(body)
  })
}

/** Like `ask`, but a broken connection is also a response to compare. */
export async function tryAsk(server: Server, question: Question, body?: Buffer): Promise<Answer> {
  try {
    return await ask(server, question, body)
  } catch (error) {
    return { code: 0, headers: {}, body: Buffer.from(error instanceof Error ? error.message : String(error)) }
  }
}

export interface Stream {
  /** The status code, once the head has arrived. */
  readonly code: number
  /** Resolves when the server has ended the stream. */
  readonly ended: Promise<void>
  close(): void
}

/**
 * Starts a watch in JSON, and passes on every event, parsed. Resolves when the response head has arrived.
 * @param token default: the server's.
 */
export async function watch(
  server: Server,
  path: string,
  accept: string,
  onEvent: (event: LosslessJson) => void,
  token: string | null = server.token,
): Promise<Stream> {
  return await new Promise((resolve, reject) => {
    // On its own connection: hundreds of streams are open at a time.
    const request = open({ ...server, token }, { method: 'GET', path, headers: { accept } }, false)
    request.on('error', (error) => reject(new Error(`${server.name}: watch ${path}: ${error.message}`)))
    request.on('response', (response) => {
      let rest = ''
      response.setEncoding('utf8')
      // A refusal is not a stream: it counts as a single event. A 429 passes, so only its own words tell the reason.
      if (response.statusCode === 429)
        response.once('data', (text: string) => onEvent(`refused: ${response.statusCode} ${text}`))
      else if (response.statusCode !== 200) onEvent(`refused: ${response.statusCode}`)
      else
        response.on('data', (text: string) => {
          const lines = (rest + text).split('\n')
          rest = lines.pop() ?? ''
          for (const line of lines) if (line !== '') onEvent(parseLossless(line))
        })
      // A stream that is closed while being read has ended as well.
      response.on('error', () => {})
      const ended = new Promise<void>((done) => response.on('close', done))
      response.resume()
      resolve({ code: response.statusCode ?? 0, ended, close: () => request.destroy() })
    })
    request.end()
  })
}
