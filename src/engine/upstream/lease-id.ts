/**
 * Lease ids. Each begins with three bytes that mark the lease as granted for a write through distributary, on any
 * replica. Such a lease may be ended when its object no longer needs it. Leases granted by others are never ended.
 */
import { randomBytes } from 'node:crypto'

/** `dis` */
const OWN = 0x646973n
const RANDOM_BITS = 40n

/** Returns decimal text, because ids exceed 2^53. */
export function newLeaseId(): string {
  return String((OWN << RANDOM_BITS) | BigInt(`0x${randomBytes(5).toString('hex')}`))
}

export function isOwnLease(leaseId: string): boolean {
  return leaseId !== '0' && BigInt(leaseId) >> RANDOM_BITS === OWN
}
