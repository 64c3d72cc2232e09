/** The routes for operators, outside the API: `/metrics` and `/consistency-check`. */
import type { FastifyInstance } from 'fastify'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import { afterWait } from '../gate/after-wait.js'
import type { Confirmable } from '../gate/caller.js'
import { type GatedRouteOptions, gated, requirePost } from './gated-route.js'

/** The response to a scrape. */
export interface Exposition {
  readonly contentType: string
  readonly text: string
}

export interface MetricsRouteOptions extends GatedRouteOptions<Confirmable | null> {
  readonly metrics: () => Promise<Exposition>
}

/** Answers in the text format of Prometheus. */
export function registerMetrics(server: FastifyInstance, options: MetricsRouteOptions): void {
  server.route({
    method: ['GET', 'HEAD'],
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

export interface ConsistencyRouteOptions extends GatedRouteOptions<Confirmable> {
  /** @returns the report, which is sent as JSON. @throws StatusError */
  readonly checkConsistency: () => Promise<object>
}

const CONSISTENCY_PATH = '/consistency-check'

/**
 * Compares the caches with etcd now, and answers with a report. The body is not used. The gate refuses foreign pages: a
 * browser sends such a POST without a preflight, and although the page could not read the response, etcd would have to
 * list its keys.
 */
export function registerConsistencyCheck(server: FastifyInstance, options: ConsistencyRouteOptions): void {
  const handler = gated(
    options,
    ({ method = '' }) => pathAttributes(method, CONSISTENCY_PATH),
    async (exchange, caller) => {
      requirePost(exchange, 'a consistency check')
      const compared = await afterWait(caller, options.checkConsistency)
      const report = { kind: 'ConsistencyReport', apiVersion: 'distributary.io/v1', ...compared }
      exchange.send(200, 'application/json', Buffer.from(`${JSON.stringify(report, null, 2)}\n`))
    },
  )
  server.all(CONSISTENCY_PATH, handler)
}
