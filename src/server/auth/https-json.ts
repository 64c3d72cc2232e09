/**
 * Exchanges small JSON documents with a server that judges credentials or permissions: an issuer or an API server. It
 * uses Node's `https` rather than `fetch`, because only `https` takes a certificate authority and a client certificate
 * without another dependency. Redirects are not followed, since they could send our credentials elsewhere.
 */
import http from 'node:http'
import https from 'node:https'
import type { Webhook, WebhookMetrics } from '../metrics/request-metrics.js'
import { ConnectionCount } from '../../support/connection-count.js'
import { agentFor, refuseUpgrade, retireAgent } from '../../support/https-agent.js'
import { bufferOf } from '../../support/buffer-of.js'
import { jsonIn } from '../../support/json-text.js'
import { readBytes } from '../../support/read-bytes.js'
import type { TlsClientOptions } from '../../support/tls-client-options.js'
import type { Watched } from './watched-file.js'
import { textAt } from '../../support/fields.js'

export interface JsonServer extends TlsClientOptions {
  /** An `https://` URL, or an `http://` one for an API server on loopback. */
  readonly server: string
  /** Called for each request, so that a rotated token file is read again. */
  readonly authorization?: () => string | null
}

export interface JsonResponse {
  readonly status: number
  /** The parsed body; undefined when it is not JSON. */
  readonly body: unknown
}

const JSON_TYPE = 'application/json'
const TIMEOUT_MS = 5_000
/** Discovery documents, key sets and reviews take a few KB. */
const MAX_BODY_BYTES = 2 ** 20

/** Keeps a few connections open until `close`. */
export class JsonClient {
  readonly #watched: Watched<JsonServer> | null
  readonly #recordExchange: (code: number, seconds: number) => void
  #server: JsonServer
  #agent: http.Agent
  /** The connections that have delivered a response so far. */
  readonly connections = new ConnectionCount()

  /**
   * @param server if watched, each change takes effect with new connections, and `close` stops watching.
   * @param webhook the name under which `metrics` get the duration of each exchange.
   */
  constructor(server: JsonServer | Watched<JsonServer>, webhook?: Webhook, metrics?: WebhookMetrics) {
    this.#recordExchange = (code, seconds) =>
      void (webhook !== undefined && metrics?.webhookRequestEnded(webhook, String(code), seconds))
    this.#watched = 'onChange' in server ? server : null
    this.#server = 'onChange' in server ? server.value : server
    this.#agent = newAgent(this.#server)
    this.#watched?.onChange((changed) => {
      retireAgent(this.#agent)
      this.#server = changed
      this.#agent = newAgent(changed)
    })
  }

  /**
   * @param url a complete URL, or a path below the server's URL.
   * @throws Error when the server does not answer within 5 s, or answers with more than 1 MiB.
   */
  get(url: string, accept = JSON_TYPE): Promise<JsonResponse> {
    return this.#request(url.startsWith('/') ? this.#below(url) : url, 'GET', null, accept)
  }

  /** @param path below the server's URL. @throws Error as `get`. */
  post(path: string, body: object): Promise<JsonResponse> {
    return this.#request(this.#below(path), 'POST', JSON.stringify(body), JSON_TYPE)
  }

  #below(path: string): string {
    return this.#server.server.replace(/\/$/, '') + path
  }

  close(): void {
    this.#watched?.close()
    this.#agent.destroy()
  }

  async #request(
    ...request: [url: string, method: string, body: string | null, accept: string]
  ): Promise<JsonResponse> {
    const startedMs = performance.now()
    let code = 0
    try {
      const response = await this.#exchange(...request)
      code = response.status
      return response
    } finally {
      this.#recordExchange(code, (performance.now() - startedMs) / 1000)
    }
  }

  async #exchange(url: string, method: string, body: string | null, accept: string): Promise<JsonResponse> {
    const authorization = this.#server.authorization?.() ?? null
    const headers = {
      accept,
      ...(body === null ? {} : { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body) }),
      ...(authorization === null ? {} : { authorization }),
    }
    const signal = AbortSignal.timeout(TIMEOUT_MS)
    const response = await send(url, { method, headers, agent: this.#agent, signal }, body)
    this.connections.note(response.socket)
    const text = bufferOf(await readBytes(response, MAX_BODY_BYTES)).toString('utf8')
    return { status: response.statusCode ?? 0, body: jsonIn(text) }
  }
}

type Sent = https.RequestOptions & { readonly signal: AbortSignal }

function send(url: string, options: Sent, body: string | null): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    const { request: start } = url.startsWith('http:') ? http : https
    let hasResponse = false
    const request = start(url, options, (response) => {
      hasResponse = true
      resolve(response)
    })
    request.on('error', (error) => {
      // The server may close an idle connection just as it is reused. A retry is safe, because no request here changes
      // anything.
      if (request.reusedSocket && !hasResponse && !options.signal.aborted) resolve(send(url, options, body))
      else reject(error)
    })
    refuseUpgrade(request)
    request.end(body ?? undefined)
  })
}

function newAgent(server: JsonServer): http.Agent {
  return agentFor(server.server, server, { keepAlive: true, maxSockets: 8, maxFreeSockets: 8 })
}

/** The error for an unexpected status, with the server's own message as its cause. */
export function refusal(requested: string, { status, body }: JsonResponse): Error {
  const message = textAt(body, 'message')
  return new Error(`${requested} returned ${status}`, message === '' ? {} : { cause: message })
}
