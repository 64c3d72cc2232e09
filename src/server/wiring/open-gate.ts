/** Opens the request gate as configured: authentication, authorization, limits per identity, and the access log. */
import { buildAuthenticator, buildAuthorizer } from '../auth/access-control.js'
import type { JudgeHealth } from '../auth/judge-health.js'
import { AccessGuard } from '../auth/access-guard.js'
import { type AuditLog, openAuditLog } from '../auth/audit-log.js'
import { trustedProxies } from '../auth/client-address.js'
import type { Config } from '../config/load.js'
import { EscalationCheck } from '../auth/authz/escalation.js'
import { RbacRules } from '../auth/authz/rbac.js'
import { type BoundObjectsOptions, followBoundObjects } from '../served/bound-objects.js'
import { nodeRelations } from '../served/node-relations.js'
import { areRbacObjectsServed, followRbacObjects, type FollowedRbacObjects } from '../served/rbac-objects.js'
import { RequestGate } from '../transports/limits/request-gate.js'
import type { IdentitySemaphore, Rates } from '../../engine/model/shared-limits.js'
import type { HealthCheck } from '../transports/server/health.js'
import type { Basis } from './basis.js'
import { type ClientLimits, isOpenToAll } from './open-client-limits.js'
import type { ResourceStage } from './open-resources.js'

export interface GateStage {
  readonly gate: RequestGate
  /** Whether callers can be authenticated and authorized, for `/readyz`. */
  checks(): readonly HealthCheck[]
  /** Called on SIGHUP, after the platform has moved the access log. */
  reopenAuditLog(): void
}

/** @throws Error that names an unusable file. */
export function openGate(basis: Basis, stage: ResourceStage, { rates, semaphores }: ClientLimits): GateStage {
  const { config } = basis
  const guarded = isOpenToAll(config) ? null : openGuard(basis, stage, semaphores['unknown-tokens'])
  const audit = openAccessLog(basis)
  basis.closing.add(() => audit?.close())
  basis.closing.add(() => guarded?.close())
  const gate = new RequestGate({
    guard: guarded?.guard ?? null,
    escalation: guarded?.escalation ?? null,
    countRequest: (identity) => countRequest(basis, rates, identity),
    spendInitialBytes: (identity, bytes) => rates.spendInitialBytes(identity, bytes),
    proxies: trustedProxies(config.trustedProxies),
    audit,
    clock: basis.clock,
  })
  return {
    gate,
    checks: () => guarded?.checks ?? [],
    reopenAuditLog: () => audit?.reopen(),
  }
}

function openAccessLog({ config, clock, logger }: Basis): AuditLog | null {
  const { auditLogPath: path } = config
  return path === null ? null : openAuditLog({ path, clock, logger, stdout: process.stdout })
}

function openGuard(
  { config, clock, logger, metrics }: Basis,
  stage: ResourceStage,
  unknownTokens: IdentitySemaphore,
): {
  readonly guard: AccessGuard
  readonly escalation: EscalationCheck
  readonly checks: readonly HealthCheck[]
  close(): void
} {
  const judges: JudgeHealth[] = []
  const onJudge = (health: JudgeHealth): void => void judges.push(health)
  const surroundings = { clock, logger, metrics: metrics.requests, fileMetrics: metrics.process, onJudge }
  const find: BoundObjectsOptions['find'] = (plural) => stage.resources.findLive('', 'v1', plural)
  const boundObjects = followBoundObjects({ find, clock })
  const authenticator = buildAuthenticator(config, { ...surroundings, unknownTokens, boundObjects })
  const objects = rbacObjects(config, stage)
  // A server that accepts writes runs without an API server, so no controller fills aggregated roles.
  const rules = objects === null ? null : new RbacRules(objects, { isAggregating: config.enableWrites })
  const { resources, views } = stage
  const nodes = nodeRelations({
    find: (...path) => resources.findLive(...path),
    jsonOf: ({ served }, object) => views.json(served, object),
  })
  const authorizer = buildAuthorizer(config, surroundings, rules, nodes)
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
  return {
    guard,
    escalation,
    checks,
    close() {
      rules?.close()
      guard.close()
      authenticator.close()
      authorizer.close()
    },
  }
}

/**
 * Follows the roles and bindings, which have two uses. The RBAC mode decides by them. In every mode, a caller who
 * writes a role or binding may grant only permissions that the caller has.
 * @returns null if neither use applies, or if roles and bindings are not served.
 */
function rbacObjects(
  { authorizationMode, enableWrites }: Config,
  { resources, views }: ResourceStage,
): FollowedRbacObjects | null {
  const find: Parameters<typeof followRbacObjects>[0] = (...path) => resources.findLive(...path)
  const decides = authorizationMode.includes('RBAC')
  if (!decides && (!enableWrites || !areRbacObjectsServed(find))) return null
  return followRbacObjects(find, ({ served }, object) => views.json(served, object))
}

/** @throws TooManyRequestsError */
async function countRequest({ metrics }: Basis, rates: Rates, identity: string): Promise<void> {
  try {
    await rates.countRequest(identity)
  } catch (error) {
    metrics.requests.rejected('requests')
    throw error
  }
}
