/** Opens a watch as the body of an HTTP response: chooses the wire format and the output. */
import type { ServerHttp2Stream } from 'node:http2'
import type { WatchOutput } from '../../../engine/broadcast/cursor.js'
import { type Compression, errorUnit, writeUnit } from '../../../engine/broadcast/wire-format.js'
import { type Negotiated, negotiate } from '../../../kubernetes/dialect/accept.js'
import { acceptsGzip } from '../../../kubernetes/dialect/media-type.js'
import { failureOf } from '../../../kubernetes/dialect/encoding/failure-of.js'
import { encodeStatus } from '../../../kubernetes/dialect/encoding/json-encoder.js'
import type { StatusError } from '../../../kubernetes/model/status.js'
import { TicketExpiredError } from '../../auth/authn/ticket.js'
import type { Exchange } from '../exchange/exchange.js'
import { flushHead } from '../exchange/flush-head.js'
import { type Carrier, framings, STREAM_HEADERS, wireOf } from '../framing/framings.js'
import { eventStreamStart } from '../framing/server-sent-events.js'
import { GzipOutput } from './gzip-output.js'
import { ResponseOutput } from './response-output.js'
import { SocketOutput, canWriteToSocket } from './socket-output.js'
import { StreamOutput } from './stream-output.js'
import type { OpenStream, WatchTransport } from './watch-transport.js'

/** Statuses after which an EventSource gives up for good, although a retry could succeed. */
const CURABLE: ReadonlySet<number> = new Set([429, 503, 504])

/** A page that reconnects with an expired ticket must learn the reason, so that it can get another ticket. */
function isCurable(error: StatusError): boolean {
  return CURABLE.has(error.code) || error instanceof TicketExpiredError
}

export function httpWatch(exchange: Exchange, form: Negotiated): WatchTransport {
  return { open: (compression) => openStream(exchange, form, compression), started: () => exchange.release() }
}

/**
 * Answers an EventSource with a stream that contains only the error, because an EventSource never reconnects after a
 * status other than 200.
 * @returns false when the client or the error calls for an ordinary response.
 */
export function failAsEvents(exchange: Exchange, error: StatusError): boolean {
  if (exchange.isHead || !isCurable(error) || !acceptsEvents(exchange)) return false
  const { wire, output } = openStream(exchange, negotiate('text/event-stream', 'watch'), 'none')
  const { bytes, checksum } = errorUnit(wire, failureOf(error, encodeStatus))
  output.end(bytes, error, checksum)
  return true
}

/** Answers HEAD with the head of the watch that a GET would open. */
export function sendWatchHead(exchange: Exchange, form: Negotiated, compression: Compression): void {
  sendHead(exchange, form, compression)
  exchange.end()
}

/** Whether the client of a watch wants Server-Sent Events. */
export function acceptsEvents(exchange: Pick<Exchange, 'requestHeaders'>): boolean {
  try {
    return negotiate(exchange.requestHeaders.accept, 'watch').stream === 'sse'
  } catch {
    return false
  }
}

/** @returns the compression actually used, since the client may not accept it. */
function sendHead(exchange: Exchange, form: Negotiated, wanted: Compression): Compression {
  const isGzip = wanted !== 'none' && acceptsGzip(exchange.requestHeaders['accept-encoding'])
  const isSse = form.stream === 'sse'
  exchange.writeHead(200, {
    'content-type': isSse ? `${form.contentType}; charset=utf-8` : form.contentType,
    ...STREAM_HEADERS,
    ...(wanted !== 'none' ? { vary: 'Accept-Encoding' } : {}),
    ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
  })
  return isGzip ? wanted : 'none'
}

function openStream(exchange: Exchange, form: Negotiated, wanted: Compression): OpenStream {
  const compression = sendHead(exchange, form, wanted)
  flushHead(exchange.response)
  const [carrier, plain] = carry(exchange)
  const wire = wireOf(framings[form.stream === 'none' ? 'json-lines' : form.stream], carrier, compression)
  const output = compression !== 'none' ? new GzipOutput(plain, wire.envelope) : plain
  if (form.stream === 'sse') {
    const { bytes, checksum } = writeUnit(wire, [eventStreamStart()])
    output.write(bytes, checksum)
  }
  return { wire, output }
}

function carry({ request, response }: Exchange): [Carrier, OpenStream['output'] & WatchOutput] {
  const { stream } = response as { stream?: ServerHttp2Stream }
  if (stream !== undefined) return ['http2', new StreamOutput(stream)]
  if (canWriteToSocket(request, response)) return ['http1-chunked', new SocketOutput(response)]
  return ['http1', new ResponseOutput(response)]
}
