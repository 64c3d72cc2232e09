/** Converts the errors of the package `nats` into those that the fleet distinguishes. */
import type { NatsError } from 'nats'
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
  const api = isNatsError(cause) ? cause.api_error : undefined
  const code: BrokerErrorCode =
    api?.err_code === WRONG_LAST_SEQUENCE || cause.message.includes('wrong last sequence')
      ? 'conflict'
      : api?.code === 404 || cause.message === '404'
        ? 'not-found'
        : /digest|corrupt/.test(cause.message)
          ? 'corrupt'
          : api !== undefined && !NO_RESPONSE.includes(api.err_code)
            ? 'refused'
            : 'unavailable'
  return new BrokerError(code, cause.message, { cause })
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
export function isNoResponse({ code, cause }: BrokerError): boolean {
  if (code !== 'unavailable' || !(cause instanceof Error) || !isNatsError(cause)) return false
  if (cause.api_error !== undefined) return NO_RESPONSE.includes(cause.api_error.err_code)
  return cause.code === 'TIMEOUT' || cause.code === '503'
}

/** Whether nothing listens to the subject. The stream that stores it may have no leader at the moment. */
export function isNoResponder({ cause }: BrokerError): boolean {
  return cause instanceof Error && isNatsError(cause) && cause.code === '503' && cause.api_error === undefined
}

/** Compares names, because importing the class would load the whole package, even in a server without NATS. */
function isNatsError(error: Error): error is NatsError {
  return error.name === 'NatsError'
}

/** Matches refusals by the error codes of NATS and TLS, and by the messages of the credential parsers. */
const REFUSALS =
  /AUTHORIZATION_VIOLATION|AUTHENTICATION|BAD_AUTHENTICATION|BAD_CREDS|EXPIRED|CERT|SELF_SIGNED|TLS|SSL|SERVER_OPT|nkey|seed|credentials|certificate/i

/** Explanations of codes that tell an operator too little. */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  AUTHORIZATION_VIOLATION: 'the server rejected the credentials, or requires some',
  BAD_CREDS: 'the credentials file is not a valid NATS credentials file',
  SERVER_OPT_NA: 'TLS is required here, but the server does not offer it',
}

/** Converts a connection error into one that tells the operator what to fix. */
export function asConnectError(error: unknown): BrokerError {
  const cause = error instanceof Error ? error : new Error(String(error))
  const { code } = cause as { readonly code?: unknown }
  const word = typeof code === 'string' ? code : ''
  const explanation = EXPLANATIONS[word]
  const message = explanation === undefined ? cause.message : `${explanation} (${cause.message})`
  const isRefusal = explanation !== undefined || REFUSALS.test(`${word} ${cause.message}`)
  return new BrokerError(isRefusal ? 'refused' : 'unavailable', message, { cause })
}
