/**
 * The HTTP server of one port. Fastify owns its life cycle, the routes and the small documents; the API itself is answered
 * on Node's own request and response (`reply.hijack()`), because lists and watches write for themselves.
 */
import type { RequestListener, Server } from 'node:http'
import { type FastifyInstance, type FastifyReply, fastify } from 'fastify'
import { encodeStatus } from '../../dialect/encoding/json-encoder.js'
import { BadRequestError, InternalError, NotFoundError, StatusError } from '../../model/status.js'
import { pathAttributes } from '../../auth/authz/authorizer.js'
import type { RequestGate } from '../limits/request-gate.js'
import type { ApiHandler } from '../api/api-handler.js'
import { whyHostRefused } from './allowed-hosts.js'
import { registerConsistencyCheck } from './consistency-route.js'
import { handleCors } from './cors.js'
import { answerUnreadable, limitBroken } from './answer-unreadable.js'
import { Exchange } from './exchange.js'
import { type HealthOptions, isHealthPath, registerHealth } from './health.js'

export interface ServerOptions {
  readonly api: ApiHandler
  readonly health: HealthOptions
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>
  /** Compares what is cached with etcd. */
  readonly checkConsistency: () => Promise<object>
  /** Whether `api` answers any path, by passing it on. */
  readonly answersAll?: boolean
  /** Called when a connection broke a limit before there was a request. */
  readonly onRejected: (limit: string) => void
  readonly onInternalError: (error: StatusError) => void
  readonly corsAllowedOrigins: readonly string[]
  /** The names by which clients may call this server, besides addresses and loopback names; null: any. */
  readonly allowedHosts: readonly string[] | null
  /** Further routes, on every port. */
  readonly routes?: (server: FastifyInstance) => void
  /** Everything is behind it but health, which reveals nothing. */
  readonly gate: RequestGate
}

const NO_CACHE = { 'cache-control': 'no-cache, private' }

/** Makes the listener that a server stands on. */
export type MakeListener = (handler: RequestListener) => Server

export function createServer(options: ServerOptions, makeListener: MakeListener): FastifyInstance {
  /** Sockets that were refused: what else arrives on them is unreadable again, and counts as the same refusal. */
  const refused = new WeakSet<object>()
  const server = fastify({
    logger: false,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    serverFactory: (handler) => makeListener(handler),
    clientErrorHandler: (error, socket) => {
      const limit = limitBroken(error as { readonly code?: string })
      if (limit !== undefined && !refused.has(socket)) options.onRejected(limit)
      refused.add(socket)
      answerUnreadable(error, socket)
    },
    frameworkErrors: (_error, _request, reply: FastifyReply) => {
      const status = new BadRequestError('the path of the request cannot be read')
      void reply.code(status.code).headers(NO_CACHE).type('application/json').send(encodeStatus(status.toStatus()))
    },
  })
  server.addHook('onRequest', async (request, reply) => {
    const refusal = whyHostRefused(request.raw, isHealthPath(request.url) ? null : options.allowedHosts)
    if (refusal === null) return
    options.onRejected('hosts')
    await reply.code(refusal.code).type('application/json').send(encodeStatus(refusal.toStatus()))
  })
  server.addHook('onSend', async (_request, reply) => {
    if (!reply.hasHeader('cache-control')) reply.headers(NO_CACHE)
  })
  server.all('/api', answer)
  server.all('/api/*', answer)
  server.all('/apis', answer)
  server.all('/apis/*', answer)
  server.all('/openapi/*', answer)
  server.all('/version', answer)
  if (options.answersAll === true) server.all('/*', answer)
  server.get('/metrics', async (request, reply) => {
    const exchange = new Exchange(request.raw, reply.raw)
    reply.hijack()
    try {
      await options.gate.check(exchange, pathAttributes('GET', '/metrics'))
      const { contentType, text } = await options.metrics()
      exchange.send(200, contentType, Buffer.from(text))
    } catch (error) {
      const status = StatusError.from(error)
      if (status.code === 500) options.onInternalError(status)
      exchange.fail(status)
    }
  })
  registerConsistencyCheck(server, options)
  registerHealth(server, options.health)
  options.routes?.(server)
  // Bodies are never read here, whatever their type.
  server.removeAllContentTypeParsers()
  server.addContentTypeParser('*', (_request, _payload, done) => done(null))
  server.setNotFoundHandler(async (_request, reply) => {
    const status = new NotFoundError('the server could not find the requested resource', { details: {} })
    return await reply.code(404).type('application/json').send(encodeStatus(status.toStatus()))
  })
  server.setErrorHandler(async (error, _request, reply) => {
    const status = isClientError(error)
      ? new BadRequestError(error.message)
      : new InternalError('an internal error occurred', { cause: error })
    if (status.code === 500) options.onInternalError(status)
    return await reply.code(status.code).type('application/json').send(encodeStatus(status.toStatus()))
  })
  return server

  function answer(
    request: { raw: Exchange['request'] },
    reply: { raw: Exchange['response']; hijack(): unknown },
  ): void {
    reply.hijack()
    const exchange = new Exchange(request.raw, reply.raw)
    if (!handleCors(exchange, options.corsAllowedOrigins)) void options.api(exchange)
  }
}

function isClientError(error: unknown): error is Error {
  return (
    error instanceof Error && 'statusCode' in error && Number(error.statusCode) >= 400 && Number(error.statusCode) < 500
  )
}
