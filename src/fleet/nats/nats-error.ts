/**
 * Converts the errors of NATS' packages into those that the fleet distinguishes. Classes are compared by name, because
 * importing them would load the packages, even in a server without NATS.
 */
import type { JetStreamApiError } from '@nats-io/jetstream'
import { BrokerError, type BrokerErrorCode } from '../broker.js'

/** The server's error code for a write that expected a different last sequence. */
const WRONG_LAST_SEQUENCE = 10_071
/**
 * Error codes after which the outcome is unknown: the server sees no leader of the cluster or of a stream, or a message
 * with the same id is still being written.
 */
const NO_RESPONSE: readonly (number | undefined)[] = [10_008, 10_158]

export function asBrokerError(error: unknown): BrokerError {
  if (error instanceof BrokerError) return error
  const cause = error instanceof Error ? error : new Error(String(error))
  const api = apiErrorOf(cause)
  const code: BrokerErrorCode =
    api?.code === WRONG_LAST_SEQUENCE || cause.message.includes('wrong last sequence')
      ? 'conflict'
      : api?.status === 404
        ? 'not-found'
        : /digest|corrupt/.test(cause.message)
          ? 'corrupt'
          : api !== null && !NO_RESPONSE.includes(api.code)
            ? 'refused'
            : 'unavailable'
  // The library calls this `jetstream is not enabled`, although a cluster without a leader is more likely.
  const message = hasNoResponder(cause) ? 'no JetStream server responds' : cause.message
  return new BrokerError(code, message, { cause })
}

/** Resolves to null when NATS reports that the requested item does not exist. @throws BrokerError */
export async function ifFound<T>(request: Promise<T>): Promise<T | null> {
  try {
    return await request
  } catch (error) {
    const failure = asBrokerError(error)
    if (failure.code === 'not-found') return null
    throw failure
  }
}

/** Whether the request went unanswered. Another NATS server may be able to reach the one that can answer it. */
export function isNoResponse(failure: BrokerError): boolean {
  const { code, cause } = failure
  if (code !== 'unavailable' || !(cause instanceof Error)) return false
  const api = apiErrorOf(cause)
  if (api !== null) return NO_RESPONSE.includes(api.code)
  return cause.name === 'TimeoutError' || isNoResponder(failure)
}

/** Whether nothing listens to the subject. The stream that stores it may have no leader at the moment. */
export function isNoResponder({ cause }: BrokerError): boolean {
  return hasNoResponder(cause)
}

/** The error of a request without a listener is wrapped, by JetStream twice. */
function hasNoResponder(error: unknown): boolean {
  return error instanceof Error && (error.name === 'NoResponders' || hasNoResponder(error.cause))
}

const API_ERRORS: readonly string[] = ['JetStreamApiError', 'ConsumerNotFoundError', 'StreamNotFoundError']

/** The server's own answer; null if the request failed otherwise. */
function apiErrorOf(error: Error): JetStreamApiError | null {
  if (API_ERRORS.includes(error.name)) return error as JetStreamApiError
  return error.name === 'JetStreamNotEnabled' && error.cause instanceof Error ? apiErrorOf(error.cause) : null
}

/** Matches refusals by the messages and error codes of NATS, TLS and the credential parsers. */
const REFUSALS =
  /Authorization|authentication|CERT|SELF_SIGNED|TLS|SSL|nkey|seed|credentials|certificate|ERR_OSSL|permissions violation/i

/** Explanations of errors that tell an operator too little. */
const EXPLANATIONS: readonly (readonly [error: RegExp, explanation: string])[] = [
  [/^AuthorizationError/, 'the server rejected the credentials, or requires some'],
  [/unable to parse credentials/, 'the credentials file is not a valid NATS credentials file'],
  [/does not support 'tls'/, 'TLS is required here, but the server does not offer it'],
]

/** Converts a connection error into one that tells the operator what to fix. */
export function asConnectError(error: unknown): BrokerError {
  const cause = error instanceof Error ? error : new Error(String(error))
  const { code = '' } = cause as { readonly code?: unknown }
  const text = `${cause.name} ${String(code)} ${cause.message}`
  const explanation = EXPLANATIONS.find(([pattern]) => pattern.test(text))?.[1]
  const message = explanation === undefined ? cause.message : `${explanation} (${cause.message})`
  const isRefusal = explanation !== undefined || REFUSALS.test(text)
  return new BrokerError(isRefusal ? 'refused' : 'unavailable', message, { cause })
}
