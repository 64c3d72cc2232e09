/** The gate, put together from the configuration: who is asked, what is allowed, how much, and what is written down. */
import { buildAuthenticator, buildAuthorizer } from '../auth/access-control.js'
import { AccessGuard } from '../auth/access-guard.js'
import { type AuditLog, openAuditLog } from '../auth/audit-log.js'
import type { RbacSource } from '../auth/authz/rbac.js'
import { trustedProxies } from '../auth/client-address.js'
import { IdentityLimits } from '../auth/limits.js'
import type { Config } from '../config/load.js'
import { hasAuthenticator } from '../config/relations.js'
import type { Clock } from '../support/clock.js'
import type { Logger } from '../support/log.js'
import { RequestGate } from '../transports/limits/request-gate.js'

export interface AccessOptions {
  readonly config: Config
  readonly clock: Clock
  readonly logger: Logger
  /** Asked for in the RBAC mode only. */
  readonly rbacSource: () => RbacSource
  readonly onRejected: (limit: string) => void
}

export interface Access {
  readonly gate: RequestGate
  /** null: everybody is let in. */
  readonly guard: AccessGuard | null
  /** After the platform has moved the audit log. */
  reopenAuditLog(): void
  close(): Promise<void>
}

/** Nobody is asked who they are, and everything is allowed. */
export function isOpenToAll(config: Config): boolean {
  return !hasAuthenticator(config) && config.authorizationMode.every((mode) => mode === 'AlwaysAllow')
}

/** @throws Error that names a file which is not what it should be. */
export function openAccess({ config, clock, logger, rbacSource, onRejected }: AccessOptions): Access {
  const isOpen = isOpenToAll(config)
  const surroundings = { clock, logger }
  let guard: AccessGuard | null = null
  let end = (): void => {}
  if (!isOpen) {
    const authenticator = buildAuthenticator(config, surroundings)
    const rbac = config.authorizationMode.includes('RBAC') ? rbacSource() : null
    const authorizer = buildAuthorizer(config, surroundings, rbac)
    guard = new AccessGuard({ authenticator, authorizer, clock })
    end = () => {
      guard?.close()
      authenticator.close()
      authorizer.close()
    }
  }
  const limits = new IdentityLimits({
    clock,
    requestsPerSecond: config.requestsPerSecond,
    initialBytesPerSecond: config.initialBytesPerSecond,
  })
  const audit: AuditLog | null =
    config.auditLogPath === null
      ? null
      : openAuditLog({ path: config.auditLogPath, clock, logger, stdout: process.stdout })
  const gate = new RequestGate({
    guard,
    countRequest: (identity) => {
      // Addresses are no identities: a proxy or a NAT is thousands of clients.
      if (isOpen) return
      try {
        limits.countRequest(identity)
      } catch (error) {
        onRejected('requests')
        throw error
      }
    },
    spendInitialBytes: (identity, bytes) => limits.spendInitialBytes(identity, bytes),
    proxies: trustedProxies(config.trustedProxies),
    audit,
  })
  return {
    gate,
    guard,
    reopenAuditLog: () => audit?.reopen(),
    async close() {
      end()
      await audit?.close()
    },
  }
}
