/**
 * `Impersonate-*` headers: the caller wants to act as somebody else. They are never ignored, because whoever sends them
 * (a gateway that speaks for its users) would then act with its own rights.
 */
import { ForbiddenError } from '../model/status.js'

/** @param rawHeaders names and values in turn, as they came. */
export function asksToImpersonate(rawHeaders: readonly string[]): boolean {
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (/^impersonate-/i.test(rawHeaders[i]!)) return true
  }
  return false
}

/** @throws ForbiddenError */
export function refuseImpersonation(rawHeaders: readonly string[]): void {
  if (!asksToImpersonate(rawHeaders)) return
  throw new ForbiddenError('impersonation is not possible here: a request with Impersonate-* headers is refused', {
    details: {},
  })
}
