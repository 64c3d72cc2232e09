/** A watch as the body of an HTTP answer: which wire, and which way to the client. */
import type { ServerHttp2Stream } from 'node:http2'
import type { WatcherSink } from '../../broadcast/cursor.js'
import { writeUnit } from '../../broadcast/wire.js'
import { type Negotiated, negotiate } from '../../dialect/accept.js'
import { acceptsGzip } from '../../dialect/media-type.js'
import { encodeStatus } from '../../dialect/encoding/json-encoder.js'
import type { StatusError } from '../../model/status.js'
import type { Caller } from '../limits/request-gate.js'
import type { Exchange } from '../server/exchange.js'
import { type Carrier, framings, wireOf } from '../framing/framings.js'
import { EVENT_STREAM_START } from '../framing/server-sent-events.js'
import { GzipSink } from './gzip-sink.js'
import { ResponseSink } from './response-sink.js'
import { SocketSink, canWriteToSocket } from './socket-sink.js'
import { StreamSink } from './stream-sink.js'
import type { OpenStream, WatchTransport } from '../api/watch-handler.js'

/** What an EventSource gives up on for good, though it would be cured by coming again. */
const CURABLE: ReadonlySet<number> = new Set([429, 503, 504])

export function httpWatch(exchange: Exchange, form: Negotiated, caller: Caller): WatchTransport {
  return {
    query: exchange.query,
    lastEventId: form.stream === 'sse' ? lastEventId(exchange) : undefined,
    caller,
    signal: exchange.signal,
    open: (compress) => openStream(exchange, form, compress),
    begun: () => exchange.release(),
  }
}

/**
 * An error as a stream with one event, for an EventSource, which never comes again after any status but 200.
 * @returns false: not for this client or this error, which is an ordinary answer then.
 */
export function failAsEvents(exchange: Exchange, error: StatusError): boolean {
  if (exchange.isHead || !CURABLE.has(error.code) || !asksForEvents(exchange)) return false
  const status = error.toStatus()
  const { wire, sink } = openStream(exchange, negotiate('text/event-stream', 'watch'), false)
  const frames = [wire.frame('ERROR', encodeStatus(status), null)]
  const after = wire.afterError(status)
  if (after !== null) frames.push(after)
  const { bytes, checksum } = writeUnit(wire, frames)
  sink.end(bytes, status, checksum)
  return true
}

/** HEAD: the head of the watch that a GET would open, and its end. */
export function answerHeadOfWatch(exchange: Exchange, form: Negotiated, compress: boolean): void {
  sendHead(exchange, form, compress)
  exchange.response.end()
}

function asksForEvents(exchange: Exchange): boolean {
  try {
    return negotiate(exchange.requestHeaders.accept, 'watch').stream === 'sse'
  } catch {
    return false
  }
}

/** @returns whether the stream is gzipped. */
function sendHead(exchange: Exchange, form: Negotiated, compress: boolean): boolean {
  const isGzip = compress && acceptsGzip(exchange.requestHeaders['accept-encoding'])
  const isSse = form.stream === 'sse'
  exchange.writeHead(200, {
    'content-type': isSse ? `${form.contentType}; charset=utf-8` : form.contentType,
    'cache-control': 'no-cache, private',
    // nginx would gather a stream of small events until its buffer is full.
    ...(isSse ? { 'x-accel-buffering': 'no' } : {}),
    ...(compress ? { vary: 'Accept-Encoding' } : {}),
    ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
  })
  return isGzip
}

function openStream(exchange: Exchange, form: Negotiated, compress: boolean): OpenStream {
  const isGzip = sendHead(exchange, form, compress)
  exchange.response.flushHeaders()
  const [carrier, plain] = carry(exchange)
  const wire = wireOf(framings[form.stream === 'none' ? 'json-lines' : form.stream], carrier, isGzip)
  const sink = isGzip ? new GzipSink(plain, wire.envelope) : plain
  if (form.stream === 'sse') {
    const { bytes, checksum } = writeUnit(wire, [EVENT_STREAM_START])
    sink.write(bytes, checksum)
  }
  return { wire, sink }
}

function carry({ request, response }: Exchange): [Carrier, OpenStream['sink'] & WatcherSink] {
  const { stream } = response as { stream?: ServerHttp2Stream }
  if (stream !== undefined) return ['http2', new StreamSink(stream)]
  if (canWriteToSocket(request, response)) return ['http1-chunked', new SocketSink(response)]
  return ['http1', new ResponseSink(response)]
}

function lastEventId({ requestHeaders }: Exchange): string | undefined {
  const value = requestHeaders['last-event-id']
  return Array.isArray(value) ? value[0] : value
}
