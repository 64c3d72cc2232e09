/**
 * The HTTP server of `--metrics-bind-address`: only metrics and health. It authenticates no one, so that other machines
 * can scrape and probe a server whose API is on loopback.
 */
import type { FastifyInstance } from 'fastify'
import { type BaseServerOptions, type MakeListener, createBaseServer } from './base-server.js'
import { type HealthOptions, registerHealth } from './health.js'
import { type Exposition, registerMetrics } from './operator-routes.js'

export interface MetricsServerOptions extends BaseServerOptions {
  readonly health: HealthOptions
  readonly metrics: () => Promise<Exposition>
}

export function createMetricsServer(options: MetricsServerOptions, makeListener: MakeListener): FastifyInstance {
  return createBaseServer(options, makeListener, (server) => {
    registerMetrics(server, { ...options, gate: { check: () => null } })
    registerHealth(server, options.health)
  })
}
