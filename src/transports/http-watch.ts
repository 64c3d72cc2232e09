/** A watch as the body of an HTTP answer: chunked on HTTP/1.1, a stream on HTTP/2, lines or server-sent events. */
import type { Negotiated } from '../dialect/accept.js'
import type { Exchange } from './exchange.js'
import { ResponseSink } from './http1/response-sink.js'
import { SocketSink, canWriteToSocket } from './http1/socket-sink.js'
import { chunkedJsonLines, plainJsonLines } from './http1/json-lines-wire.js'
import { chunkedProtobuf, plainProtobuf } from './http1/protobuf-wire.js'
import type { OpenStream, WatchTransport } from './watch-handler.js'

export function httpWatch(exchange: Exchange): WatchTransport {
  return {
    query: exchange.query,
    lastEventId: undefined,
    client: exchange.request.socket.remoteAddress ?? '',
    signal: exchange.signal,
    open: (form) => openStream(exchange, form),
    begun: () => exchange.release(),
  }
}

function openStream(exchange: Exchange, form: Negotiated): OpenStream {
  const { request, response } = exchange
  exchange.writeHead(200, { 'content-type': form.contentType, 'cache-control': 'no-cache, private' })
  response.flushHeaders()
  const isProtobuf = form.stream === 'protobuf-frames'
  if (canWriteToSocket(request, response)) {
    return { wire: isProtobuf ? chunkedProtobuf : chunkedJsonLines, sink: new SocketSink(response) }
  }
  return { wire: isProtobuf ? plainProtobuf : plainJsonLines, sink: new ResponseSink(response) }
}
