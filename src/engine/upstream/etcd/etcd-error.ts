/**
 * Classifies etcd's errors. The gRPC code alone is not enough: `OUT_OF_RANGE` may mean a compaction or a future
 * revision, and `INVALID_ARGUMENT` may mean a wrong password or a request over the limit. So the text decides. etcd
 * keeps its texts stable, because its clients match on them. When etcd cancels a watch, the text is all that it sends.
 */
import { UpstreamError, type UpstreamErrorCode } from '../upstream.js'
import { RpcError, RpcStatus } from './rpc-status.js'
import { errorMessage } from '../../../support/error-message.js'

/** The first of these texts that the message contains determines the code. Source: etcd api/v3rpc/rpctypes/error.go. */
const TEXTS: readonly (readonly [text: string, code: UpstreamErrorCode])[] = [
  ['required revision has been compacted', 'compacted'],
  ['required revision is a future revision', 'future-revision'],
  ['permission denied', 'permission-denied'],
  ['invalid auth token', 'unauthenticated'],
  ['revision of auth store is old', 'unauthenticated'],
  ['authentication failed', 'unauthenticated'],
  ['user name is empty', 'unauthenticated'],
  ['user name not found', 'unauthenticated'],
  ['database space exceeded', 'no-space'],
  ['request is too large', 'too-large'],
  ['too many operations in txn request', 'too-large'],
  ['message larger than max', 'too-large'],
  ['requested lease not found', 'lease-not-found'],
  // kine's text.
  ['unsupported operations in txn', 'unsupported'],
  ['no leader', 'unavailable'],
  // A learner serves no requests before its promotion, and no member serves requests after one has been found corrupt.
  ['rpc not supported for learner', 'unavailable'],
  ['corrupt cluster', 'unavailable'],
]

const CODES: Partial<Record<RpcStatus, UpstreamErrorCode>> = {
  [RpcStatus.PERMISSION_DENIED]: 'permission-denied',
  [RpcStatus.UNAUTHENTICATED]: 'unauthenticated',
  [RpcStatus.INVALID_ARGUMENT]: 'protocol',
  [RpcStatus.NOT_FOUND]: 'protocol',
  [RpcStatus.ALREADY_EXISTS]: 'protocol',
  [RpcStatus.FAILED_PRECONDITION]: 'protocol',
  [RpcStatus.OUT_OF_RANGE]: 'protocol',
  [RpcStatus.UNIMPLEMENTED]: 'protocol',
  [RpcStatus.DATA_LOSS]: 'protocol',
}

/** Converts any caught value. An unknown gRPC error becomes `unavailable`, so that the call is retried. */
export function toUpstreamError(caught: unknown, endpoint: string): UpstreamError {
  if (caught instanceof UpstreamError) return caught
  if (!(caught instanceof RpcError)) {
    return new UpstreamError('protocol', errorMessage(caught), { cause: caught })
  }
  const code = codeOfText(caught.details) ?? CODES[caught.code] ?? 'unavailable'
  return new UpstreamError(code, `etcd ${endpoint}: ${caught.details}`, { cause: caught })
}

/** Returns the error for a watch that etcd cancelled. etcd gives the reason only as text. */
export function cancelReasonError(reason: string, endpoint: string): UpstreamError {
  return new UpstreamError(codeOfText(reason) ?? 'unavailable', `etcd ${endpoint} cancelled the watch: ${reason}`)
}

/** Whether etcd has rejected the token. A new token may help, and etcd has not executed the request. */
export function isTokenRejected(text: string): boolean {
  return (
    text.includes('invalid auth token') ||
    text.includes('revision of auth store is old') ||
    text.includes('user name is empty')
  )
}

/** Whether the cluster elected another leader while the member waited for the old one. A retry can succeed at once. */
export function isLeaderChange(caught: unknown): boolean {
  return caught instanceof RpcError && caught.details.includes('leader changed')
}

function codeOfText(text: string): UpstreamErrorCode | null {
  for (const [part, code] of TEXTS) if (text.includes(part)) return code
  return null
}
