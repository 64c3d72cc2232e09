/**
 * The leases of an embedded store. As in etcd, when a lease expires, all its keys are deleted in one revision. Leases
 * cannot be renewed, because the upstream interface has no way to do so.
 */
import type { Key } from '../../model/event.js'
import type { Clock, Timer } from '../../../support/clock.js'
import { newLeaseId } from '../lease-id.js'

interface Lease {
  readonly ttlSeconds: number
  readonly keys: Set<Key>
  readonly timer: Timer
}

export class Leases {
  readonly #clock: Clock
  readonly #onExpired: (keys: readonly Key[]) => void
  readonly #leases = new Map<string, Lease>()
  readonly #leaseOfKey = new Map<Key, string>()

  /** @param onExpired called with the sorted keys of an expired lease, if the lease has keys. */
  constructor(clock: Clock, onExpired: (keys: readonly Key[]) => void) {
    this.#clock = clock
    this.#onExpired = onExpired
  }

  has(leaseId: string): boolean {
    return this.#leases.has(leaseId)
  }

  grant(ttlSeconds: number): string {
    let leaseId: string
    do leaseId = newLeaseId()
    while (this.#leases.has(leaseId))
    this.#start(leaseId, ttlSeconds)
    return leaseId
  }

  /** Ends a lease without keys. */
  drop(leaseId: string): void {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined || lease.keys.size > 0) return
    lease.timer.cancel()
    this.#leases.delete(leaseId)
  }

  /** Called for each put. The key is attached to this lease instead of any earlier one; `'0'` means no lease. */
  attach(key: Key, leaseId: string): void {
    this.detach(key)
    if (leaseId === '0') return
    this.#leases.get(leaseId)?.keys.add(key)
    this.#leaseOfKey.set(key, leaseId)
  }

  detach(key: Key): void {
    const leaseId = this.#leaseOfKey.get(key)
    if (leaseId === undefined) return
    this.#leaseOfKey.delete(key)
    this.#leases.get(leaseId)?.keys.delete(key)
  }

  /** Returns the leases' ids and full times to live in seconds, for a backup. */
  times(): ReadonlyMap<string, number> {
    return new Map([...this.#leases].map(([leaseId, lease]) => [leaseId, lease.ttlSeconds]))
  }

  /** Restarts each lease with its full time to live, as a restored server does. The caller attaches the keys. */
  restore(times: ReadonlyMap<string, number>): void {
    this.close()
    for (const [leaseId, ttlSeconds] of times) this.#start(leaseId, ttlSeconds)
  }

  close(): void {
    for (const lease of this.#leases.values()) lease.timer.cancel()
    this.#leases.clear()
    this.#leaseOfKey.clear()
  }

  #start(leaseId: string, ttlSeconds: number): void {
    const timer = this.#clock.setTimer(ttlSeconds * 1000, () => this.#expire(leaseId))
    this.#leases.set(leaseId, { ttlSeconds, keys: new Set(), timer })
  }

  #expire(leaseId: string): void {
    const lease = this.#leases.get(leaseId)
    if (lease === undefined) return
    this.#leases.delete(leaseId)
    const keys = [...lease.keys].sort()
    for (const key of keys) this.#leaseOfKey.delete(key)
    if (keys.length > 0) this.#onExpired(keys)
  }
}
