/**
 * Elects the publisher of a resource, by a lease in a key-value bucket.
 *
 * A lease has run out when its revision has not changed for its whole length *by the candidate's own clock*, so that the
 * clocks of two machines are never compared. It is taken by compare-and-swap on that revision. Only a higher revision is a
 * renewal: a replica of NATS that lags, or has lost its latest writes, answers with an older one. The holder counts its time
 * from before it asked for the renewal, and gives up before anybody else can take over. So there is one publisher most of
 * the time; what makes a second one harmless is the fence in the stream, not the lease.
 */
import type { Clock, Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { Names } from './names.js'
import { BrokerError } from './broker-error.js'
import type { Buckets } from './buckets.js'

export interface ElectionOptions {
  /** Where the lease is read and swapped. */
  readonly buckets: Pick<Buckets, 'kvGet' | 'kvUpdate'>
  readonly names: Names
  readonly replicas: number
  /** The name of this process, for people to read. */
  readonly holder: string
  readonly leaseMs: number
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly onElected: () => void
  /** Called when another candidate may publish from now on: publishing has to stop before this returns. */
  readonly onLost: (reason: string) => void
}

const RELEASED = ''

interface SeenRevision {
  readonly revision: number
  /** When it was seen first. */
  readonly sinceMs: number
}

export class Election {
  readonly #options: ElectionOptions
  #timer: Timer | null = null
  #expiry: Timer | null = null
  #isStopped = true
  #isLeader = false
  /** Whether this process was elected before and could not publish. */
  #hasResigned = false
  /** The highest revision of the lease that was seen. */
  #seen: SeenRevision | null = null
  /** The highest of the revisions below `#seen` that were seen since. */
  #seenBelow: SeenRevision | null = null
  #revision = 0
  #working: Promise<void> = Promise.resolve()

  constructor(options: ElectionOptions) {
    this.#options = options
  }

  get isLeader(): boolean {
    return this.#isLeader
  }

  start(): void {
    this.#isStopped = false
    this.#schedule(this.#options.leaseMs * 0.1 * this.#options.random.next())
  }

  /** Gives the lease back, so that nobody need wait for it to run out. */
  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#timer?.cancel()
    this.#expiry?.cancel()
    await this.#working
    if (!this.#isLeader) return
    this.#isLeader = false
    await this.#write(RELEASED, this.#revision).catch(() => {})
  }

  /** Called when publishing has begun well. */
  succeeded(): void {
    this.#hasResigned = false
  }

  /** Gives the lease back, because this process cannot publish now and another may try. */
  resign(reason: string): void {
    if (!this.#isLeader || this.#isStopped) return
    const revision = this.#revision
    // The caller logs the reason, once for many attempts.
    this.#hasResigned = true
    this.#lose(reason)
    this.#working = this.#working.then(() => this.#write(RELEASED, revision).then(noop, noop))
  }

  #schedule(delayMs: number): void {
    if (this.#isStopped) return
    this.#timer?.cancel()
    this.#timer = this.#options.clock.setTimer(delayMs, () => {
      this.#working = this.#working.then(() => this.#round())
    })
  }

  async #round(): Promise<void> {
    if (this.#isStopped) return
    const { leaseMs, random } = this.#options
    if (this.#isLeader) await this.#renew()
    else await this.#tryToTake().catch(noop)
    // Jitter, so that candidates do not ask in step.
    this.#schedule((leaseMs / 4) * (0.75 + random.next() / 2))
  }

  async #renew(): Promise<void> {
    const askedAtMs = this.#options.clock.monotonic()
    try {
      this.#revision = await this.#write(this.#options.holder, this.#revision)
      this.#holdUntil(askedAtMs)
    } catch (error) {
      // Without an answer the lease stands until it runs out; `#expiry` ends it in time.
      if (error instanceof BrokerError && error.code === 'conflict') this.#lose('the lease was taken by another')
    }
  }

  async #tryToTake(): Promise<void> {
    const { buckets, names, replicas, clock, leaseMs, holder } = this.#options
    const found = await buckets.kvGet(names.bucket, names.leaseKey, replicas)
    const nowMs = clock.monotonic()
    const revision = found?.revision ?? 0
    if (found !== null && found.value.toString('utf8') !== RELEASED) {
      if (nowMs - this.#unchangedSince(revision, nowMs) < leaseMs) return
    }
    const taken = await this.#write(holder, revision)
    this.#seen = this.#seenBelow = null
    this.#revision = taken
    if (this.#isStopped) {
      await this.#write(RELEASED, taken).catch(noop)
      return
    }
    this.#isLeader = true
    this.#holdUntil(nowMs)
    const { logger } = this.#options
    logger[this.#hasResigned ? 'debug' : 'info']({ stream: names.stream, lease: taken }, 'elected to publish')
    this.#options.onElected()
  }

  /**
   * Returns when the lease was last renewed, as far as this process can know. A revision that goes back and forth between two
   * values renews nothing. But NATS can lose what it had acknowledged, and whoever holds the lease from then on renews it
   * below what was seen before: there, too, each higher revision counts.
   */
  #unchangedSince(revision: number, nowMs: number): number {
    if (this.#seen === null || revision > this.#seen.revision) {
      this.#seen = { revision, sinceMs: nowMs }
    } else if (revision < this.#seen.revision && revision > (this.#seenBelow?.revision ?? 0)) {
      this.#seenBelow = { revision, sinceMs: nowMs }
    }
    return Math.max(this.#seen.sinceMs, this.#seenBelow?.sinceMs ?? 0)
  }

  #holdUntil(askedAtMs: number): void {
    const { clock, leaseMs } = this.#options
    this.#expiry?.cancel()
    const leftMs = Math.max(0, askedAtMs + leaseMs * 0.8 - clock.monotonic())
    this.#expiry = clock.setTimer(leftMs, () => this.#lose('the lease could not be renewed in time'))
  }

  #lose(reason: string): void {
    if (!this.#isLeader) return
    this.#isLeader = false
    this.#expiry?.cancel()
    const { logger, names } = this.#options
    logger[this.#hasResigned ? 'debug' : 'warn']({ stream: names.stream, reason }, 'publishes no longer')
    this.#options.onLost(reason)
  }

  #write(value: string, expected: number): Promise<number> {
    const { buckets, names, replicas } = this.#options
    return buckets.kvUpdate(names.bucket, names.leaseKey, Buffer.from(value, 'utf8'), expected, replicas)
  }
}

function noop(): void {}
