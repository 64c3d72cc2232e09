/**
 * Sends the head of a response before its body. `flushHeaders` of Node writes it as UTF-8 over HTTP/1.1, so each byte
 * of a header beyond ASCII (the UTF-8 of a Warning) would arrive as two. If the first write is a buffer, Node writes
 * the head byte by byte. Bun's `flushHeaders` already does that, but if the first write is an empty buffer, Bun omits
 * the blank line that ends the head.
 */
import type { ServerResponse } from 'node:http'
import { isBun } from '../../../support/is-bun.js'

const NOTHING = Buffer.alloc(0)

/** Hands the head to the socket before it returns, so that data written to the socket directly comes after it. */
export function flushHead(response: ServerResponse): void {
  if (isBun || response.req.httpVersionMajor > 1) return response.flushHeaders()
  // A write after the client has gone would be an error event.
  if (response.destroyed) return
  response.write(NOTHING)
  response.socket?.uncork()
}
