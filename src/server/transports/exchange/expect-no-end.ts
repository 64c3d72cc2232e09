/** The responses for which a stopping server does not wait. */
import type { ServerResponse } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'

export type NodeResponse = ServerResponse | Http2ServerResponse

const endless = new WeakSet<NodeResponse>()

/** The response may last indefinitely, or something else waits for its end. */
export function expectNoEnd(response: NodeResponse): void {
  endless.add(response)
}

export function mayEnd(response: NodeResponse): boolean {
  return !endless.has(response)
}
