/**
 * `POST /audit`: compares what is cached with etcd now, and answers what came of it. Behind the same gate as `/metrics`, as
 * the verb `post` on the path `/audit`.
 *
 * A body is not read. A page of another origin is refused: a browser would send such a POST without asking, and while it
 * reads nothing of the answer, etcd would have to list its keys for it.
 */
import type { FastifyInstance } from 'fastify'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import { ForbiddenError, MethodNotAllowedError, StatusError } from '../../model/status.js'
import type { RequestGate } from '../limits/request-gate.js'
import { Exchange } from './exchange.js'

export interface AuditRouteOptions {
  readonly gate: RequestGate
  /** The report, as it is to be written down. @throws StatusError */
  readonly audit: () => Promise<object>
  readonly onInternalError: (error: StatusError) => void
}

const PATH = '/audit'

export function registerAudit(server: FastifyInstance, { gate, audit, onInternalError }: AuditRouteOptions): void {
  server.all(PATH, async (request, reply) => {
    const exchange = new Exchange(request.raw, reply.raw)
    reply.hijack()
    try {
      const method = request.raw.method ?? ''
      await gate.check(exchange, pathAttributes(method, PATH))
      if (method !== 'POST') {
        exchange.headers['allow'] = 'POST'
        throw new MethodNotAllowedError(`an audit is asked for with POST, not ${method}`)
      }
      requireOwnOrigin(exchange)
      exchange.send(200, 'application/json', Buffer.from(`${JSON.stringify(await audit(), null, 2)}\n`))
    } catch (error) {
      const status = StatusError.from(error)
      if (status.code === 500) onInternalError(status)
      exchange.fail(status)
    }
  })
}

function requireOwnOrigin({ requestHeaders }: Exchange): void {
  const { origin, host } = requestHeaders
  if (origin === undefined) return
  const isOwn = URL.canParse(origin) && new URL(origin).host === (host ?? requestHeaders[':authority'])
  if (!isOwn) throw new ForbiddenError('an audit is not asked for by pages of other origins')
}
