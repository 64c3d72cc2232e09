/**
 * gRPC's status codes, and the conversion of the end of an HTTP/2 stream to such a code.
 *
 * Source: grpc/grpc doc/statuscodes.md, doc/http-grpc-status-mapping.md and doc/PROTOCOL-HTTP2.md.
 */
import { constants } from 'node:http2'

export const RpcStatus = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const
export type RpcStatus = (typeof RpcStatus)[keyof typeof RpcStatus]

const names = new Map<number, string>(Object.entries(RpcStatus).map(([name, code]) => [code, name]))

/** A status as it comes from the server or the transport, before interpretation. */
export class RpcError extends Error {
  override readonly name = 'RpcError'

  constructor(
    readonly code: RpcStatus,
    readonly details: string,
  ) {
    super(`${names.get(code)}: ${details}`)
  }
}

/**
 * The error of a call whose connection was lost. It says nothing about the server, which may respond over another
 * connection.
 */
export class ConnectionLostError extends RpcError {
  constructor(details = 'the connection was lost') {
    super(RpcStatus.UNAVAILABLE, details)
  }
}

/** Reads `grpc-status` and `grpc-message`. @returns null for success, undefined when there is no status. */
export function statusOfTrailers(trailers: Readonly<Record<string, unknown>>): RpcError | null | undefined {
  const code = trailers['grpc-status']
  if (code === undefined) return undefined
  const number = Number(code)
  if (number === RpcStatus.OK) return null
  const message = trailers['grpc-message']
  const details = typeof message === 'string' ? percentDecoded(message) : ''
  return new RpcError(names.has(number) ? (number as RpcStatus) : RpcStatus.UNKNOWN, details)
}

/** Returns the status for an HTTP response that is not gRPC, such as a proxy's response. */
export function statusOfHttp(httpStatus: number): RpcError {
  const codes: Record<number, RpcStatus> = {
    400: RpcStatus.INTERNAL,
    401: RpcStatus.UNAUTHENTICATED,
    403: RpcStatus.PERMISSION_DENIED,
    404: RpcStatus.UNIMPLEMENTED,
    429: RpcStatus.UNAVAILABLE,
    502: RpcStatus.UNAVAILABLE,
    503: RpcStatus.UNAVAILABLE,
    504: RpcStatus.UNAVAILABLE,
  }
  return new RpcError(codes[httpStatus] ?? RpcStatus.UNKNOWN, `received HTTP status ${httpStatus}`)
}

/** Returns the status for a stream that ended without one. */
export function statusOfReset(resetCode: number, isConnectionLost: boolean): RpcError {
  if (isConnectionLost) return new ConnectionLostError()
  const codes: Record<number, RpcStatus> = {
    [constants.NGHTTP2_REFUSED_STREAM]: RpcStatus.UNAVAILABLE,
    [constants.NGHTTP2_CANCEL]: RpcStatus.CANCELLED,
    [constants.NGHTTP2_ENHANCE_YOUR_CALM]: RpcStatus.RESOURCE_EXHAUSTED,
    [constants.NGHTTP2_INADEQUATE_SECURITY]: RpcStatus.PERMISSION_DENIED,
  }
  const details = `the stream ended without a status (HTTP/2 code ${resetCode})`
  return new RpcError(codes[resetCode] ?? RpcStatus.INTERNAL, details)
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
