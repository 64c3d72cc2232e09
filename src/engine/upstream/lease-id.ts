/**
 * Lease ids. Each begins with three bytes that mark a lease granted by a write of distributary, on any replica, so that
 * it may be ended when its object no longer needs it. Leases granted by others are never ended.
 */
import { randomBytes } from 'node:crypto'

/** `dis` */
const OWN = 0x646973n
const RANDOM_BITS = 40n

/** Decimal text: ids exceed 2^53. */
export function newLeaseId(): string {
  return String((OWN << RANDOM_BITS) | BigInt(`0x${randomBytes(5).toString('hex')}`))
}

export function isOwnLease(leaseId: string): boolean {
  return leaseId !== '0' && BigInt(leaseId) >> RANDOM_BITS === OWN
}
