/**
 * One HTTP request and its response, on Node's own objects. HTTP/1.1 and HTTP/2 work the same here, because HTTP/2's
 * compatibility response has the same methods. Responses sent by this class are small and complete; lists and watches
 * write their own.
 */
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import { negotiateStatus, wantsPretty } from '../../../kubernetes/dialect/accept.js'
import { parseQuery } from '../../../kubernetes/dialect/query.js'
import { statusResponse } from '../../../kubernetes/dialect/status-body.js'
import type { Attributes } from '../../auth/authz/authorizer.js'
import type { User } from '../../auth/user.js'
import type { StatusError } from '../../../kubernetes/model/status.js'
import { boundResponse, breakOff, lingerMs } from './linger.js'

/** Longer warnings are cut off, because every client limits the total size of headers. */
const MAX_WARNING_CHARACTERS = 256

/** Shared, because creating one captures a stack trace. */
const CLOSED = new DOMException('the request is over', 'AbortError')

/** The gate's findings about a request, for the access log. */
export interface AccessResult {
  client: { readonly user: User; readonly impersonator: User | null } | null
  /** null if the request is rejected. */
  rule: string | null
  /** What was requested; of a request that needs several permissions, the first, or the one that it lacks. */
  attributes: Attributes
  /** Whether the request has been counted against its caller's rate. */
  isCounted: boolean
}

/** The codes of errors that may be gone at the next attempt. */
const PASSING: ReadonlySet<number> = new Set([410, 429, 503, 504])

export class Exchange {
  readonly path: string
  readonly query: URLSearchParams
  #abort: AbortController | null = null
  readonly startedMs = performance.now()
  /** The headers to send with every response, unless the response sets another value. */
  readonly headers: OutgoingHttpHeaders = { 'cache-control': 'no-cache, private' }
  statusCode = 0
  /** The client's address as determined by the gate. */
  address: string | null = null
  /** null before the gate has seen the request. */
  access: AccessResult | null = null
  readonly #onClose = (): void => this.#abort?.abort(CLOSED)

  /** @param untakenMs returns how many milliseconds a client may leave the last `bytes` of a response unread. */
  constructor(
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    readonly untakenMs: (bytes: number) => number = lingerMs,
  ) {
    const url = request.url ?? '/'
    const mark = url.indexOf('?')
    this.path = mark === -1 ? url : url.slice(0, mark)
    this.query = parseQuery(mark === -1 ? '' : url.slice(mark + 1))
  }

  get requestHeaders(): IncomingHttpHeaders {
    return this.request.headers
  }

  /** Whether the response ends with its headers. A byte after them would be read as part of the next response. */
  get isHead(): boolean {
    return this.request.method === 'HEAD'
  }

  /**
   * Aborts when the client is gone or the response is complete. Created on first use, because most responses do not
   * need it.
   */
  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController()
      if (this.isGone) this.#abort.abort(CLOSED)
      else this.response.once('close', this.#onClose)
    }
    return this.#abort.signal
  }

  /** @param listener called when the client is gone or the response is complete. */
  onClose(listener: () => void): void {
    this.response.once('close', listener)
  }

  /** Releases objects that a running watch does not need, because thousands of watches run at once. */
  release(): void {
    this.response.off('close', this.#onClose)
    this.#abort = null
  }

  get isGone(): boolean {
    return this.#writable.destroyed || this.response.writableEnded
  }

  /** Whether a request failed because its client has left, and so needs no response. */
  wasLeft(error: unknown): boolean {
    return error === CLOSED || (this.isGone && error instanceof Error && error.name === 'AbortError')
  }

  /** Whether written bytes are waiting for the client, in which case a `drain` event will follow. */
  get needsDrain(): boolean {
    return this.#writable.writableNeedDrain
  }

  /** The compatibility response of HTTP/2 does not expose this state; its stream does. */
  get #writable(): Pick<Writable, 'destroyed' | 'writableNeedDrain'> {
    return (this.response as { stream?: Writable }).stream ?? this.response
  }

  /** Adds a warning, which kubectl and client-go show to their users. */
  warn(text: string): void {
    const { warning } = this.headers
    const known = warning === undefined ? [] : [warning]
    this.headers['warning'] = [...known, warningValue(text)].join(', ')
  }

  writeHead(code: number, headers: OutgoingHttpHeaders): void {
    this.statusCode = code
    const vary = [this.headers['vary'], headers['vary']].filter((names) => names !== undefined).join(', ')
    this.response.writeHead(code, { ...this.headers, ...headers, ...(vary === '' ? {} : { vary }) })
  }

  send(code: number, contentType: string, body: Buffer, headers: OutgoingHttpHeaders = {}): void {
    if (this.isGone) return
    this.writeHead(code, { 'content-type': contentType, 'content-length': body.length, ...headers })
    this.end(this.isHead ? undefined : body)
  }

  /** Ends the response with its last bytes, which the client must read within a time limit. */
  end(body?: Buffer): void {
    this.response.end(body)
    boundResponse(this.response, this.untakenMs)
  }

  /** Aborts a response whose headers have been sent, because the rest cannot be sent. */
  breakOff(): void {
    breakOff(this.response)
  }

  /** Sends a document that the client may cache under its ETag, or a 304 if the client already has this version. */
  sendTagged(contentType: string, body: Buffer, etag: string, headers: OutgoingHttpHeaders = {}): void {
    const tagged = { etag, vary: 'Accept', ...headers }
    if (this.keeps(etag)) this.sendNotModified(tagged)
    else this.send(200, contentType, body, tagged)
  }

  /** Whether the client has the version with that ETag (`If-None-Match`). */
  keeps(etag: string): boolean {
    const kept = this.requestHeaders['if-none-match'] ?? ''
    return kept.trim() === '*' || kept.split(',').some((tag) => opaqueTag(tag) === opaqueTag(etag))
  }

  /** Answers that the client's version is current. */
  sendNotModified(headers: OutgoingHttpHeaders): void {
    if (this.isGone) return
    this.writeHead(304, headers)
    this.end()
  }

  /**
   * Sends the error as a Status in the form that the client reads, with Retry-After if the error has one. Call this
   * only before the headers are sent.
   */
  fail(error: StatusError): void {
    const { accept, 'user-agent': userAgent } = this.requestHeaders
    const pretty = wantsPretty(this.query, userAgent)
    const { code, headers, body } = statusResponse(error, negotiateStatus(accept), { pretty })
    const { 'content-type': contentType = 'application/json', ...rest } = headers
    const kept = String(this.headers['cache-control'])
    // No cache may keep a temporary error, or a response to a request with a ticket.
    const noStore = kept.includes('no-store') ? kept : PASSING.has(code) ? 'no-store' : null
    this.send(code, contentType, body, noStore === null ? rest : { ...rest, 'cache-control': noStore })
  }
}

/** If-None-Match compares weakly (RFC 9110): W/"a" and "a" are equal. */
function opaqueTag(tag: string): string {
  return tag.trim().replace(/^W\//, '')
}

/**
 * Returns a warning in the form of RFC 9110, with its text in UTF-8, as the API server sends it. Node writes each
 * character of a header as one byte, so each byte becomes a character.
 */
function warningValue(text: string): string {
  const shown = Array.from(text.replaceAll(/\p{Cc}/gu, '?'))
    .slice(0, MAX_WARNING_CHARACTERS)
    .join('')
  return `299 - "${Buffer.from(shown.replaceAll(/["\\]/g, '\\$&')).toString('latin1')}"`
}
