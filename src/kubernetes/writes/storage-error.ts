/** The Status that a client gets when etcd refuses a write or does not respond. */
import {
  ExpiredError,
  InternalError,
  RequestEntityTooLargeError,
  ServiceUnavailableError,
  StatusError,
  StorageFullError,
  TimeoutError,
} from '../model/status.js'
import { statusOf } from '../model/status-of.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'

/** @param during for a write, the Status says that the write may still have happened if there was no response. */
export function storageError(error: unknown, during: 'read' | 'write'): StatusError {
  if (!(error instanceof UpstreamError)) return statusOf(error)
  const options = { cause: error }
  switch (error.code) {
    case 'unavailable':
      return during === 'write'
        ? new TimeoutError('Timeout: the storage did not answer: the write may or may not have happened', options)
        : new ServiceUnavailableError('the storage does not answer: nothing was written', options)
    case 'too-large':
      return new RequestEntityTooLargeError(
        'etcdserver: request is too large: the object exceeds the limit of the storage',
        options,
      )
    case 'no-space':
      return new StorageFullError(options)
    case 'permission-denied':
    case 'unauthenticated':
      return new ServiceUnavailableError('the storage does not allow this server to write here', options)
    case 'compacted':
      return new ExpiredError('the storage compacted the revision while it was being read: try again', options)
    case 'future-revision':
      return new TimeoutError('Timeout: Too large resource version: the storage has not reached it', options)
    case 'lease-not-found':
    case 'unsupported':
    case 'protocol':
      return new InternalError('an internal error occurred', options)
  }
}
