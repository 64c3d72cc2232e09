/** Writes the access log's line for a request. */
import type { IncomingMessage } from 'node:http'
import type { AuditLog, AuditRecord } from '../../auth/audit-log.js'
import type { Exchange, AccessResult } from '../exchange/exchange.js'

/**
 * Writes the line when the response is complete, since its code and latency are known only then.
 * @param isGuarded false if the server authenticates no one.
 */
export function recordAccess(
  audit: AuditLog,
  exchange: Exchange,
  found: AccessResult,
  address: string,
  isGuarded: boolean,
): void {
  exchange.response.once('close', () => audit.write(lineOf(exchange, found, address, isGuarded)))
}

/** Returns the line for a request, as far as it has come. */
export function lineOf(
  { startedMs, request, path, statusCode }: Exchange,
  { client, rule, attributes }: AccessResult,
  address: string,
  isGuarded: boolean,
): AuditRecord {
  const { verb, group, resource, subresource, namespace, name } = attributes
  const user = client?.impersonator ?? client?.user
  const impersonated =
    client === null || client.impersonator === null
      ? {}
      : { impersonatedUser: client.user.name, impersonatedGroups: client.user.groups }
  const decision = client === null ? 'unauthenticated' : rule === null ? 'forbid' : 'allow'
  return {
    user: user?.name ?? '',
    groups: user?.groups ?? [],
    ...impersonated,
    sourceAddress: address,
    userAgent: request.headers['user-agent'] ?? '',
    transport: transportOf(request),
    verb,
    group,
    resource,
    subresource,
    namespace,
    name,
    path,
    code: statusCode,
    latencySeconds: (performance.now() - startedMs) / 1000,
    decision: isGuarded ? decision : 'none',
    rule,
  }
}

function transportOf(request: IncomingMessage): string {
  if (request.headers.upgrade !== undefined) return 'websocket'
  return request.httpVersionMajor === 2 ? 'http2' : 'http1'
}
