/** `/livez`, `/readyz`, `/healthz`, each with `?verbose` and with one path per check; the forms of the API server. */
import type { FastifyInstance } from 'fastify'

export interface HealthCheck {
  /** As in `/readyz/{name}`. */
  readonly name: string
  /** null: well; else why not. */
  readonly problem: () => string | null
  /** Shown, and no reason to be unready. */
  readonly isInformational?: boolean
}

export interface HealthOptions {
  readonly livez: () => readonly HealthCheck[]
  readonly readyz: () => readonly HealthCheck[]
}

export function registerHealth(server: FastifyInstance, options: HealthOptions): void {
  const endpoints = { livez: options.livez, healthz: options.readyz, readyz: options.readyz }
  for (const [endpoint, checksOf] of Object.entries(endpoints)) {
    server.get(`/${endpoint}`, async (request, reply) => {
      const excluded = new Set([queryValues(request.query, 'exclude')].flat())
      const { ok, text } = report(
        endpoint,
        checksOf().filter(({ name }) => !excluded.has(name)),
      )
      const verbose = queryValues(request.query, 'verbose').length > 0
      return await reply
        .code(ok ? 200 : 500)
        .type('text/plain; charset=utf-8')
        .send(ok && !verbose ? 'ok' : text)
    })
    server.get<{ Params: { check: string } }>(`/${endpoint}/:check`, async (request, reply) => {
      const check = checksOf().find(({ name }) => name === request.params.check)
      if (check === undefined) return await reply.code(404).type('text/plain; charset=utf-8').send('no such check\n')
      const problem = check.problem()
      const code = problem === null || check.isInformational === true ? 200 : 500
      return await reply
        .code(code)
        .type('text/plain; charset=utf-8')
        .send(problem ?? 'ok')
    })
  }
}

function report(endpoint: string, checks: readonly HealthCheck[]): { ok: boolean; text: string } {
  let ok = true
  const lines = checks.map((check) => {
    const problem = check.problem()
    if (problem === null) return `[+]${check.name} ok`
    if (check.isInformational === true) return `[*]${check.name} not served: ${problem}`
    ok = false
    return `[-]${check.name} failed: ${problem}`
  })
  lines.push(ok ? `${endpoint} check passed` : `${endpoint} check failed`, '')
  return { ok, text: lines.join('\n') }
}

function queryValues(query: unknown, name: string): string[] {
  const value = typeof query === 'object' && query !== null ? (query as Record<string, unknown>)[name] : undefined
  return value === undefined ? [] : [value].flat().map(String)
}
