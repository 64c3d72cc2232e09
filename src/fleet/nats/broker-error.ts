/** The failures of NATS as the rest of the fleet distinguishes them; errors of the package are converted here. */
import type { NatsError } from 'nats'

export type BrokerErrorCode =
  /** Another writer was first. */
  | 'conflict'
  | 'not-found'
  /** No answer came, or none in time: what was sent may have been done. */
  | 'unavailable'
  /** The server refuses us, or we refuse it (credentials, certificates): trying again does not help by itself. */
  | 'refused'
  /** The bytes read are not the bytes written. */
  | 'corrupt'

export class BrokerError extends Error {
  override readonly name = 'BrokerError'

  constructor(
    readonly code: BrokerErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** The server's error codes for a write that expected another sequence, or another message, before it. */
export const WRONG_LAST_SEQUENCE = 10_071
export const WRONG_LAST_MESSAGE = 10_070
/** And for a message whose id is the same as that of one that is being written. */
export const MESSAGE_IN_PROCESS = 10_158
/** And of a server that sees no leader of all servers, or of a stream. */
export const NO_LEADER = 10_008

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
          : 'unavailable'
  return new BrokerError(code, cause.message, { cause })
}

/** Whether nobody has answered: another server of NATS may reach whoever can. */
export function isUnanswered({ code, cause }: BrokerError): boolean {
  if (code !== 'unavailable' || !(cause instanceof Error) || !isNatsError(cause)) return false
  if (cause.api_error !== undefined) return cause.api_error.err_code === NO_LEADER
  return cause.code === 'TIMEOUT' || cause.code === '503'
}

/** By name: importing the class would load the whole package, also in a server without NATS. */
function isNatsError(error: Error): error is NatsError {
  return error.name === 'NatsError'
}

/** Matches refusals: error codes of NATS and of TLS, and the messages of the parsers of credentials. */
const REFUSALS =
  /AUTHORIZATION_VIOLATION|AUTHENTICATION|BAD_AUTHENTICATION|BAD_CREDS|EXPIRED|CERT|SELF_SIGNED|TLS|SSL|SERVER_OPT|nkey|seed|credentials|certificate/i

/** Sentences for the codes that tell an operator too little. */
const EXPLANATIONS: Readonly<Record<string, string>> = {
  AUTHORIZATION_VIOLATION: 'the server does not accept these credentials, or wants some',
  BAD_CREDS: 'the credentials file cannot be read as one',
  SERVER_OPT_NA: 'TLS is asked for, and the server has none',
}

/** Converts an error of connecting into one that tells the operator what to put right. */
export function asConnectError(error: unknown): BrokerError {
  const cause = error instanceof Error ? error : new Error(String(error))
  const { code } = cause as { readonly code?: unknown }
  const word = typeof code === 'string' ? code : ''
  const explanation = EXPLANATIONS[word]
  const message = explanation === undefined ? cause.message : `${explanation} (${cause.message})`
  const isRefusal = explanation !== undefined || REFUSALS.test(`${word} ${cause.message}`)
  return new BrokerError(isRefusal ? 'refused' : 'unavailable', message, { cause })
}
