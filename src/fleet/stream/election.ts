/**
 * Elects the publisher of a resource, with a lease in a key-value bucket.
 *
 * A lease is taken by compare-and-swap on its revision, once it is released or has expired (`lease-state.ts`).
 *
 * The holder measures the lease from the moment before it requested the renewal. When that time has passed, another
 * candidate may have the lease, so the holder is in doubt. But NATS may just be electing a leader for the bucket, and
 * then no other candidate could take the lease either. A second publisher is harmless because of the stream's fence,
 * not because of the lease. So a holder in doubt keeps writing until the stream rejects a write, but takes over no
 * other stream. Giving up at once was rejected, because then each election in NATS interrupted all other streams.
 *
 * A response from NATS may be lost after a successful write, so a candidate may hold the lease without knowing it.
 * The lease's value therefore includes a mark that no other process has. A candidate that finds its own mark continues
 * as the holder instead of waiting for its own lease to expire.
 */
import { randomBytes } from 'node:crypto'
import type { Timer } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { BrokerError, type KvEntry, type Leases } from '../broker.js'
import {
  isCertain,
  isExpired,
  isHopeless,
  type LeaseInput,
  type LeaseState,
  nextLeaseState,
  NOT_SEEN,
} from './lease-state.js'
import type { StreamContext } from './stream-context.js'

export interface ElectionOptions extends Pick<StreamContext, 'names' | 'clock' | 'random' | 'logger'> {
  /** The store in which the lease is read and swapped. */
  readonly leases: Leases
  /** Called when NATS does not answer in time. */
  readonly onLate: () => void
  /** A readable name of this process, for logs. */
  readonly holder: string
  readonly leaseMs: number
  readonly onElected: () => void
  /** Called when another candidate publishes, or publishing was given up; publishing must stop before this returns. */
  readonly onLost: (reason: string) => void
}

const RELEASED = ''
/**
 * The share of the lease within which NATS must answer, so that after a lost request there is time for more attempts.
 */
const RESPONSE_SHARE = 1 / 4

export class Election {
  #timer: Timer | null = null
  #isStopped = true
  #state: LeaseState = NOT_SEEN
  /** Why NATS last refused a request for the lease; null once a request has succeeded. */
  #refusal: string | null = null
  #working: Promise<void> = Promise.resolve()
  /** The lease's value while this process holds it: its name, and a mark that makes the value unique. */
  readonly #mine: string

  constructor(private readonly options: ElectionOptions) {
    this.#mine = `${options.holder} ${randomBytes(8).toString('hex')}`
  }

  /** Whether this process holds the lease, as far as it knows. */
  get isLeader(): boolean {
    return this.#state.kind === 'holding'
  }

  /** Whether no other candidate can hold the lease now. */
  get isCertain(): boolean {
    const { clock, leaseMs } = this.options
    return isCertain(this.#state, clock.monotonic(), leaseMs)
  }

  #next(input: LeaseInput): void {
    this.#state = nextLeaseState(this.#state, input)
  }

  start(): void {
    this.#isStopped = false
    this.#schedule(this.options.leaseMs * 0.1 * this.options.random.next())
  }

  /** Releases the lease, so that other candidates need not wait for it to expire. The election may be started again. */
  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#timer?.cancel()
    await this.#working
    if (this.#state.kind !== 'holding') return
    const { revision } = this.#state
    this.#next({ kind: 'lost' })
    await this.#inTime(this.#write(RELEASED, revision)).catch(noop)
  }

