/**
 * Elects one of several processes with a Lease. The holder renews the Lease, and another process takes over if the
 * Lease was not renewed within its duration.
 *
 * Durations are measured by this machine's own monotonic clock, from the moment a change of the Lease was observed. The
 * times inside the Lease are only for people to read. So the clocks of several machines need not agree, but only run at
 * about the same rate. As with every lease, a paused leader may wake up after another process took over. Work that must
 * not overlap must therefore check `isLeader` before each step, and let the server reject stale writes by their
 * resourceVersion.
 *
 * Source: client-go `tools/leaderelection`, whose times and jitter are the defaults. One difference: the time for which
 * the Lease is held starts before the renewal request, not after its response.
 */
import { activeClock } from './reflector/active-clock.js'
import { notifyUser } from './reflector/notify-user.js'
import { WatchFailure } from './reflector/watch-failure.js'
import type { Transport } from './reflector/transport.js'
import { type Clock, sleep } from '../support/clock.js'
import { errorMessage } from '../support/error-message.js'
import { type Logger, silentLogger } from '../support/log.js'
import { type Random, systemRandom } from '../support/random.js'
import { requestJson } from './request-json.js'
import { resourcePath } from './resource-path.js'

/** The Lease, the identity of this process, and the times. */
export interface LeaderElectionOptions {
  readonly transport: Transport
  readonly name: string
  readonly namespace: string
  /** Unique per process, such as the name of the pod, because two processes with the same identity would both lead. */
  readonly identity: string
  /** How long others wait after the last renewal that they saw. Default: 15 s; whole seconds. */
  readonly leaseDurationMs?: number
  /** How long the leader continues without a successful renewal. Default: 10 s; below `leaseDurationMs`. */
  readonly renewDeadlineMs?: number
  /**
   * The time between two attempts. Default: 2 s; processes other than the leader add up to 1.2 times as much at random.
   */
  readonly retryPeriodMs?: number
  /** Called when a process becomes leader, including this one. An error thrown here is logged. */
  onLeader?(identity: string): void
  readonly clock?: Clock
  readonly random?: Random
  readonly logger?: Logger
}

/** `done`: the work ended. `lost`: another process may lead now. `aborted`: the signal aborted. */
export type ElectionOutcome = 'done' | 'lost' | 'aborted'

interface LeaseSpec {
  readonly holderIdentity?: string
  readonly leaseDurationSeconds?: number
  readonly acquireTime?: string
  readonly renewTime?: string
  readonly leaseTransitions?: number
}

interface Lease {
  readonly apiVersion: 'coordination.k8s.io/v1'
  readonly kind: 'Lease'
  readonly metadata: { readonly name: string; readonly namespace: string; readonly resourceVersion?: string }
  readonly spec?: LeaseSpec
}

/**
 * client-go's value. To spread the attempts of many candidates, each waits up to this many additional retry periods, at
 * random.
 */
const JITTER = 1.2

/** One candidate of an election. */
export class LeaderElection {
  readonly #options: LeaderElectionOptions
  readonly #leaseMs: number
  readonly #renewMs: number
  readonly #retryMs: number
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #path: string
  /** The Lease as last seen, and when it was first seen in that state. */
  #seen: Lease | null = null
  #seenAtMs = 0
  /** When the request that last made or kept this process the leader was sent; null if it is not the leader. */
  #heldSinceMs: number | null = null
  /** The same by the time of day. */
  #heldSinceDateMs = 0
  #reportedLeader = ''
  #isRunning = false

