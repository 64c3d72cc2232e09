/**
 * `POST /consistency-check` compares the caches with etcd now, and answers with a report. It passes the same gate as
 * `/metrics`, as the verb `post` on its path. The older name `/audit`, and the older kind of the report there, are kept for one
 * release.
 *
 * The body is not read. Pages of other origins are refused: a browser sends such a POST without asking, and although the
 * page could not read the answer, etcd would have to list its keys for it.
 */
import type { FastifyInstance } from 'fastify'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import { ForbiddenError, MethodNotAllowedError, StatusError } from '../../model/status.js'
import type { RequestGate } from '../limits/request-gate.js'
import { Exchange } from './exchange.js'
import { isOwnOrigin } from './own-origin.js'

export interface ConsistencyRouteOptions {
  readonly gate: RequestGate
  /** @returns the report, which is sent as JSON. @throws StatusError */
  readonly checkConsistency: () => Promise<object>
  readonly onInternalError: (error: StatusError) => void
}

const PATH = '/consistency-check'
const OLD_PATH = '/audit'

export function registerConsistencyCheck(server: FastifyInstance, options: ConsistencyRouteOptions): void {
  for (const path of [PATH, OLD_PATH]) {
    server.all(path, async (request, reply) => {
      const exchange = new Exchange(request.raw, reply.raw)
      reply.hijack()
      try {
        await options.gate.check(exchange, pathAttributes(request.raw.method ?? '', path))
        requireOwnPost(exchange)
        const report = await options.checkConsistency()
        const content = path === OLD_PATH ? { ...report, kind: 'AuditReport' } : report
        exchange.send(200, 'application/json', Buffer.from(`${JSON.stringify(content, null, 2)}\n`))
      } catch (error) {
        const status = StatusError.from(error)
        if (status.code === 500) options.onInternalError(status)
        exchange.fail(status)
      }
    })
  }
}

/** @throws StatusError */
function requireOwnPost(exchange: Exchange): void {
  const { method = '' } = exchange.request
  if (method !== 'POST') {
    exchange.headers['allow'] = 'POST'
    throw new MethodNotAllowedError(`a consistency check is asked for with POST, not ${method}`)
  }
  const { origin } = exchange.requestHeaders
  if (origin !== undefined && !isOwnOrigin(exchange, origin)) {
    throw new ForbiddenError('a consistency check is not asked for by pages of other origins')
  }
}