  #schedule(delayMs: number): void {
    if (this.#isStopped) return
    this.#timer?.cancel()
    this.#timer = this.options.clock.setTimer(delayMs, () => {
      this.#working = this.#working.then(() => this.#round())
    })
  }

  async #round(): Promise<void> {
    if (this.#isStopped) return
    const { leaseMs, random, clock } = this.options
    let pauseMs = leaseMs / 4
    if (isHopeless(this.#state, clock.monotonic(), leaseMs)) this.#lose('the lease could not be renewed')
    // After a lost request, little time is left to renew the lease, so the next attempt comes sooner.
    if (this.#state.kind === 'holding') pauseMs = (await this.#renew(this.#state.revision)) ? pauseMs : pauseMs / 4
    else
      await this.#tryToTake().then(
        () => (this.#refusal = null),
        (error: unknown) => this.#notTaken(error),
      )
    // Jitter keeps candidates from sending their requests in lockstep.
    this.#schedule(pauseMs * (0.75 + random.next() / 2))
  }

  /** @returns whether NATS answered. If it did not, the lease is kept until it has been in doubt for too long. */
  async #renew(revision: number): Promise<boolean> {
    try {
      await this.#renewAt(revision)
      return true
    } catch (error) {
      if (!(error instanceof BrokerError && error.code === 'conflict')) return this.#notRenewed(error)
    }
    return await this.#renewAgain().then(
      () => true,
      (error: unknown) => this.#notRenewed(error),
    )
  }

  async #renewAt(revision: number): Promise<void> {
    const requestedAtMs = this.options.clock.monotonic()
    const written = this.#write(this.#mine, revision)
    // A late response is accepted as well.
    await this.#inTime(written.then((renewed) => this.#next({ kind: 'renewed', revision: renewed, requestedAtMs })))
  }

  /**
   * Called when the lease has a revision that this process does not know. Either its own renewal went unanswered, or
   * another process took the lease.
   */
  async #renewAgain(): Promise<void> {
    const found = await this.#read()
    if (found?.value.toString('utf8') === this.#mine) {
      this.#next({ kind: 'set-back', revision: found.revision })
      await this.#renewAt(found.revision)
    } else this.#lose('another replica has taken the lease')
  }

  async #tryToTake(): Promise<void> {
    const { clock, leaseMs } = this.options
    const found = await this.#read()
    const nowMs = clock.monotonic()
    const revision = found?.revision ?? 0
    const value = found?.value.toString('utf8') ?? RELEASED
    if (value !== RELEASED && value !== this.#mine) {
      this.#next({ kind: 'read', revision, nowMs, leaseMs })
      if (!isExpired(this.#state, nowMs, leaseMs)) return
    }
    const taken = await this.#inTime(this.#write(this.#mine, revision))
    if (this.#isStopped) {
      await this.#write(RELEASED, taken).catch(noop)
      return
    }
    this.#next({ kind: 'taken', revision: taken, requestedAtMs: nowMs })
    this.options.onElected()
  }

  /**
   * Logs a refusal. NATS may have no room for leases, or fewer servers than replicas, and only an operator can change
   * that.
   */
  #notTaken(error: unknown): void {
    if (!(error instanceof BrokerError)) return this.#bug(error)
    if (error.code !== 'refused' || error.message === this.#refusal) return
    this.#refusal = error.message
    const { logger, names } = this.options
    logger.warn({ stream: names.stream, reason: error.message }, 'NATS refuses the publisher lease; retrying')
  }

  #notRenewed(error: unknown): false {
    if (!(error instanceof BrokerError)) this.#bug(error)
    return false
  }

  #bug(error: unknown): void {
    const { logger, names } = this.options
    logger.error({ stream: names.stream, err: error }, 'unexpected error in an election')
  }

  #lose(reason: string): void {
    if (!this.isLeader) return
    this.#next({ kind: 'lost' })
    this.options.onLost(reason)
  }

  #read(): Promise<KvEntry | null> {
    const { leases, names } = this.options
    return this.#inTime(leases.kvGet(names.leaseKey))
  }

  #write(value: string, expected: number): Promise<number> {
    const { leases, names } = this.options
    return leases.kvUpdate(names.leaseKey, Buffer.from(value, 'utf8'), expected)
  }

  /** @throws BrokerError `unavailable` when there is no response in time; the request may still be performed. */
  #inTime<T>(request: Promise<T>): Promise<T> {
    const { onLate, clock, leaseMs } = this.options
    const late = (): Error => {
      onLate()
      return new BrokerError('unavailable', 'NATS did not answer in time')
    }
    return withDeadline(clock, leaseMs * RESPONSE_SHARE, undefined, late, () => request)
  }
}

function noop(): void {}
