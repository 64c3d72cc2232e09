/** Answers `/metrics` in the text format of Prometheus. */
import type { FastifyInstance } from 'fastify'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import type { Confirmable } from '../limits/request-gate.js'
import { type GatedRouteOptions, gated } from './gated-route.js'

/** The response to a scrape. */
export interface Exposition {
  readonly contentType: string
  readonly text: string
}

export interface MetricsRouteOptions extends GatedRouteOptions<Confirmable | null> {
  readonly metrics: () => Promise<Exposition>
}

export function registerMetrics(server: FastifyInstance, options: MetricsRouteOptions): void {
  server.route({
    method: ['GET', 'HEAD', 'OPTIONS'],
    url: '/metrics',
    handler: gated(
      options,
      () => pathAttributes('GET', '/metrics'),
      async (exchange) => {
        const { contentType, text } = await options.metrics()
        exchange.send(200, contentType, Buffer.from(text))
      },
    ),
  })
}
