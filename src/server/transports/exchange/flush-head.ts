/**
 * Sends the head of a response before its body. Over HTTP/1.1, Node's `flushHeaders` encodes the head as UTF-8, so each
 * non-ASCII byte of a header (such as a Warning in UTF-8) would arrive as two bytes. If the first write is a buffer,
 * Node writes each character of the head as one byte. Bun's `flushHeaders` already does that, but if the first write is
 * an empty buffer, Bun omits the blank line that ends the head.
 */
import type { ServerResponse } from 'node:http'
import { isBun } from '../../../support/is-bun.js'

const NOTHING = Buffer.alloc(0)

/** Hands the head to the socket before returning, so that data written to the socket directly comes after it. */
export function flushHead(response: ServerResponse): void {
  if (isBun || response.req.httpVersionMajor > 1) return response.flushHeaders()
  // A write after the client has left would emit an error.
  if (response.destroyed) return
  response.write(NOTHING)
  response.socket?.uncork()
}
