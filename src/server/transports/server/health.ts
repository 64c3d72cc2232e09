/**
 * Answers `/livez`, `/readyz` and `/healthz`, each with `?verbose` and with one path per check, in the API server's
 * format. Also answers `/readyz?ages`, from which the next server in a chain learns how old each resource is.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { corsHeaders } from './cors.js'

export interface HealthCheck {
  /** The name in `/readyz/{name}`. */
  readonly name: string
  /** Returns why the check fails; null when it passes. */
  readonly problem: () => string | null
  /** Whether a problem is only shown, and does not make the server unready. */
  readonly isInformational?: boolean
  /** What a problem of an informational check means, for `?verbose`. Default: `not served`. */
  readonly informs?: string
}

export interface HealthOptions {
  readonly livez: () => readonly HealthCheck[]
  readonly readyz: () => readonly HealthCheck[]
  /** The ages of all resources by id, in milliseconds. */
  readonly ages: () => Iterable<readonly [resource: string, age: { readonly ageMs: number; readonly validMs: number }]>
}

const ENDPOINTS = ['livez', 'healthz', 'readyz'] as const

/** @param url the URL of a request, with or without a query. */
export function isHealthPath(url: string): boolean {
  return ENDPOINTS.some((endpoint) => new RegExp(`^/${endpoint}(?:[/?]|$)`).test(url))
}

export function registerHealth(
  server: FastifyInstance,
  options: HealthOptions,
  corsAllowedOrigins: readonly string[] = [],
): void {
  const onRequest = async ({ headers }: FastifyRequest, reply: FastifyReply): Promise<void> => {
    reply.headers(corsHeaders(headers, corsAllowedOrigins))
  }
  for (const endpoint of ENDPOINTS) {
    const checksOf = endpoint === 'livez' ? options.livez : options.readyz
    server.route({
      method: ['GET', 'HEAD'],
      url: `/${endpoint}`,
      onRequest,
      handler: async (request, reply) => {
        if (endpoint === 'readyz' && queryValues(request.query, 'ages').length > 0) {
          // JSON has no infinity, so an infinite age becomes null.
          return await reply.header('cache-control', 'no-store').send({ ages: Object.fromEntries(options.ages()) })
        }
        const { ok, text } = report(endpoint, checksOf(), new Set(queryValues(request.query, 'exclude')))
        const verbose = queryValues(request.query, 'verbose').length > 0
        return await plain(reply, ok ? 200 : 500, ok && !verbose ? 'ok' : text)
      },
    })
    server.route<{ Params: { check: string } }>({
      method: ['GET', 'HEAD'],
      url: `/${endpoint}/:check`,
      onRequest,
      handler: async (request, reply) => {
        const check = checksOf().find(({ name }) => name === request.params.check)
        if (check === undefined) return await plain(reply, 404, 'no such check\n')
        const problem = check.problem()
        return await plain(reply, problem === null || check.isInformational === true ? 200 : 500, problem ?? 'ok')
      },
    })
  }
}

async function plain(reply: FastifyReply, code: number, text: string): Promise<FastifyReply> {
  return await reply.code(code).type('text/plain; charset=utf-8').header('x-content-type-options', 'nosniff').send(text)
}

function report(
  endpoint: string,
  checks: readonly HealthCheck[],
  excluded: Set<string>,
): { ok: boolean; text: string } {
  let ok = true
  const lines = checks.map((check) => {
    if (excluded.delete(check.name)) return `[+]${check.name} excluded: ok`
    const problem = check.problem()
    if (problem === null) return `[+]${check.name} ok`
    if (check.isInformational === true) return `[*]${check.name} ${check.informs ?? 'not served'}: ${problem}`
    ok = false
    return `[-]${check.name} failed: ${problem}`
  })
  if (excluded.size > 0) {
    const names = [...excluded].map((name) => JSON.stringify(name)).join(', ')
    lines.push(`warn: some health checks cannot be excluded: no matches for ${names}`)
  }
  lines.push(ok ? `${endpoint} check passed` : `${endpoint} check failed`, '')
  return { ok, text: lines.join('\n') }
}

function queryValues(query: unknown, name: string): string[] {
  const value = typeof query === 'object' && query !== null ? (query as Record<string, unknown>)[name] : undefined
  return value === undefined ? [] : [value].flat().map(String)
}
