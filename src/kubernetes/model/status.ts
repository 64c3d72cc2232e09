/**
 * Errors by Kubernetes' names, with one class for each way in which a client should react. Before the headers are sent,
 * an error becomes an HTTP response; afterwards it becomes an ERROR event with the same Status object.
 */
export interface StatusCause {
  readonly reason?: string
  readonly message?: string
  readonly field?: string
}

export interface StatusDetails {
  readonly name?: string
  readonly group?: string
  readonly kind?: string
  readonly causes?: readonly StatusCause[]
  readonly retryAfterSeconds?: number
}

/** The wire form, in the API server's member order. */
export interface Status {
  readonly kind: 'Status'
  readonly apiVersion: 'v1'
  readonly metadata: {
    readonly continue?: string
    readonly resourceVersion?: string
    readonly remainingItemCount?: number
  }
  readonly status: 'Success' | 'Failure'
  readonly message: string
  /** Absent if the API server gives no reason for this error. */
  readonly reason?: string
  readonly details?: StatusDetails
  readonly code: number
}

/**
 * Errors quote the client's input, which may be megabytes long, so they are cut. No valid name is as long as this
 * limit, and a message of this length has room for many problems.
 */
const MAX_MESSAGE_CHARACTERS = 64 * 1024
const MAX_NAME_CHARACTERS = 1_024

export abstract class StatusError extends Error {
  abstract readonly code: number
  abstract readonly reason: string
  readonly details: StatusDetails | undefined
  /** Set only when a continue token has expired: the token for an inconsistent continuation. */
  readonly continueToken: string | undefined
  /** What a refused write found in the request body besides. */
  warnings: readonly string[] = []

  constructor(message: string, options: ErrorOptions & { details?: StatusDetails; continueToken?: string } = {}) {
    super(cut(message, MAX_MESSAGE_CHARACTERS), options)
    const { details } = options
    const name = details?.name
    this.details = name === undefined ? details : { ...details, name: cut(name, MAX_NAME_CHARACTERS) }
    this.continueToken = options.continueToken
  }

  toStatus(): Status {
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: this.continueToken === undefined ? {} : { continue: this.continueToken },
      status: 'Failure',
      message: this.message,
      ...(this.reason === '' ? {} : { reason: this.reason }),
      ...(this.details === undefined ? {} : { details: this.details }),
      code: this.code,
    }
  }
}

/** @param seconds 0 leaves the delay to the client. */
export function retryAfter(seconds: number): { details?: StatusDetails } {
  return seconds === 0 ? {} : { details: { retryAfterSeconds: seconds } }
}

/** Makes a class of errors with this code and reason. Unless named, they are called by the reason and `Error`. */
function failure<const Code extends number, const Reason extends string>(
  code: Code,
  reason: Reason,
  name = `${reason}Error`,
) {
  return class extends StatusError {
    override readonly name: string = name
    readonly code = code
    readonly reason = reason
  }
}

/** The history no longer has the revision. The client must list again. */
export class ExpiredError extends failure(410, 'Expired') {
  /** For a resourceVersion below the kept history. `oldest` is the first revision still held. */
  static tooOld(requested: number, oldest: number): ExpiredError {
    return new ExpiredError(`too old resource version: ${requested} (${oldest - 1})`)
  }

  /**
   * For a resourceVersion that etcd has not reached; etcd is at `current`. The cause tells the client that a list with
   * `resourceVersionMatch=NotOlderThan` would fail as well.
   */
  static neverHad(requested: number, current: number): ExpiredError {
    return new ExpiredError(
      `resource version ${named(requested)} has never existed here: the storage is at ${current}`,
      {
        details: { causes: [TOO_LARGE] },
      },
    )
  }
}

/** A client's revision above the largest safe integer is reported as that integer "or above". */
function named(requested: number): string {
  return requested === Number.MAX_SAFE_INTEGER ? `${requested} or above` : String(requested)
}

/**
 * The cause of an error whose reason is a permission that this server lacks at its source. The next server of a chain
 * then knows that waiting does not help.
 */
export const SOURCE_REFUSES: StatusCause = {
  reason: 'SourceRefuses',
  message: 'the source refuses this server the resource',
}

const TOO_LARGE: StatusCause = { reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }

/** After the wait limit, this replica has still not reached the revision. */
export class TooLargeResourceVersionError extends failure(504, 'Timeout', 'TooLargeResourceVersionError') {
  constructor(requested: number, current: number, options: ErrorOptions = {}) {
    super(`Timeout: Too large resource version: ${named(requested)}, current: ${current}`, {
      ...options,
      details: { causes: [TOO_LARGE], retryAfterSeconds: 1 },
    })
  }
}

/** The upstream server cannot be reached, or does not speak HTTP. */
export class BadGatewayError extends failure(502, 'BadGateway') {}

/** The response was not available in time, for instance a consistent read while etcd is unreachable. */
export class TimeoutError extends failure(504, 'Timeout') {}

