/**
 * One HTTP request with a streamed response: all that a client needs from the network. `fetch-transport.ts` is for
 * browsers and plain Node; `client/node` has another transport for client certificates and private certificate
 * authorities.
 */
export interface TransportRequest {
  /** Default: GET. */
  readonly method?: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Sent with the content type of `headers`. */
  readonly body?: string
  /** The absolute path without the server: `/api/v1/pods`. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly accept: string
  readonly headers?: Readonly<Record<string, string>>
  /** If the signal aborts while the body is being read, reading it throws. */
  readonly signal: AbortSignal
}

/** The response to a request, with a streamed body. */
export interface TransportResponse {
  readonly status: number
  /** Returns null when the header was not sent. */
  header(name: string): string | null
  /**
   * Ends normally only if the server ended the response properly; a broken connection throws. The body can be read only
   * once.
   */
  readonly body: AsyncIterable<Uint8Array>
}

/** Sends requests to one server. */
export interface Transport {
  /** Resolves for every status code. @throws Error when there was no response. */
  send(request: TransportRequest): Promise<TransportResponse>
}

/** Returns `?a=b&c=d`, or ''. */
export function queryText(query: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(query).toString()
  return text === '' ? '' : `?${text}`
}
