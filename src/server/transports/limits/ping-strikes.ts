/**
 * Ends connections that send PINGs too often, as etcd does with its default options. Clients of gRPC keep connections
 * alive with PINGs, and measure bandwidth with them while they receive. So PINGs count only if nothing but their own
 * responses was sent since the one before.
 *
 * Source: grpc-go internal/transport/http2_server.go (handlePing); etcd server/embed/config.go (GRPCKeepAliveMinTime).
 */
import { constants, type ServerHttp2Session } from 'node:http2'
import { MAX_PING_STRIKES, MIN_PING_GAP_MS } from '../../limits/fixed-limits.js'
import type { Clock } from '../../../support/clock.js'

/** The response to a PING, as a frame. */
const RESPONSE_BYTES = 17
/** grpc-go's own text; its clients then double the gap between their PINGs. */
const REASON = Buffer.from('too_many_pings')

/** @param onRejected called when the connection is ended. */
export function limitPings(session: ServerHttp2Session, clock: Clock, onRejected: () => void): void {
  let lastMs = -Infinity
  let responseBytes = 0
  let otherBytes = 0
  let strikes = 0
  session.on('ping', () => {
    if (session.destroyed) return
    // Responses that are still to be written make this too low for a moment.
    const others = session.socket.bytesWritten - responseBytes
    responseBytes += RESPONSE_BYTES
    const nowMs = clock.monotonic()
    const isEarly = nowMs - lastMs < MIN_PING_GAP_MS
    lastMs = nowMs
    if (others > otherBytes) strikes = 0
    else if (isEarly) strikes++
    otherBytes = Math.max(otherBytes, others)
    if (strikes <= MAX_PING_STRIKES) return
    onRejected()
    session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, REASON)
    session.destroy()
  })
}
