/**
 * A failed list or watch, classified by how to react to it. HTTP responses, ERROR events and broken connections all
 * become a `WatchFailure`, so that the state machine works with kinds of failures instead of codes.
 */
import { errorMessage } from '../../support/error-message.js'
import { field, isObject, listAt, numberAt, textAt } from '../../support/fields.js'

/** Failures by the required reaction. */
export type FailureKind =
  /** 410: the server no longer has that resourceVersion. */
  | 'expired'
  /** The server has not reached that resourceVersion after a while, or its storage has never had it. */
  | 'too-large'
  /** 429. */
  | 'too-many-requests'
  /**
   * The server does not support this kind of request, such as an older server that received a request for initial
   * events.
   */
  | 'unsupported'
  /** 401, 403, 404 and similar: an immediate retry will not help, although the cause may be fixed later. */
  | 'refused'
  /** Any other status of 500 or above. */
  | 'server-error'
  /** There was no response, or it was cut off. */
  | 'network'
  /** The response violates the protocol. */
  | 'malformed'

/** The members of a Kubernetes Status that are used; each of them may be missing. */
export interface StatusLike {
  readonly message?: string
  readonly reason?: string
  readonly code?: number
  readonly details?: {
    readonly retryAfterSeconds?: number
    readonly causes?: readonly { readonly reason?: string; readonly message?: string }[]
  }
  readonly metadata?: { readonly continue?: string }
}

/** A failed list, watch or request: its kind, and what the server said. */
export class WatchFailure extends Error {
  override readonly name = 'WatchFailure'

  constructor(
    readonly kind: FailureKind,
    message: string,
    options: ErrorOptions & { status?: StatusLike; retryAfterMs?: number | null; code?: number } = {},
  ) {
    super(message, options)
    this.retryAfterMs = options.retryAfterMs ?? null
    this.code = options.code ?? null
    this.status = options.status ?? null
  }

  /** How long the server asked us to wait; null if it did not say. */
  readonly retryAfterMs: number | null
  /** The code of the response or of the Status; null without a response. */
  readonly code: number | null
  readonly status: StatusLike | null

  static from(error: unknown): WatchFailure {
    if (error instanceof WatchFailure) return error
    // `fetch` only says "fetch failed"; the cause says what failed.
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
    return new WatchFailure('network', `${errorMessage(error)}${cause}`, {
      cause: error,
    })
  }

  /**
   * @param given any JSON. @param code the code of the HTTP response, for a body without one. @param retryAfter the
   * text of the header.
   */
  static fromStatus(given: unknown, code = 0, retryAfter: string | null = null): WatchFailure {
    const status = statusIn(given, code)
    const retryAfterMs = readRetryAfter(status, retryAfter)
    const message = status.message === '' ? `status ${status.code}` : status.message
    return new WatchFailure(kindOf(status), message, { status, retryAfterMs, code: status.code })
  }
}

/** Returns a Status whose members have the declared types, whatever the server sent. */
function statusIn(given: unknown, code: number) {
  const details = field(given, 'details')
  return {
    ...(isObject(given) ? given : {}),
    message: textAt(given, 'message'),
    reason: textAt(given, 'reason'),
    code: numberAt(given, 'code') ?? code,
    details: { ...(isObject(details) ? details : {}), causes: listAt(details, 'causes').filter(isObject) },
  } satisfies StatusLike
}

type UsableStatus = ReturnType<typeof statusIn>

function kindOf(status: UsableStatus): FailureKind {
  const { reason, code } = status
  // A distributary ends a watch from a resourceVersion that its etcd has never had with 410 and this cause.
  if (isTooLarge(status)) return 'too-large'
  if (code === 410 || reason === 'Expired' || reason === 'Gone') return 'expired'
  if (code === 429 || reason === 'TooManyRequests') return 'too-many-requests'
  if (code === 400 || code === 405 || code === 406 || code === 415 || code === 422) return 'unsupported'
  if (code >= 500) return 'server-error'
  return code >= 400 ? 'refused' : 'malformed'
}

/** API servers before 1.17 send only the message, without a cause. */
function isTooLarge({ details, message, reason }: UsableStatus): boolean {
  if (details.causes.some((cause) => cause['reason'] === 'ResourceVersionTooLarge')) return true
  if (details.causes.some((cause) => cause['message'] === 'Too large resource version')) return true
  return reason === 'Timeout' && message.includes('Too large resource version')
}

/** The header contains seconds or a date. The Status contains seconds. */
function readRetryAfter({ details }: UsableStatus, header: string | null): number | null {
  const seconds =
    header !== null && /^\d+$/.test(header.trim()) ? Number(header) : numberAt(details, 'retryAfterSeconds')
  if (seconds !== undefined) return seconds > 0 ? seconds * 1_000 : null
  const at = header === null ? Number.NaN : Date.parse(header)
  return Number.isNaN(at) ? null : Math.max(0, at - Date.now())
}
