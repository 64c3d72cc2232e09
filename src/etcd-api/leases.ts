/** Leases of etcd: which keys they have, and how many each client holds. */
import { MAX_LEASES } from './limits.js'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import type { Key } from '../engine/model/event.js'
import type { RawUpstream } from '../engine/upstream/upstream.js'
import type { Clock } from '../support/clock.js'
import { tooManyRequests } from './etcd-error.js'
import { decode, keyIn } from './requests.js'

export const LEASE_PATHS = {
  grant: '/etcdserverpb.Lease/LeaseGrant',
  revoke: '/etcdserverpb.Lease/LeaseRevoke',
  keepAlive: '/etcdserverpb.Lease/LeaseKeepAlive',
  timeToLive: '/etcdserverpb.Lease/LeaseTimeToLive',
  leases: '/etcdserverpb.Lease/LeaseLeases',
} as const

/** Returns the id in a request, whose first field it is in all of them but a grant. Decimal text. */
export function leaseIdIn(request: Uint8Array): string {
  let id = '0'
  decode(request, { varints: { 1: (reader) => (id = String(reader.int64())) } })
  return id
}

/** Returns whether a request for the time to live also asks for the keys. */
export function wantsKeys(request: Uint8Array): boolean {
  let wants = false
  decode(request, { varints: { 2: (reader) => (wants = reader.bool()) } })
  return wants
}

/** Returns the keys of a lease in a LeaseTimeToLiveResponse. */
export function keysIn(response: Uint8Array): readonly Key[] {
  const keys: Key[] = []
  decode(response, { lengths: { 5: (reader) => keys.push(keyIn(reader)) } })
  return keys
}

/** Asks etcd for the keys of a lease; none for one that does not exist. @throws RpcError, UpstreamError */
export async function keysOfLease(raw: RawUpstream, id: string, signal: AbortSignal): Promise<readonly Key[]> {
  const request = new BinaryWriter().tag(1, WireType.Varint).int64(id).tag(2, WireType.Varint).bool(true).finish()
  return keysIn(await raw.call(LEASE_PATHS.timeToLive, request, { isRepeatable: true, signal }))
}

const MIN_SWEEP = 1_000

/**
 * Counts the leases that clients have been granted here, until they are revoked or must have expired. A lease that is
 * kept alive elsewhere is no longer counted after its first time to live.
 */
export class LeaseCount {
  readonly #clock: Clock
  readonly #held = new Map<string, Map<string, { ttlMs: number; endMs: number }>>()
  /** The number of identities at which those without leases are forgotten. */
  #sweepAt = MIN_SWEEP

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @throws EtcdError */
  assertRoom(identity: string): void {
    const held = this.#held.get(identity)
    if (held === undefined || held.size < MAX_LEASES) return
    this.#sweep(identity)
    if (held.size >= MAX_LEASES) throw tooManyRequests()
  }

  /** @param response a LeaseGrantResponse. */
  granted(identity: string, response: Uint8Array): void {
    let id = '0'
    let ttl = 0
    decode(response, {
      varints: { 2: (reader) => (id = String(reader.int64())), 3: (reader) => (ttl = Number(reader.int64())) },
    })
    const held = this.#held.get(identity) ?? new Map<string, { ttlMs: number; endMs: number }>()
    held.set(id, { ttlMs: ttl * 1000, endMs: this.#clock.monotonic() + ttl * 1000 })
    this.#held.set(identity, held)
    if (this.#held.size < this.#sweepAt) return
    for (const one of this.#held.keys()) this.#sweep(one)
    this.#sweepAt = Math.max(MIN_SWEEP, 2 * this.#held.size)
  }

  /** The number of identities that are remembered. */
  get size(): number {
    return this.#held.size
  }

  #sweep(identity: string): void {
    const nowMs = this.#clock.monotonic()
    for (const [id, { endMs }] of this.#held.get(identity) ?? []) if (endMs <= nowMs) this.ended(identity, id)
  }

  kept(identity: string, id: string): void {
    const lease = this.#held.get(identity)?.get(id)
    if (lease !== undefined) lease.endMs = this.#clock.monotonic() + lease.ttlMs
  }

  ended(identity: string, id: string): void {
    const held = this.#held.get(identity)
    held?.delete(id)
    if (held?.size === 0) this.#held.delete(identity)
  }
}
