/** Translates a server's errors and connection failures into upstream errors. */
import { WatchFailure } from '../../client/reflector/failure.js'
import { UpstreamError, type UpstreamErrorCode } from '../../engine/upstream/upstream.js'

/** @returns the error itself if it already is an UpstreamError. */
export function asUpstreamError(error: unknown, where: string): UpstreamError {
  if (error instanceof UpstreamError) return error
  const failure = WatchFailure.from(error)
  return new UpstreamError(codeOf(failure), `${where}: ${failure.message}`, { cause: failure })
}

function codeOf({ kind, code }: WatchFailure): UpstreamErrorCode {
  if (code === 401) return 'unauthenticated'
  if (code === 403) return 'permission-denied'
  // The object exists but cannot be read there (encrypted at rest, or stored in a form that has no JSON).
  if (code === 501) return 'protocol'
  if (kind === 'expired') return 'compacted'
  if (kind === 'too-large') return 'future-revision'
  // Includes 404: the resource is not served yet, or no longer, while the server starts or its definition is deleted.
  return kind === 'unsupported' || kind === 'malformed' ? 'protocol' : 'unavailable'
}
