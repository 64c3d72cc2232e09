/** Translates a server's errors and connection failures into upstream errors. */
import { WatchFailure } from '../../client/reflector/watch-failure.js'
import type { Transport, TransportResponse } from '../../client/reflector/transport.js'
import { UpstreamError, type UpstreamErrorCode } from '../../engine/upstream/upstream.js'
import { SOURCE_REFUSES } from '../model/status.js'
import { PROTOBUF_CONTENT_TYPE } from '../codec/protobuf/envelope.js'
import type { Clock } from '../../support/clock.js'
import { readBytes } from '../../support/read-bytes.js'
import { statusOf } from './protobuf-wire.js'
import { ApiServerReadiness } from '../../support/api-server-readiness.js'

/** @returns the error itself if it already is an UpstreamError. */
export function asUpstreamError(error: unknown, where: string): UpstreamError {
  if (error instanceof UpstreamError) return error
  const failure = WatchFailure.from(error)
  return new UpstreamError(codeOf(failure), `${where}: ${failure.message}`, { cause: failure })
}

/** Whether the server itself refused the request. Another distributary may pass on what its own source refuses. */
export function isOwnRefusal({ cause }: UpstreamError): boolean {
  return cause instanceof WatchFailure && (cause.code === 401 || cause.code === 403)
}

const MAX_STATUS_BYTES = 2 ** 20
const READYZ_MS = 5_000

/**
 * Wraps a transport so that refusals arrive as JSON. A server sends them in protobuf if the request accepts nothing
 * else.
 */
export function withReadableRefusals(transport: Transport): Transport {
  return {
    async send(request) {
      const response = await transport.send(request)
      if (response.status === 200 || response.header('content-type') !== PROTOBUF_CONTENT_TYPE) return response
      return { ...response, body: statusText(response) }
    },
  }
}

async function* statusText(response: TransportResponse): AsyncGenerator<Uint8Array> {
  const body = await readBytes(response.body, MAX_STATUS_BYTES)
  yield Buffer.from(JSON.stringify(statusOf(Buffer.from(body))))
}

/** While the server is starting, turns its denials into failures, as if it had not responded. */
export function withFirmRefusals(transport: Transport, clock: Clock): Transport {
  const readyz = async (): Promise<number> => {
    const signal = AbortSignal.timeout(READYZ_MS)
    const response = await transport.send({ path: '/readyz', query: {}, accept: '*/*', signal })
    await readBytes(response.body, MAX_STATUS_BYTES)
    return response.status
  }
  const readiness = new ApiServerReadiness({ readyz, clock })
  return {
    async send(request) {
      const response = await transport.send(request)
      if (response.status !== 401 && response.status !== 403) {
        readiness.accepted()
        return response
      }
      const body = await readBytes(response.body, MAX_STATUS_BYTES)
      await readiness.denied()
      return { ...response, body: once(body) }
    },
  }
}

async function* once(body: Uint8Array): AsyncGenerator<Uint8Array> {
  yield body
}

function codeOf({ kind, code, status }: WatchFailure): UpstreamErrorCode {
  // Another distributary lacks the permission at its own source.
  const causes = status?.details?.causes ?? []
  if (causes.some(({ reason }) => reason === SOURCE_REFUSES.reason)) return 'permission-denied'
  // An aggregated API may refuse a credential that the server itself accepts.
  if (code === 401 || code === 403) return 'permission-denied'
  // The object exists but that server cannot read it (it is encrypted, or stored in a form that has no JSON).
  if (code === 501) return 'protocol'
  if (kind === 'expired') return 'compacted'
  if (kind === 'too-large') return 'future-revision'
  // This includes 404: the resource is not served while the server starts or after its definition is deleted.
  return kind === 'unsupported' || kind === 'malformed' ? 'protocol' : 'unavailable'
}
