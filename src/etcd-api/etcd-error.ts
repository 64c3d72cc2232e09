/**
 * The errors of etcd, as its clients know them: they compare the text, and sometimes the code.
 *
 * Source: etcd api/v3rpc/rpctypes/error.go.
 */
import {
  BehindError,
  BusyError,
  EngineError,
  RevisionExpiredError,
  RevisionUnknownError,
} from '../engine/model/errors.js'
import { RpcError, RpcStatus } from '../engine/upstream/etcd/rpc-status.js'
import { UpstreamError } from '../engine/upstream/upstream.js'

/** The names of the codes as Go prints them; a watch that is refused carries its reason as such text. */
const GO_NAMES: Readonly<Record<number, string>> = {
  [RpcStatus.PERMISSION_DENIED]: 'PermissionDenied',
  [RpcStatus.UNAUTHENTICATED]: 'Unauthenticated',
  [RpcStatus.RESOURCE_EXHAUSTED]: 'ResourceExhausted',
  [RpcStatus.UNAVAILABLE]: 'Unavailable',
}

export class EtcdError extends Error {
  override readonly name = 'EtcdError'

  constructor(
    readonly code: RpcStatus,
    message: string,
    options: ErrorOptions = {},
  ) {
    super(message, options)
  }

  /** The text of a gRPC error in Go. */
  get goText(): string {
    return `rpc error: code = ${GO_NAMES[this.code] ?? 'Unknown'} desc = ${this.message}`
  }
}

const error =
  (code: RpcStatus, message: string) =>
  (cause?: unknown): EtcdError =>
    new EtcdError(code, message, cause === undefined ? {} : { cause })

const { INVALID_ARGUMENT, OUT_OF_RANGE, UNAVAILABLE } = RpcStatus

export const emptyKey = error(INVALID_ARGUMENT, 'etcdserver: key is not provided')
export const invalidSortOption = error(INVALID_ARGUMENT, 'etcdserver: invalid sort option')
export const requestTooLarge = error(INVALID_ARGUMENT, 'etcdserver: request is too large')
export const tooManyOperations = error(INVALID_ARGUMENT, 'etcdserver: too many operations in txn request')
const compacted = error(OUT_OF_RANGE, 'etcdserver: mvcc: required revision has been compacted')
export const futureRevision = error(OUT_OF_RANGE, 'etcdserver: mvcc: required revision is a future revision')
export const authNotEnabled = error(RpcStatus.FAILED_PRECONDITION, 'etcdserver: authentication is not enabled')
export const permissionDenied = error(RpcStatus.PERMISSION_DENIED, 'etcdserver: permission denied')
export const invalidAuthToken = error(RpcStatus.UNAUTHENTICATED, 'etcdserver: invalid auth token')
export const tooManyRequests = error(RpcStatus.RESOURCE_EXHAUSTED, 'etcdserver: too many requests')
export const timedOut = error(UNAVAILABLE, 'etcdserver: request timed out')
export const noLeader = error(UNAVAILABLE, 'etcdserver: no leader')
export const stopped = error(UNAVAILABLE, 'etcdserver: server stopped')
export const deadlineExceeded = error(RpcStatus.DEADLINE_EXCEEDED, 'context deadline exceeded')

export function unimplemented(path: string): EtcdError {
  const [service = '', method = ''] = path.slice(1).split('/', 2)
  return new EtcdError(RpcStatus.UNIMPLEMENTED, `unknown method ${method} for service ${service}`)
}

/** Lifts anything caught. A bug becomes INTERNAL, without its own text. */
export function etcdErrorOf(caught: unknown): EtcdError {
  if (caught instanceof EtcdError) return caught
  if (caught instanceof RpcError) return new EtcdError(caught.code, caught.details, { cause: caught })
  if (caught instanceof RevisionExpiredError) return compacted(caught)
  if (caught instanceof RevisionUnknownError) return futureRevision(caught)
  if (caught instanceof BusyError) return tooManyRequests(caught)
  // The rest of the engine's errors say that the source does not answer, or not yet.
  if (caught instanceof BehindError || caught instanceof EngineError) return timedOut(caught)
  if (caught instanceof UpstreamError) return caught.code === 'compacted' ? compacted(caught) : timedOut(caught)
  // The client has left, or the call has ended.
  if (caught instanceof Error && caught.name === 'AbortError')
    return new EtcdError(RpcStatus.CANCELLED, 'context canceled')
  return new EtcdError(RpcStatus.INTERNAL, 'internal error', { cause: caught })
}
