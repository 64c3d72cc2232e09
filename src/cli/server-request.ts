/**
 * Sends one request to the server and returns the response, or throws an error that explains in one line why there is
 * none.
 */
import { WatchFailure } from '../client/reflector/watch-failure.js'
import { failureOf } from '../client/reflector/list-pages.js'
import type { TransportResponse } from '../client/reflector/transport.js'
import { activeClock } from '../client/reflector/active-clock.js'
import { sleep } from '../support/clock.js'
import type { Connection } from './server-connection.js'
import { CommandError } from './exit-code.js'
import { bufferOf } from '../support/buffer-of.js'
import { explainConnection } from '../support/explain-connection.js'
import { readBytes } from '../support/read-bytes.js'

export interface RequestOptions {
  /** Default: GET. */
  readonly method?: 'POST'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Default: JSON. */
  readonly accept?: string
  readonly signal: AbortSignal
}

/** The largest response is a list of everything; watches do not pass through here. */
const MAX_BODY_BYTES = 2 ** 30
/** A server that has just started asks clients to wait; after this many attempts the failure is reported. */
const MAX_ATTEMPTS = 5
const MAX_RETRY_AFTER_MS = 15_000

/**
 * Returns a 200 response. If the server says when to retry (429, 503), the request is repeated a few times.
 * @throws CommandError
 */
async function sendRequest(connection: Connection, options: RequestOptions): Promise<TransportResponse> {
  const { method, path, query = {}, accept = 'application/json', signal } = options
  for (let attempt = 1; ; attempt++) {
    let response: TransportResponse
    try {
      response = await connection.transport.send({
        ...(method === undefined ? {} : { method }),
        path,
        query,
        accept,
        signal,
      })
    } catch (error) {
      const reason = explainConnection(reasonOf(error), connection.server, TLS_FLAGS)
      throw new CommandError(`cannot reach ${connection.server}: ${reason}`, undefined, { cause: error })
    }
    if (response.status === 200) return response
    const failure = await failureOf(response)
    if (failure.retryAfterMs === null || attempt === MAX_ATTEMPTS) throw refusal(failure)
    await sleep(activeClock, Math.min(failure.retryAfterMs, MAX_RETRY_AFTER_MS), signal)
  }
}

export async function requestBytes(connection: Connection, options: RequestOptions): Promise<Buffer> {
  return bufferOf(await readBytes((await sendRequest(connection, options)).body, MAX_BODY_BYTES))
}

export async function requestJson(connection: Connection, options: RequestOptions): Promise<unknown> {
  const text = (await requestBytes(connection, options)).toString('utf8')
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new CommandError(`the response of ${connection.server}${options.path} is not JSON`, undefined, { cause })
  }
}

/** Converts a refusal to an error with the server's own message and reason. */
function refusal(failure: WatchFailure): CommandError {
  const { reason } = failure.status ?? {}
  return new CommandError(
    reason === undefined || reason === '' ? failure.message : `${failure.message} (${reason})`,
    undefined,
    {
      cause: failure,
    },
  )
}

const TLS_FLAGS = { ca: '--certificate-authority', cert: '--client-certificate', key: '--client-key' }

/**
 * Returns the message of an error. If several addresses of a name were tried, Node's error contains only the separate
 * errors and has no message itself.
 */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0])
  return error instanceof Error && error.message !== '' ? error.message : String(error)
}
