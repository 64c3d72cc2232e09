/**
 * An HTTP proxy that answers some requests itself: 410, 429, 5xx, or a watch that ends after some events.
 * `test/support/fault-proxy.ts` injects TCP faults; a test that needs both chains them.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export interface FaultAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Default: none. */
  readonly body?: string
}

export type Fault =
  | FaultAnswer
  /** Ends the response gracefully after this many lines. */
  | { readonly endAfterLines: number }
  | null

export interface SeenRequest {
  readonly isWatch: boolean
  readonly isStream: boolean
  readonly query: URLSearchParams
  readonly headers: http.IncomingHttpHeaders
  readonly atMs: number
}

export interface HttpFaults {
  readonly url: string
  readonly port: number
  readonly requests: SeenRequest[]
  /** Decides about each request; null lets it through. */
  fault: (request: SeenRequest) => Fault
  /** The port that requests go to from now on. */
  target: number
  /** Breaks all connections. */
  cut(): void
}

export async function startHttpFaults(t: Test, targetPort: number): Promise<HttpFaults> {
  const faults: HttpFaults = {
    url: '',
    port: 0,
    requests: [],
    fault: () => null,
    target: targetPort,
    cut: () => server.closeAllConnections(),
  }
  const upstreams = new Set<http.ClientRequest>()
  const server = http.createServer((request, response) => {
    const { searchParams: query } = new URL(request.url ?? '/', 'http://x')
    const seen: SeenRequest = {
      isWatch: query.get('watch') === '1',
      isStream: query.get('sendInitialEvents') === 'true',
      query,
      headers: request.headers,
      atMs: performance.now(),
    }
    faults.requests.push(seen)
    const fault = faults.fault(seen)
    if (fault !== null && 'status' in fault) {
      response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers })
      response.end(fault.body ?? '')
      return
    }
    const headers = { ...request.headers, host: `127.0.0.1:${faults.target}` }
    const { method, url: path } = request
    const upstream = http.request({ port: faults.target, method, path, headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      response.flushHeaders()
      let linesLeft = fault === null ? Infinity : fault.endAfterLines
      answer.on('data', (chunk: Buffer) => {
        for (let at = chunk.indexOf(10); at !== -1 && linesLeft > 0; at = chunk.indexOf(10, at + 1)) {
          if (--linesLeft > 0) continue
          response.end(chunk.subarray(0, at + 1))
          upstream.destroy()
          return
        }
        if (linesLeft > 0) response.write(chunk)
      })
      answer.on('end', () => response.end())
      answer.on('error', () => response.destroy())
    })
    upstreams.add(upstream)
    upstream.on('close', () => upstreams.delete(upstream))
    upstream.on('error', () => response.destroy())
    response.on('close', () => upstream.destroy())
    request.pipe(upstream)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
    // If the client was gone before the request was forwarded, nothing else ends that request.
    for (const upstream of upstreams) upstream.destroy()
  })
  return Object.assign(faults, { port, url: `http://127.0.0.1:${port}` })
}
