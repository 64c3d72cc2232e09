/**
 * Limits the pipelined requests of one HTTP/1.1 connection. One packet may contain about seven hundred requests. Node
 * parses all of them at once, and each takes time on the event loop even though its response has to wait for the
 * earlier ones. No known client pipelines more than a few requests, so beyond the limit the parser is stopped in the
 * middle of the packet.
 *
 * Requests within the limit are answered, and then the connection ends. The client repeats the other requests, as it
 * would after losing any connection.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { oncePer } from '../../../support/memo.js'
import { MAX_PIPELINED } from '../../limits/fixed-limits.js'

interface Pipeline {
  /** The number of requests that have been started but not answered. */
  waiting: number
  isOver: boolean
  /** The responses that are not closed yet, including responses to requests that were not started. */
  readonly open: Set<ServerResponse>
}

/** @param onRejected called once per connection. */
export function limitPipelined(handler: RequestListener, onRejected: () => void): RequestListener {
  const pipelineOf = oncePer((socket: Socket): Pipeline => {
    const open = new Set<ServerResponse>()
    closeWith(socket, open)
    return { waiting: 0, isOver: false, open }
  })
  return (request: IncomingMessage, response: ServerResponse): void => {
    // HTTP/2 streams have a separate limit.
    if (request.httpVersionMajor > 1) return handler(request, response)
    const { socket } = request
    const pipeline = pipelineOf(socket)
    pipeline.open.add(response)
    response.once('close', () => pipeline.open.delete(response))
    if (pipeline.isOver) return
    if (pipeline.waiting >= MAX_PIPELINED) {
      pipeline.isOver = true
      stopParser(socket)
      socket.pause()
      endWithoutTraces(socket)
      return onRejected()
    }
    pipeline.waiting++
    response.once('close', () => {
      pipeline.waiting--
      if (pipeline.isOver && pipeline.waiting === 0) socket.destroySoon()
    })
    handler(request, response)
  }
}

/** Connections that end once their requests within the limit are answered. */
const ending = new WeakSet<object>()

/** Whether unreadable bytes on a connection can be ignored, because the connection is ending anyway. */
export function isEndingConnection(socket: object): boolean {
  return ending.has(socket)
}

/** Makes Node's parser skip the rest of the packet, as after an upgrade. */
const STOP = 2

/**
 * Starts no further request of a connection. Node's parser is private; if it cannot be found, the rest of the packet is
 * parsed.
 */
export function stopParser(socket: Socket): void {
  const { parser } = socket as { parser?: { onIncoming?: (request: { upgrade: boolean }) => number } | null }
  ending.add(socket)
  if (!parser) return
  parser.onIncoming = (request) => {
    request.upgrade = false
    return STOP
  }
}

/**
 * When a connection ends, closes the responses that still wait behind others. Before Node 24 nothing else closes them,
 * and a watch among them would run forever.
 */
function closeWith(socket: Socket, open: ReadonlySet<ServerResponse>): void {
  socket.once('close', () => {
    // Node has now closed the first response (before Node 24) or all of them.
    setImmediate(() => {
      for (const response of open) {
        response.destroyed = true
        response.emit('close')
      }
    })
  })
}

/**
 * Ends the connection without recording stack traces. Node creates an error for each parsed request when a connection
 * ends, and nothing reads the traces of these hundred errors.
 */
function endWithoutTraces(socket: Socket): void {
  let limit = Error.stackTraceLimit
  socket.prependOnceListener('close', () => {
    limit = Error.stackTraceLimit
    Error.stackTraceLimit = 0
  })
  socket.once('close', () => {
    Error.stackTraceLimit = limit
  })
}
