/**
 * Stands in for the API server behind `--passthrough`, since no kube-apiserver runs in these tests: a plain server that
 * records the requests and gives the responses that the test sets.
 */
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { freePort } from './free-port.js'

export interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: http.IncomingHttpHeaders
  readonly rawHeaders: readonly string[]
  readonly body: string
  readonly trailers: Readonly<Record<string, string | undefined>>
  /** The common name of the client's certificate; null without one. */
  readonly certificate: string | null
}

export type Answer = (request: http.IncomingMessage, response: http.ServerResponse, body: string) => void

export class ApiServerStandIn {
  readonly seen: SeenRequest[] = []
  readonly #server: http.Server | https.Server
  readonly #sockets = new Set<Socket>()
  answer: Answer = (_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end('{"kind":"Stand"}')
  }
  /** Handles upgrades. Default: refuses them with 400. */
  upgrade: (request: http.IncomingMessage, socket: Duplex, head: Buffer) => void = (_request, socket) => {
    socket.end('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno')
  }

  constructor(readonly tls: https.ServerOptions | null) {
    const listener = (request: http.IncomingMessage, response: http.ServerResponse): void => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString()
        this.#note(request, body)
        this.answer(request, response, body)
      })
    }
    this.#server = tls === null ? http.createServer(listener) : https.createServer(tls, listener)
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
    })
    this.#server.on('upgrade', (request: http.IncomingMessage, socket: Duplex, head: Buffer) => {
      this.#note(request, '')
      socket.on('error', () => socket.destroy())
      this.upgrade(request, socket, head)
    })
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo
    return `${this.tls === null ? 'http' : 'https'}://127.0.0.1:${port}`
  }

  get connections(): number {
    return this.#sockets.size
  }

  last(): SeenRequest {
    return this.seen.at(-1)!
  }

  /** @param port the previous one, to listen again after `close`. Default: one that stays reserved. */
  async listen(port?: number): Promise<void> {
    this.#server.listen(port ?? (await freePort()), '127.0.0.1')
    await once(this.#server, 'listening')
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await once(this.#server, 'close')
  }

  #note(request: http.IncomingMessage, body: string): void {
    const { method = '', url = '', headers, rawHeaders, trailers, socket } = request
    const subject = socket instanceof TLSSocket ? (socket.getPeerCertificate() as { subject?: { CN?: string } }) : {}
    const certificate = subject.subject?.CN ?? null
    this.seen.push({ method, url, headers, rawHeaders, body, trailers, certificate })
  }
}

export async function startApiServer(t: Test, tls: https.ServerOptions | null = null): Promise<ApiServerStandIn> {
  const server = new ApiServerStandIn(tls)
  await server.listen()
  t.teardown(() => server.close())
  return server
}