/** The resource is still being listed, or a limit has been reached. */
export class TooManyRequestsError extends failure(429, 'TooManyRequests') {
  /** @param retryAfterSeconds 0 leaves the delay to the client. */
  constructor(
    message: string,
    retryAfterSeconds: number,
    options: ErrorOptions & { causes?: readonly StatusCause[] } = {},
  ) {
    const { causes, ...rest } = options
    super(message, {
      ...rest,
      details: { ...(causes === undefined ? {} : { causes }), ...retryAfter(retryAfterSeconds).details },
    })
  }
}

/** This server is draining, or part of it is unavailable. The client should try another replica, or try again later. */
export class ServiceUnavailableError extends failure(503, 'ServiceUnavailable') {}

export class BadRequestError extends failure(400, 'BadRequest') {}

export class UnauthorizedError extends failure(401, 'Unauthorized') {}

export class ForbiddenError extends failure(403, 'Forbidden') {}

export class NotFoundError extends failure(404, 'NotFound') {}

export class MethodNotAllowedError extends failure(405, 'MethodNotAllowed') {}

export class NotAcceptableError extends failure(406, 'NotAcceptable') {}

export class ConflictError extends failure(409, 'Conflict') {}

export class AlreadyExistsError extends failure(409, 'AlreadyExists') {}

export class RequestEntityTooLargeError extends failure(413, 'RequestEntityTooLarge') {}

export class UnsupportedMediaTypeError extends failure(415, 'UnsupportedMediaType') {}

/** The most causes in one response. A body of 3 MB can have more errors than a response should list. */
const MAX_CAUSES = 100
/**
 * The longest field and message of a cause. A path may contain names of megabytes, and a message may list all values
 * that a schema allows.
 */
const MAX_FIELD_CHARACTERS = 1_024
const MAX_CAUSE_CHARACTERS = 4_096

/** The object is well-formed but has invalid content. The causes name the fields. */
export class InvalidError extends failure(422, 'Invalid') {
  /** Creates an error in the API server's words: `KIND.GROUP "NAME" is invalid: FIELD: message`. */
  static forFields(kind: string, group: string, name: string, causes: readonly StatusCause[]): InvalidError {
    const reported = causes.slice(0, MAX_CAUSES).map(shortened)
    const texts = reported.map((cause) => `${cause.field}: ${cause.message}`)
    if (causes.length > reported.length) texts.push(`and ${causes.length - reported.length} more`)
    const joined = texts.length === 1 ? texts[0] : `[${texts.join(', ')}]`
    const qualified = group === '' ? kind : `${kind}.${group}`
    return new InvalidError(`${qualified} ${JSON.stringify(name)} is invalid: ${joined}`, {
      details: {
        ...(name === '' ? {} : { name }),
        ...(group === '' ? {} : { group }),
        ...(kind === '' ? {} : { kind }),
        causes: reported,
      },
    })
  }
}

function shortened({ field = '', message = '', ...rest }: StatusCause): StatusCause {
  return { ...rest, message: cut(message, MAX_CAUSE_CHARACTERS), field: cut(field, MAX_FIELD_CHARACTERS) }
}

function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}...` : text
}

/** The data exists but cannot be read here, for instance a value encrypted at rest. */
export class NotImplementedError extends failure(501, 'NotImplemented') {}

/**
 * One object cannot be shown in the requested version or form, although the API server itself may be able to show it.
 */
export class UnshowableError extends NotImplementedError {}

/** The object's contents allow no scale. This is not a bug; the API server also responds with 500. */
export class NoScaleError extends StatusError {
  override readonly name = 'NoScaleError'
  readonly code = 500
  readonly reason: string

  constructor(message: string, options: { readonly reason?: string; readonly details?: StatusDetails } = {}) {
    super(message, options)
    this.reason = options.reason ?? ''
  }
}

/** etcd has raised its NOSPACE alarm. This is not a bug; the API server also responds with 500, in etcd's words. */
export class StorageFullError extends failure(500, '', 'StorageFullError') {
  constructor(options?: ErrorOptions) {
    super('etcdserver: mvcc: database space exceeded', options)
  }
}

/**
 * A pod matches several disruption budgets, so none of them can decide. This is not a bug; the API server also responds
 * with 500.
 */
export class SeveralBudgetsError extends failure(500, '', 'SeveralBudgetsError') {}

/** An error that another part of this server has already turned into a Status. */
export class RelayedStatusError extends StatusError {
  override readonly name = 'RelayedStatusError'
  readonly code: number
  readonly reason: string

  constructor({ code, reason = '', message, details }: Status, options: ErrorOptions = {}) {
    super(message, details === undefined ? options : { ...options, details })
    this.code = code
    this.reason = reason
  }
}

/** A bug on our side. The cause is logged and not sent. */
export class InternalError extends failure(500, 'InternalError', 'InternalError') {}
