/**
 * The HTTP server of a port for clients. The API answers every request that has no route, on Node's own request and
 * response (`reply.hijack()`), because lists and watches write their own responses.
 */
import type { FastifyInstance } from 'fastify'
import type { ApiHandler } from '../api/api-handler.js'
import type { RequestGate } from '../gate/request-gate.js'
import { admitRequest } from '../limits/arrivals.js'
import { type BaseServerOptions, type MakeListener, createBaseServer } from './base-server.js'
import { handleCors } from './cors.js'
import { Exchange } from '../exchange/exchange.js'
import { isGrpc } from '../grpc/grpc-stream.js'
import type { StatusError } from '../../../kubernetes/model/status.js'
import { type HealthOptions, registerHealth } from './health.js'
import { handleTicket, TICKET_PATH } from './ticket-route.js'
import type { Clock } from '../../../support/clock.js'
import { type Exposition, registerConsistencyCheck, registerMetrics } from './operator-routes.js'

export interface ServerOptions extends BaseServerOptions {
  readonly api: ApiHandler
  /** Answers gRPC calls. Default: they are requests like any other. */
  readonly grpc?: ((exchange: Exchange, refused?: StatusError) => void) | undefined
  readonly health: HealthOptions
  readonly metrics: () => Promise<Exposition>
  /** Compares the caches with etcd. */
  readonly checkConsistency: () => Promise<object>
  readonly corsAllowedOrigins: readonly string[]
  /** Whether callers may ask for tickets. */
  readonly hasTickets: boolean
  readonly clock: Clock
  /** Further routes, on every port. */
  readonly routes?: (server: FastifyInstance) => void
  /** The gate in front of every route except health checks, which reveal nothing. */
  readonly gate: RequestGate
}

export function createServer(options: ServerOptions, makeListener: MakeListener): FastifyInstance {
  return createBaseServer({ ...options, handleUnrouted }, makeListener, (server) => {
    registerMetrics(server, options)
    registerConsistencyCheck(server, options)
    registerHealth(server, options.health, options.corsAllowedOrigins)
    options.routes?.(server)
  })

  function handleUnrouted(
    request: { raw: Exchange['request'] },
    reply: { raw: Exchange['response']; hijack(): unknown },
  ): void {
    reply.hijack()
    const exchange = new Exchange(request.raw, reply.raw)
    if (handleCors(exchange, options.corsAllowedOrigins)) return
    const address = options.gate.addressOf(exchange)
    admitRequest(exchange, address, (refused) => {
      if (options.grpc !== undefined && isGrpc(exchange)) return options.grpc(exchange, refused)
      if (exchange.path !== TICKET_PATH || !options.hasTickets) return void options.api(exchange, refused)
      if (refused === undefined) void handleTicket(options, exchange)
      else exchange.fail(refused)
    })
  }
}
