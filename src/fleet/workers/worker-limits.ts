/**
 * A worker's end of the limits shared by all workers. The primary counts, and the worker sends it requests:
 *
 * - for each slot, before a client uses it;
 * - for an identity's requests, several at a time. Grants not used within a second are returned with the next request,
 *   so the sum over the workers is never above the rate, and only slightly below it.
 *
 * While the primary does not answer, the worker grants up to the share of one process, and reports what it granted. The
 * link keeps the order, so the primary's counts are correct again as soon as it resumes reading. Giving each worker a
 * fixed share all the time was rejected, because a client with one connection uses only one worker.
 */
import {
  type CountedRates,
  type IdentitySemaphore,
  type SemaphoreName,
  type Rates,
  type Resets,
  type SharedLimits,
} from '../../engine/model/shared-limits.js'
import { BusyError } from '../../engine/model/errors.js'
import type { Clock } from '../../support/clock.js'
import { UpstreamError } from '../../engine/upstream/upstream.js'
import type { Link } from './link.js'
import type { LimitReport, PrimaryMethods, Refusal } from './messages.js'
import { recentEntries } from '../../support/recent-entries.js'

export interface WorkerLimitsOptions {
  readonly processes: number
  readonly clock: Clock
  readonly send: (message: LimitReport) => void
  /** @throws UpstreamError when the primary does not answer; the signal's reason when it aborts. */
  readonly request: Link<never, never, Pick<PrimaryMethods, 'enter' | 'drawRequests'>>['request']
}

/** How long granted requests may remain unused. */
const GRANT_MS = 1_000
/** The most requests to draw beyond those that wait. */
const MAX_SPARE = 32
const MAX_IDENTITIES = 65_536

/** The primary's reply, or the fact that it does not reply. */
type PrimaryReply<T> = T | 'away'

/** The granted requests of one identity. */
interface Grant {
  left: number
  untilMs: number
  /** How many to draw next beyond those that wait. */
  spare: number
  waiting: number
  /** Resolves to `granted`, or to the refusal. */
  drawing: Promise<PrimaryReply<'granted' | BusyError>> | null
}

export class WorkerLimits implements SharedLimits {
  readonly processes: number
  readonly #unsentResets = new Map<string, number>()
  #resets: Resets | null = null
  #nextSlot = 1
  #isPrimarySilent = false

  constructor(private readonly options: WorkerLimitsOptions) {
    this.processes = options.processes
  }

  semaphore(name: SemaphoreName, own: IdentitySemaphore): IdentitySemaphore {
    /** Releases the slot both here and at the primary, once. */
    const held = (slot: number, leaveOwn: () => void): (() => void) => {
      let isHeld = true
      return () => {
        if (!isHeld) return
        isHeld = false
        leaveOwn()
        this.#leave(slot)
      }
    }
    const hold = (identity: string, leaveOwn: () => void): (() => void) => {
      const slot = this.#nextSlot++
      this.options.send({ kind: 'hold', slot, name, identity })
      return held(slot, leaveOwn)
    }
    return {
      get running() {
        return own.running
      },
      tryAcquire: () => null,
      hold: (identity) => hold(identity, own.hold(identity)),
      acquire: async (identity, signal) => {
        const slot = await this.#acquire(name, identity, signal)
        if (slot === 'away') return hold(identity, await own.acquire(identity, signal))
        return held(slot, own.hold(identity))
      },
    }
  }

  rates(own: CountedRates): Rates {
    const grants = recentEntries<string, Grant>(MAX_IDENTITIES)
    return {
      countRequest: (identity) => {
        if (this.#isPrimarySilent) return own.countRequest(identity)
        let grant = grants.get(identity)
        if (grant === undefined)
          grants.set(identity, (grant = { left: 0, untilMs: -1, spare: 0, waiting: 0, drawing: null }))
        if (this.#take(grant)) return
        return this.#waitForGrant(identity, grant, own)
      },
    }
  }

  resets(own: Resets): (network: string, resets: number) => void {
    this.#resets = own
    return (network, resets) => {
      if (this.#unsentResets.size === 0) setImmediate(() => this.#sendResets())
      this.#unsentResets.set(network, (this.#unsentResets.get(network) ?? 0) + resets)
    }
  }

  suspect(client: string): void {
    this.#resets?.suspect(client)
  }

  /** Called when the primary no longer answers. Requests are then decided here. */
  lose(): void {
    this.#isPrimarySilent = true
  }

  back(): void {
    this.#isPrimarySilent = false
  }

  /** @returns the number of the slot. @throws BusyError; the signal's reason when it aborts. */
  async #acquire(
    name: SemaphoreName,
    identity: string,
    signal: AbortSignal | undefined,
  ): Promise<PrimaryReply<number>> {
    signal?.throwIfAborted()
    if (this.#isPrimarySilent) return 'away'
    const slot = this.#nextSlot++
    try {
      const { value: refusal } = await this.options.request('enter', [slot, name, identity], signal)
      if (refusal === null) return slot
      throw errorOf(refusal)
    } catch (error) {
      if (error instanceof BusyError) throw error
      // The primary may have granted it, or still grant it when it resumes reading.
      this.#leave(slot)
      if (error instanceof UpstreamError) return 'away'
      throw error
    }
  }

  #leave(slot: number): void {
    this.options.send({ kind: 'leave', slot })
  }

  #take(grant: Grant): boolean {
    if (grant.left === 0 || this.options.clock.monotonic() > grant.untilMs) return false
    grant.left--
    return true
  }

  /** @throws BusyError */
  async #waitForGrant(identity: string, grant: Grant, own: CountedRates): Promise<void> {
    grant.waiting++
    try {
      while (true) {
        const reply = await (grant.drawing ??= this.#draw(identity, grant))
        if (reply === 'away') return await own.countRequest(identity)
        if (this.#take(grant)) return
        if (reply !== 'granted') throw reply
      }
    } finally {
      grant.waiting--
    }
  }

  async #draw(identity: string, grant: Grant): Promise<PrimaryReply<'granted' | BusyError>> {
    // A grant used up in time is followed by a larger one; otherwise the rest is returned.
    const isUsedUp = grant.left === 0 && this.options.clock.monotonic() <= grant.untilMs
    grant.spare = isUsedUp ? Math.min(MAX_SPARE, grant.spare * 2 + 1) : 0
    const unused = grant.left
    grant.left = 0
    try {
      const draw = { needed: grant.waiting, spare: grant.spare, unused }
      const { value: granted } = await this.options.request('drawRequests', [identity, draw])
      if (typeof granted !== 'number') return errorOf(granted)
      grant.left = granted
      grant.untilMs = this.options.clock.monotonic() + GRANT_MS
      return 'granted'
    } catch {
      return 'away'
    } finally {
      grant.drawing = null
    }
  }

  #sendResets(): void {
    for (const [network, resets] of this.#unsentResets) {
      this.options.send({ kind: 'resets', network, resets })
    }
    this.#unsentResets.clear()
  }
}

function errorOf({ message, retryAfterSeconds }: Refusal): BusyError {
  return new BusyError(message, retryAfterSeconds)
}
