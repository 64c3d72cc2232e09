/** What a server's refusals and a broken way to it are to a feed. */
import { WatchFailure } from '../../reflector/failure.js'
import { UpstreamError, type UpstreamErrorCode } from '../upstream.js'

/** @returns the error itself where it is an UpstreamError already. */
export function asUpstreamError(error: unknown, where: string): UpstreamError {
  if (error instanceof UpstreamError) return error
  const failure = WatchFailure.from(error)
  return new UpstreamError(codeOf(failure), `${where}: ${failure.message}`, { cause: failure })
}

function codeOf({ kind, code }: WatchFailure): UpstreamErrorCode {
  if (code === 401) return 'unauthenticated'
  if (code === 403) return 'permission-denied'
  // It is there and cannot be read there (encrypted at rest, stored in a form that has no JSON).
  if (code === 501) return 'protocol'
  if (kind === 'expired') return 'compacted'
  if (kind === 'too-large') return 'future-revision'
  // 404 among them: a resource that is not served yet, or not any more, while the server starts or its definition goes.
  return kind === 'unsupported' || kind === 'malformed' ? 'protocol' : 'unavailable'
}
