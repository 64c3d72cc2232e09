/** Answers `/metrics` in the text format of Prometheus. */
import type { FastifyInstance } from 'fastify'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import { StatusError } from '../../model/status.js'
import type { RequestGate } from '../limits/request-gate.js'
import { Exchange } from './exchange.js'

/** The answer to a scrape. */
export interface Exposition {
  readonly contentType: string
  readonly text: string
}

export interface MetricsRouteOptions {
  readonly metrics: () => Promise<Exposition>
  /** null where nobody is authenticated and everybody may scrape. */
  readonly gate: RequestGate | null
  readonly onInternalError: (error: StatusError) => void
}

export function registerMetrics(
  server: FastifyInstance,
  { metrics, gate, onInternalError }: MetricsRouteOptions,
): void {
  server.route({
    method: ['GET', 'HEAD'],
    url: '/metrics',
    handler: async (request, reply) => {
      const exchange = new Exchange(request.raw, reply.raw)
      reply.hijack()
      try {
        await gate?.check(exchange, pathAttributes('GET', '/metrics'))
        const { contentType, text } = await metrics()
        exchange.send(200, contentType, Buffer.from(text))
      } catch (error) {
        const status = StatusError.from(error)
        if (status.code === 500) onInternalError(status)
        exchange.fail(status)
      }
    },
  })
}
