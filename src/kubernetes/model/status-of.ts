/** Says the engine's errors, which know no protocol, in Kubernetes' words. */
import {
  BehindError,
  BusyError,
  EngineError,
  RefusedReadError,
  RefusedWatchError,
  RevisionExpiredError,
  RevisionUnknownError,
  SealedError,
  UnansweredError,
  UnservedError,
  WithheldError,
} from '../../engine/model/errors.js'
import { type Key, keyToText } from '../../engine/model/event.js'
import {
  ExpiredError,
  InternalError,
  NotImplementedError,
  retryAfter,
  ServiceUnavailableError,
  SOURCE_REFUSES,
  type StatusDetails,
  StatusError,
  TimeoutError,
  TooLargeResourceVersionError,
  TooManyRequestsError,
} from './status.js'

/**
 * Converts any caught value into a StatusError. A value that is neither a StatusError nor one of the engine's errors
 * becomes the `cause` of an InternalError, and clients do not see it.
 */
export function statusOf(error: unknown): StatusError {
  return knownStatusOf(error) ?? new InternalError('an internal error occurred', { cause: error })
}

/** Returns null for a value that is neither a StatusError nor one of the engine's errors. */
export function knownStatusOf(error: unknown): StatusError | null {
  if (error instanceof StatusError) return error
  return error instanceof EngineError ? ofEngine(error) : null
}

/** Says an error of the engine in Kubernetes' words; null for an unknown class of them. */
function ofEngine(error: EngineError): StatusError | null {
  const { message } = error
  const options = { cause: error }
  if (error instanceof RevisionExpiredError) return ofExpired(error)
  if (error instanceof RevisionUnknownError) return ExpiredError.neverHad(error.requested, error.current)
  if (error instanceof BehindError) return new TooLargeResourceVersionError(error.requested, error.current, options)
  if (error instanceof BusyError) {
    const causes = error instanceof RefusedWatchError ? { causes: [SOURCE_REFUSES] } : {}
    return new TooManyRequestsError(message, error.retryAfterSeconds, { ...options, ...causes })
  }
  if (error instanceof SealedError) return ofSealed(error)
  if (error instanceof WithheldError) return new NotImplementedError(message, options)
  if (error instanceof UnansweredError) return new TimeoutError(`Timeout: ${message}`, { ...retryAfter(1), ...options })
  if (error instanceof UnservedError) {
    const delay = retryAfter(error.retryAfterSeconds)
    if (!(error instanceof RefusedReadError)) return new ServiceUnavailableError(message, { ...delay, ...options })
    return new ServiceUnavailableError(message, { ...options, details: { causes: [SOURCE_REFUSES], ...delay.details } })
  }
  return null
}

function ofExpired(error: RevisionExpiredError): ExpiredError {
  const { requested, oldest } = error
  if (requested !== null && oldest !== null) return ExpiredError.tooOld(requested, oldest)
  return new ExpiredError('The resourceVersion for the provided list is too old.', { cause: error })
}

function ofSealed({ resource, sealed, scope }: SealedError): StatusError {
  if (scope === 'object') for (const [key, reason] of sealed) return StorageReadError.ofObject(key, reason)
  const error = StorageReadError.ofList(resource, sealed)
  if (scope === 'list') return error
  const message = `storage is (re)initializing: failed to list <unspecified>: ${error.message}`
  return new TooManyRequestsError(message, 1)
}

/** The most causes in the error for a list that cannot be read. */
const MAX_READ_CAUSES = 100

/**
 * None of the encryption keys can decrypt a stored value. This is not a bug; the API server also responds with 500, in
 * the same words.
 */
export class StorageReadError extends StatusError {
  override readonly name = 'StorageReadError'
  readonly code = 500

  private constructor(
    readonly reason: 'StorageReadError' | 'InternalError',
    message: string,
    details: StatusDetails,
  ) {
    super(message, { details })
  }

  /** @param resource the name as in logs, such as `deployments.apps`. @param sealed as in `SealedError`. */
  static ofList(resource: string, sealed: ReadonlyMap<Key, string>): StorageReadError {
    const causes = [...sealed].slice(0, MAX_READ_CAUSES).map(([key, reason]) => {
      const field = keyToText(key)
      return { reason: 'UnexpectedServerResponse', message: corruptObject(field, reason), field }
    })
    const first = causes[0] === undefined ? '' : `: ${causes[0].message}`
    const others = sealed.size > 1 ? ` (and ${sealed.size - 1} more)` : ''
    const [kind = '', ...group] = resource.split('.')
    const details = { name: 'list', ...(group.length === 0 ? {} : { group: group.join('.') }), kind, causes }
    const message = `failed to read one or more ${resource} from the storage${first}${others}`
    return new StorageReadError('StorageReadError', message, details)
  }

  static ofObject(key: Key, reason: string): StorageReadError {
    const message = corruptObject(keyToText(key), reason)
    return new StorageReadError('InternalError', `Internal error occurred: ${message}`, { causes: [{ message }] })
  }
}

function corruptObject(key: string, reason: string): string {
  return `StorageError: corrupt object, Code: 7, Key: ${key}, ResourceVersion: 0, AdditionalErrorMsg: data from the storage is not transformable revision=0: ${reason}`
}
