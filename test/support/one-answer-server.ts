/**
 * A server that keeps each connection open after one response and resets it at the next request, like one that closes
 * idle connections.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Test } from 'tap'

export interface OneAnswerServer {
  readonly url: string
  /** The methods of all requests, including unanswered ones. */
  readonly asked: string[]
}

export async function startOneAnswerServer(t: Test): Promise<OneAnswerServer> {
  const used = new WeakSet<Socket>()
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.method!)
    if (used.has(request.socket)) return void request.socket.resetAndDestroy()
    used.add(request.socket)
    request.resume().once('end', () => response.setHeader('content-type', 'application/json').end('{"kind":"Answer"}'))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}
