/** A stand-in for an OpenTelemetry collector: OTLP over HTTP, in JSON, on a free port. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export interface CollectedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** Undefined or empty for a root span. */
  readonly parentSpanId?: string
  /** 1 internal, 2 server, 3 client. */
  readonly kind: number
  readonly failed: boolean
  readonly attributes: Readonly<Record<string, unknown>>
  /** The attributes of the process. */
  readonly resource: Readonly<Record<string, unknown>>
}

export interface TraceCollector {
  readonly url: string
  readonly spans: readonly CollectedSpan[]
  /** The status that senders get from now on. */
  status: number
  /** Requests received, whatever their response. */
  readonly requests: number
}

interface KeyedValue {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface ExportRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly KeyedValue[] }
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<CollectedSpan, 'attributes' | 'failed' | 'resource'> & {
        readonly attributes: readonly KeyedValue[]
        readonly status: { readonly code?: number }
      })[]
    }[]
  }[]
}

/** Integers arrive as numbers or as text. */
const plain = (attributes: readonly KeyedValue[]): Record<string, unknown> =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      'intValue' in value ? Number(value['intValue']) : Object.values(value)[0],
    ]),
  )

export async function startTraceCollector(t: Test): Promise<TraceCollector> {
  const spans: CollectedSpan[] = []
  const collector = { url: '', spans, status: 200, requests: 0 }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      collector.requests++
      if (request.url === '/v1/traces' && collector.status === 200) {
        const { resourceSpans } = JSON.parse(Buffer.concat(chunks).toString()) as ExportRequest
        for (const { resource, scopeSpans } of resourceSpans) {
          for (const { attributes, status, ...span } of scopeSpans.flatMap((scope) => scope.spans)) {
            const failed = status.code === 2
            spans.push({ ...span, failed, attributes: plain(attributes), resource: plain(resource.attributes) })
          }
        }
      }
      response.writeHead(collector.status, { 'content-type': 'application/json' }).end('{}')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return collector
}
