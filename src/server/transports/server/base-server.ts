/**
 * The common part of all ports: the life cycle, the host check, and the responses to requests that cannot be read or
 * routed. Fastify routes the requests and answers the small documents.
 */
import type { RequestListener, Server } from 'node:http'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { encodeStatus } from '../../../kubernetes/dialect/encoding/json-encoder.js'
import type { Limit } from '../../limits/limit.js'
import { BadRequestError, InternalError, NotFoundError, type StatusError } from '../../../kubernetes/model/status.js'
import { readTarget, whyHostRefused } from './allowed-hosts.js'
import { limitBroken, rejectUnreadable } from './reject-unreadable.js'
import { isHealthPath } from './health.js'
import { isEndingConnection, limitPipelined } from '../exchange/http-pipelining.js'
import { gatherBody } from '../exchange/request-body.js'
import { boundResponse } from '../exchange/linger.js'

export interface BaseServerOptions {
  /** Called when a connection exceeds a limit before there is a request, and when a host is rejected. */
  readonly onRejected: (limit: Limit) => void
  readonly onInternalError: (error: StatusError) => void
  /** The host names that clients may use, in addition to addresses and loopback names; null for any. */
  readonly allowedHosts: () => readonly string[] | null
  /**
   * Answers a request that has no route, before Fastify checks its method and content type. It must hijack the reply.
   * Default: 404.
   */
  readonly handleUnrouted?: (request: FastifyRequest, reply: FastifyReply) => void
}

const NO_CACHE = { 'cache-control': 'no-cache, private' }

/** Creates the Node server on which Fastify listens. */
export type MakeListener = (handler: RequestListener) => Server

/** @param register adds the routes. */
export function createBaseServer(
  options: BaseServerOptions,
  makeListener: MakeListener,
  register: (server: FastifyInstance) => void,
): FastifyInstance {
  /**
   * Rejected sockets. Anything else that arrives on such a socket is also unreadable, and belongs to the same
   * rejection.
   */
  const refused = new WeakSet<object>()
  const server = fastify({
    logger: false,
    exposeHeadRoutes: false,
    forceCloseConnections: true,
    // No route has a schema. Fastify's own compilers would load 150 files at every start, to compile nothing.
    schemaController: { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } },
    serverFactory: (handler) => makeListener(limitPipelined(gathering(handler), () => options.onRejected('pipelined'))),
    clientErrorHandler: (error, socket) => {
      if (isEndingConnection(socket)) return
      const limit = limitBroken(error as { readonly code?: string })
      if (limit !== undefined && !refused.has(socket)) options.onRejected(limit)
      refused.add(socket)
      rejectUnreadable(error, socket)
    },
    frameworkErrors: (_error, _request, reply: FastifyReply) => {
      const status = new BadRequestError('the path of the request cannot be read')
      void reply.code(status.code).headers(NO_CACHE).type('application/json').send(encodeStatus(status.toStatus()))
    },
  })
  server.addHook('onRequest', async (request, reply) => {
    const refusal = whyHostRefused(request.raw, isHealthPath(request.url) ? null : options.allowedHosts())
    if (refusal === null) {
      if (request.is404) options.handleUnrouted?.(request, reply)
      return
    }
    options.onRejected('hosts')
    await reply.code(refusal.code).type('application/json').send(encodeStatus(refusal.toStatus()))
  })
  server.addHook('onSend', async (_request, reply) => {
    boundResponse(reply.raw)
    if (!reply.hasHeader('cache-control')) reply.headers(NO_CACHE)
  })
  register(server)
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
}

function gathering(handler: RequestListener): RequestListener {
  return (request, response) => {
    readTarget(request)
    gatherBody(request, response)
    handler(request, response)
  }
}

function noCompiler(): never {
  throw new Error('routes here have no schemas')
}

function isClientError(error: unknown): error is Error {
  return (
    error instanceof Error && 'statusCode' in error && Number(error.statusCode) >= 400 && Number(error.statusCode) < 500
  )
}
