/** Opens the request gate as configured: authentication, authorization, limits per identity, and the access log. */
import { buildAuthenticator, buildAuthorizer } from '../auth/access-control.js'
import type { JudgeHealth } from '../auth/judge-health.js'
import { AccessGuard } from '../auth/access-guard.js'
import { openAuditLog } from '../auth/audit-log.js'
import { trustedProxies } from '../auth/client-address.js'
import type { Config } from '../config/load.js'
import { EscalationCheck } from '../auth/authz/escalation.js'
import { RbacRules } from '../auth/authz/rbac.js'
import { type BoundObjectsOptions, followBoundObjects } from '../served/bound-objects.js'
import { type FindLive, type JsonOf, nodeRelations } from '../served/node-relations.js'
import { areRbacObjectsServed, followRbacObjects, type FollowedRbacObjects } from '../served/rbac-objects.js'
import { RequestGate } from '../transports/gate/request-gate.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { HealthCheck } from '../transports/server/health.js'
import type { ServerDeps } from './server-deps.js'
import { type ClientLimits, isOpenToAll } from './open-client-limits.js'
import type { ResourceStage } from './open-resources.js'

export type GateStage = Readonly<ReturnType<typeof openGate>>

/** @throws Error that names an unusable file. */
export function openGate(deps: ServerDeps, stage: ResourceStage, { rates, semaphores }: ClientLimits) {
  const { config, clock, logger, metrics, closing } = deps
  const { auditLogPath: path } = config
  const audit = path === null ? null : openAuditLog({ path, clock, logger, stdout: process.stdout })
  closing.add(() => audit?.close())
  const guarded = isOpenToAll(config) ? null : openGuard(deps, stage, semaphores['unknown-tokens'])
  const gate = new RequestGate({
    guard: guarded?.guard ?? null,
    escalation: guarded?.escalation ?? null,
    countRequest: async (identity) => {
      try {
        await rates.countRequest(identity)
      } catch (error) {
        metrics.requests.rejected('requests')
        throw error
      }
    },
    proxies: trustedProxies(config.trustedProxies),
    audit,
    clock,
  })
  return {
    gate,
    /** Whether callers can be authenticated and authorized, for `/readyz`. */
    checks: () => guarded?.checks ?? [],
    /** Called on SIGHUP, after the platform has moved the access log. */
    reopenAuditLog: () => audit?.reopen(),
  }
}

function openGuard(
  { config, clock, logger, metrics, closing }: ServerDeps,
  { resources, views }: ResourceStage,
  unknownTokens: IdentitySemaphore,
) {
  const findLive: FindLive = (...path) => resources.findLive(...path)
  const jsonOf: JsonOf = ({ served }, object) => views.json(served, object)
  const judges: JudgeHealth[] = []
  const onJudge = (health: JudgeHealth): void => void judges.push(health)
  const deps = { clock, logger, metrics: metrics.requests, fileMetrics: metrics.process, onJudge }
  const find: BoundObjectsOptions['find'] = (plural) => findLive('', 'v1', plural)
  const boundObjects = followBoundObjects({ find, isSourceJudge: config.upstream !== null, clock })
  const authenticator = buildAuthenticator(config, { ...deps, unknownTokens, boundObjects })
  const objects = rbacObjects(config, findLive, jsonOf)
  // A server that accepts writes runs without an API server, so no controller fills aggregated roles.
  const rules = objects === null ? null : new RbacRules(objects, { isAggregating: config.enableWrites })
  const nodes = nodeRelations({ find: findLive, jsonOf })
  const authorizer = buildAuthorizer(config, deps, rules, nodes)
  const guard = new AccessGuard({ authenticator, authorizer, clock, logger, metrics: metrics.requests })
  const escalation = new EscalationCheck({ authorizer, rules, refresh: async () => await objects?.refresh() })
  // A failing webhook is not a reason to be unready, because other replicas use the same webhooks, and callers with
  // cached decisions are still served.
  const checks: HealthCheck[] = judges.map((health) => ({
    name: `judge-${health.webhook}`,
    problem: () => health.problem,
    isInformational: true,
    informs: 'cannot check callers',
  }))
  // Without roles and bindings every caller gets 503, so such a server must not receive any callers.
  if (config.authorizationMode.includes('RBAC'))
    checks.push({ name: 'authorization-rbac', problem: () => rules?.unread ?? null })
  for (const part of [authorizer, authenticator, guard, rules]) closing.add(() => part?.close())
  return { guard, escalation, checks }
}

/**
 * Follows the roles and bindings, which have two uses. The RBAC mode decides by them. In every mode, a caller who
 * writes a role or binding may grant only permissions that the caller has.
 * @returns null if neither use applies, or if roles and bindings are not served.
 */
function rbacObjects(
  { authorizationMode, enableWrites }: Config,
  find: FindLive,
  jsonOf: JsonOf,
): FollowedRbacObjects | null {
  const decides = authorizationMode.includes('RBAC')
  return decides || (enableWrites && areRbacObjectsServed(find)) ? followRbacObjects(find, jsonOf) : null
}
