/** A watch and a list in the Kubernetes dialect, the same for distributary and the API server. */
import type { BenchResource } from '../support/objects.js'
import type { WatchRequest } from '../support/watchers.js'
import type { WatchQuery } from './subject.js'

export interface Endpoint {
  readonly port: number
  /** `http1`, `http1-tls`, `http2-tls`, `http2x100-tls`, `http2x100`, `websocket` or `sse`. */
  readonly wire: string
  readonly resource: BenchResource
  readonly headers?: readonly string[]
}

const upgrade = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==', // any 16 bytes
]

export function resourceWatch({ port, wire, resource, headers = [] }: Endpoint, query: WatchQuery): WatchRequest {
  const parameters = ['watch=1', 'timeoutSeconds=3600']
  if (query.afterRevision !== undefined) parameters.push(`resourceVersion=${query.afterRevision}`)
  if (query.fieldSelector !== undefined) parameters.push(`fieldSelector=${query.fieldSelector.replaceAll('=', '%3D')}`)
  if (query.shardSelector !== undefined) parameters.push(`shardSelector=${encodeURIComponent(query.shardSelector)}`)
  const [byWire, expect] = wire.startsWith('websocket')
    ? [upgrade, 'HTTP/1.1 101']
    : wire.startsWith('sse')
      ? [['Accept: text/event-stream'], 'text/event-stream']
      : [[], 'application/json']
  if (query.prefix !== undefined) parameters.push(`prefix=${query.prefix}`)
  return {
    port,
    path: `${resource.path}?${parameters.join('&')}`,
    headers: [...headers, ...byWire],
    expect,
    tls: wire.endsWith('-tls'),
    http2: wire.startsWith('http2'),
  }
}

export function resourceList({ port, wire, resource, headers = [] }: Endpoint): WatchRequest {
  return {
    port,
    path: `${resource.path}?resourceVersion=0`,
    headers: [...headers, 'Accept: application/json'],
    tls: wire.endsWith('-tls'),
    http2: wire.startsWith('http2'),
  }
}
