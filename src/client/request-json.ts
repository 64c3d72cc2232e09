/** Sends one JSON request, for everything except watching: to read one object, create, update or delete. */
import { failureOf } from './reflector/list-pages.js'
import type { Transport } from './reflector/transport.js'
import { orAborted } from '../support/deadline.js'
import { readBytes } from '../support/read-bytes.js'

/** A request whose response is one JSON document. */
export interface JsonRequest {
  /** Default: GET, or POST with a body. */
  readonly method?: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** See `resourcePath`. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** Default: `application/json`, or `application/merge-patch+json` for a PATCH. */
  readonly contentType?: string
  /** Default: application/json. */
  readonly accept?: string
  readonly signal?: AbortSignal
}

/** Far more than the largest object that etcd stores. */
const MAX_RESPONSE_BYTES = 64 * 2 ** 20

/**
 * Returns the document of a 2xx response.
 *
 * @throws WatchFailure for any other response, with its `code` and the server's Status.
 * @throws Error without a response; the signal's reason, even if the transport ignores the signal.
 */
export async function requestJson<T = unknown>(transport: Transport, request: JsonRequest): Promise<T> {
  const { signal = new AbortController().signal } = request
  signal.throwIfAborted()
  return JSON.parse(await orAborted(requestText(transport, request, signal), signal)) as T
}

async function requestText(transport: Transport, request: JsonRequest, signal: AbortSignal): Promise<string> {
  const { path, query = {}, body, accept = 'application/json' } = request
  const method = request.method ?? (body === undefined ? undefined : 'POST')
  const type = request.contentType ?? (method === 'PATCH' ? 'application/merge-patch+json' : 'application/json')
  const response = await transport.send({
    ...(method === undefined ? {} : { method }),
    path,
    query,
    accept,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': type } }),
    signal,
  })
  if (response.status < 200 || response.status >= 300) throw await failureOf(response)
  return new TextDecoder().decode(await readBytes(response.body, MAX_RESPONSE_BYTES))
}