  /** @throws Error for inconsistent times, and for a missing name or identity. */
  constructor(options: LeaderElectionOptions) {
    this.#options = options
    const { name, namespace, identity } = options
    this.#leaseMs = options.leaseDurationMs ?? 15_000
    this.#renewMs = options.renewDeadlineMs ?? 10_000
    this.#retryMs = options.retryPeriodMs ?? 2_000
    if (name === '' || namespace === '' || identity === '') throw new Error('name, namespace and identity are required')
    if (!(this.#leaseMs >= 1_000) || this.#leaseMs % 1_000 !== 0) {
      throw new Error(`leaseDurationMs must be a positive multiple of 1,000, not ${this.#leaseMs}`)
    }
    if (!(this.#renewMs < this.#leaseMs)) throw new Error('renewDeadlineMs must be below leaseDurationMs')
    if (!(this.#retryMs > 0 && this.#retryMs * JITTER < this.#renewMs)) {
      throw new Error(`retryPeriodMs must be above 0, and ${JITTER} times it below renewDeadlineMs`)
    }
    this.#clock = options.clock ?? activeClock
    this.#logger = options.logger ?? silentLogger
    this.#path = resourcePath({ group: 'coordination.k8s.io', plural: 'leases', namespace, name })
  }

  /**
   * Whether this process certainly leads. Becomes false as soon as the last renewal has expired, even if this process
   * is too busy to notice, or its machine was suspended.
   */
  get isLeader(): boolean {
    if (this.#heldSinceMs === null) return false
    // On Linux, the monotonic time does not advance while the machine is suspended.
    const passedMs = Math.max(this.#clock.monotonic() - this.#heldSinceMs, this.#clock.now() - this.#heldSinceDateMs)
    return passedMs < this.#leaseMs
  }

  /** The identity of the last leader seen; '' before the first, and after a leader released the Lease. */
  get leader(): string {
    return this.#seen?.spec?.holderIdentity ?? ''
  }

  /**
   * Waits until this process leads, then does the work and renews the Lease until the work ends. Finally it releases
   * the Lease, so that other candidates need not wait.
   *
   * @param work receives a signal that aborts when the leadership is lost or `signal` aborts. The election always waits
   * for the work to end, so the work should end soon after that.
   * @throws any error that the work throws while this process leads.
   */
  async run(
    work: (signal: AbortSignal) => Promise<void> | void,
    { signal = new AbortController().signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<ElectionOutcome> {
    if (this.#isRunning) throw new Error('this election is already running')
    this.#isRunning = true
    try {
      if (!(await this.#acquire(signal))) return 'aborted'
      return await this.#lead(work, signal)
    } finally {
      this.#isRunning = false
    }
  }

  /** Returns false when the signal aborted. */
  async #acquire(signal: AbortSignal): Promise<boolean> {
    const random = this.#options.random ?? systemRandom
    while (!signal.aborted) {
      if (await this.#attempt(this.#renewMs, signal)) {
        if (!signal.aborted) return true
        await this.#release()
        return false
      }
      await sleep(this.#clock, this.#retryMs * (1 + JITTER * random.next()), signal)
    }
    return false
  }

  async #lead(work: (signal: AbortSignal) => Promise<void> | void, signal: AbortSignal): Promise<ElectionOutcome> {
    let isLost = false
    const ended = new AbortController()
    const leading = new AbortController()
    // Not `AbortSignal.any`: on Node 20 each call leaves something behind with a signal that lives long.
    const onAbort = (): void => leading.abort(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    // The renewals have their own signal, which ends them when the work ends. So they continue while aborted work
    // cleans up.
    const renewing = this.#renew(ended.signal).then((outcome) => {
      if (outcome !== 'lost') return
      isLost = true
      leading.abort(new Error(`the lease ${this.#options.name} was lost`))
    })
    try {
      await work(leading.signal)
    } catch (error) {
      if (!leading.signal.aborted) throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
      ended.abort()
      await renewing
      if (!isLost) await this.#release()
      this.#heldSinceMs = null
    }
    return isLost ? 'lost' : signal.aborted ? 'aborted' : 'done'
  }

  async #renew(ended: AbortSignal): Promise<'lost' | 'ended'> {
    for (;;) {
      await sleep(this.#clock, this.#retryMs, ended)
      if (ended.aborted) return 'ended'
      const leftMs = (this.#heldSinceMs ?? -Infinity) + this.#renewMs - this.#clock.monotonic()
      if (leftMs > 0 && (await this.#attempt(leftMs, ended))) continue
      if (ended.aborted) return 'ended'
      // After a failed attempt this process continues, unless another process was seen to hold the Lease.
      const isOver = this.#clock.monotonic() - (this.#heldSinceMs ?? -Infinity) >= this.#renewMs
      if (this.#heldSinceMs === null || isOver) {
        this.#heldSinceMs = null
        this.#logger.warn({ lease: this.#options.name, leader: this.leader }, 'the lease was lost')
        return 'lost'
      }
    }
  }

  /**
   * Takes or keeps the Lease if it is free or already ours. Never throws; returns false on any failure, including a
   * timeout.
   */
  async #attempt(timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#within(timeoutMs, signal, (limited) => this.#takeOrKeep(limited))
    } catch (error) {
      // 409: another candidate was faster. Its Lease is read next time.
      this.#logger.debug({ lease: this.#options.name, error: errorMessage(error) }, 'the lease could not be acquired')
      return false
    }
  }

  async #within<R>(
    timeoutMs: number,
    signal: AbortSignal | null,
    work: (limited: AbortSignal) => Promise<R>,
  ): Promise<R> {
    const limit = new AbortController()
    const timer = this.#clock.setTimer(timeoutMs, () => limit.abort(new Error(`no answer within ${timeoutMs} ms`)))
    const onAbort = (): void => limit.abort(signal?.reason)
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      return await work(limit.signal)
    } finally {
      timer.cancel()
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** Returns null if there is none. */
  async #read(signal: AbortSignal): Promise<Lease | null> {
    let lease: Lease | null = null
    try {
      lease = await requestJson<Lease>(this.#options.transport, { path: this.#path, signal })
    } catch (error) {
      if (!(error instanceof WatchFailure) || error.code !== 404) throw error
    }
    this.#observe(lease)
    return lease
  }

  async #write(lease: Lease, signal: AbortSignal): Promise<void> {
    const isNew = lease.metadata.resourceVersion === undefined
    const path = isNew ? this.#path.slice(0, this.#path.lastIndexOf('/')) : this.#path
    const method = isNew ? 'POST' : 'PUT'
    // Because of the resourceVersion, the server rejects the update if the Lease has changed in the meantime.
    this.#observe(await requestJson<Lease>(this.#options.transport, { method, path, body: lease, signal }))
  }

  async #takeOrKeep(signal: AbortSignal): Promise<boolean> {
    const { name, namespace, identity } = this.#options
    const found = await this.#read(signal)
    const sentAtMs = this.#clock.monotonic()
    const sentAtDateMs = this.#clock.now()
    const spec = found?.spec ?? {}
    const isOurs = spec.holderIdentity === identity
    if (!isOurs) this.#heldSinceMs = null
    if (found !== null && !isOurs && this.#isHeld(spec, sentAtMs)) return false
    const now = microTime(sentAtDateMs)
    const lease: Lease = {
      ...(found ?? { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name, namespace } }),
      spec: {
        ...spec,
        holderIdentity: identity,
        leaseDurationSeconds: this.#leaseMs / 1_000,
        acquireTime: isOurs ? (spec.acquireTime ?? now) : now,
        renewTime: now,
        leaseTransitions: (spec.leaseTransitions ?? 0) + (found === null || isOurs ? 0 : 1),
      },
    }
    await this.#write(lease, signal)
    this.#heldSinceMs = sentAtMs
    this.#heldSinceDateMs = sentAtDateMs
    return true
  }

  /** Whether the Lease's holder may still lead, because the Lease was seen to change less than its own duration ago. */
  #isHeld({ holderIdentity = '', leaseDurationSeconds = 0 }: LeaseSpec, nowMs: number): boolean {
    return holderIdentity !== '' && nowMs - this.#seenAtMs < leaseDurationSeconds * 1_000
  }

  #observe(lease: Lease | null): void {
    const isSame = lease !== null && lease.metadata.resourceVersion === this.#seen?.metadata.resourceVersion
    if (!isSame) this.#seenAtMs = this.#clock.monotonic()
    this.#seen = lease
    const leader = this.leader
    if (leader === '' || leader === this.#reportedLeader) return
    this.#reportedLeader = leader
    this.#logger.info({ lease: this.#options.name, leader }, 'new leader')
    notifyUser('onLeader', this.#options.logger, () => this.#options.onLeader?.(leader))
  }

  /**
   * Releases the Lease if it is still ours. Never throws. If this fails, the other candidates just wait until the Lease
   * expires.
   */
  async #release(): Promise<void> {
    this.#heldSinceMs = null
    try {
      await this.#within(this.#renewMs, null, async (limited) => {
        // The server may have stored a renewal that was aborted here.
        const found = await this.#read(limited)
        if (found === null || this.leader !== this.#options.identity) return
        const now = microTime(this.#clock.now())
        const { leaseTransitions = 0 } = found.spec ?? {}
        const spec = { holderIdentity: '', leaseDurationSeconds: 1, acquireTime: now, renewTime: now, leaseTransitions }
        await this.#write({ ...found, spec }, limited)
      })
    } catch (error) {
      this.#logger.debug({ lease: this.#options.name, error: errorMessage(error) }, 'the lease could not be released')
    }
  }
}

/** Formats a MicroTime of the API: `2026-11-22T13:00:00.000000Z`. */
function microTime(epochMs: number): string {
  return new Date(epochMs).toISOString().replace('Z', '000Z')
}
