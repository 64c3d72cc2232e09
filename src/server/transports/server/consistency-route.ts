/**
 * `POST /consistency-check` compares the caches with etcd now, and answers with a report. It passes the same gate as
 * `/metrics`, as the verb `post` on its path.
 *
 * The body is not read. Pages of origins that are not allowed are rejected: a browser sends such a POST without a preflight, and
 * although the page could not read the response, etcd would have to list its keys.
 */
import type { FastifyInstance } from 'fastify'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import type { Confirmable } from '../limits/request-gate.js'
import type { Exchange } from './exchange.js'
import { type GatedRouteOptions, gated } from './gated-route.js'
import { requireOwnOrigin } from './own-origin.js'
import { requirePost } from './require-post.js'

export interface ConsistencyRouteOptions extends GatedRouteOptions<Confirmable> {
  /** @returns the report, which is sent as JSON. @throws StatusError */
  readonly checkConsistency: () => Promise<object>
}

const PATH = '/consistency-check'

export function registerConsistencyCheck(server: FastifyInstance, options: ConsistencyRouteOptions): void {
  const answer = async (exchange: Exchange, caller: Confirmable): Promise<void> => {
    requirePost(exchange, 'a consistency check')
    requireOwnOrigin(exchange, 'a consistency check is not asked for')
    const report = await options.checkConsistency()
    await caller.confirm()
    exchange.send(200, 'application/json', Buffer.from(`${JSON.stringify(report, null, 2)}\n`))
  }
  server.all(
    PATH,
    gated(options, ({ method = '' }) => pathAttributes(method, PATH), answer),
  )
}
