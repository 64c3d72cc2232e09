/** Marks responses after which their HTTP/1.1 connection ends, whatever becomes of the body of the request. */
import type { ServerResponse } from 'node:http'

const marked = new WeakSet<ServerResponse>()

export function endConnectionWith(response: ServerResponse): void {
  marked.add(response)
  response.shouldKeepAlive = false
}

export function endsConnection(response: ServerResponse): boolean {
  return marked.has(response)
}
