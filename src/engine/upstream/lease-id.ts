/**
 * The ids of leases. Each begins with three bytes of this project's, so that an object's lease is known to be one that
 * a write here has granted, by whichever replica, and may be ended when the object needs it no more. A lease that
 * anybody else has granted is never ended.
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
