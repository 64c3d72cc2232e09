/**
 * Sends the publisher's status once a second and on request: the end of the stream, how old that is, and whether etcd
 * answers.
 *
 * The age counts from the newest request to etcd (`etcd-pulse.ts`) sent after the feed had caught up, once the stream
 * has everything that etcd had sent before its answer. The arrival of an event proves nothing: it may have waited while
 * this process was stopped.
 */
import type { Key } from '../../engine/model/event.js'
import type { Timer } from '../../support/clock.js'
import type { Broker } from '../broker.js'
import type { EtcdPulse } from './etcd-pulse.js'
import type { PublisherStatus } from './publisher-status.js'
import type { StreamContext } from './stream-context.js'

/** An answer from etcd that proves how old the stream is, once it has everything that came before. */
interface Proof {
  readonly askedAtMs: number
  /** The number of items received before the answer. */
  readonly received: number
}

export interface StatusSenderOptions extends Pick<StreamContext, 'names' | 'envelope' | 'clock'> {
  readonly client: Pick<Broker, 'publish'>
  /** The keys that the pulse may read. */
  readonly prefix: Key
  readonly pulse: EtcdPulse
  /** Returns the message up to which the stream is known to have everything. */
  readonly position: () => { readonly epoch: number; readonly sequence: number }
  /** Called after each regular status. */
  readonly onTold: () => void
}

const INTERVAL_MS = 1_000
/** A status waits no longer than this for etcd's answer. */
const PULSE_PATIENCE_MS = 300
/** And no longer than this until the stream has what came before that answer. */
const WRITE_PATIENCE_MS = 300
/** A request sent before the feed had caught up proves nothing; the next one follows after this. */
const ASK_AGAIN_MS = 500
/** The most answers that wait for the stream, one a second; beyond it the newest replaces the previous one. */
const MOST_PROOFS = 64
/** The shortest time between two statuses: edges that start together all request one at once. */
const REQUEST_GAP_MS = 200

export class StatusSender {
  readonly #options: StatusSenderOptions
  readonly #stopping = new AbortController()
  #timer: Timer | null = null
  #saidMs = Number.NEGATIVE_INFINITY
  readonly #session: number
  #trouble: PublisherStatus['trouble'] = null
  /** Whether the feed has proven that it has caught up with etcd. Continuing a stream does not prove it. */
  #isCaughtUp = false
  #caughtUpAtMs = 0
  /** The monotonic time at which etcd had nothing that the stream lacks now. */
  #vouchedMs: number | null = null
  /** The number of items received from etcd, and how many of them the stream has. */
  #received = 0
  #written = 0
  /** Oldest first. */
  #proofs: Proof[] = []
  /** Ends a regular status's wait for the stream. */
  #patience: Timer | null = null

  constructor(options: StatusSenderOptions) {
    this.#options = options
    this.#session = options.clock.now()
  }

  get trouble(): PublisherStatus['trouble'] {
    return this.#trouble
  }

  /** The age of the stream, in milliseconds; null before the first proof. */
  get ageMs(): number | null {
    return this.#vouchedMs === null ? null : this.#options.clock.monotonic() - this.#vouchedMs
  }

  start(): void {
    this.#tellIn(0)
  }

  stop(): void {
    this.#stopping.abort()
    this.#timer?.cancel()
    this.#patience?.cancel()
  }

  /** Sends a status soon, because an edge asked. */
  request(): void {
    this.#tellIn(Math.max(0, this.#saidMs + REQUEST_GAP_MS - this.#options.clock.monotonic()))
  }

  /** Called when the feed has caught up with etcd. */
  caughtUp(): void {
    this.#trouble = null
    if (!this.#isCaughtUp) this.#caughtUpAtMs = this.#options.clock.monotonic()
    this.#isCaughtUp = true
    if (this.#timer !== null) this.#tellIn(0)
  }

  /** Called when the feed relists: it must prove again that it has caught up. */
  fellBehind(): void {
    this.#isCaughtUp = false
  }

  /** Called when etcd is unreachable, or refuses. */
  troubled(reason: string, isRefusal: boolean): void {
    this.#trouble = { reason, isRefusal }
    this.#isCaughtUp = false
    this.#publish()
  }

  /** Called when something to be published has arrived from etcd. */
  received(): void {
    this.#received++
  }

  /** Called when the stream has the next of these. */
  published(): void {
    this.#written++
    // If NATS is far away, the regular status was sent before the stream had what it needs.
    const wasTold = this.#patience === null && this.#proofs.length > 0
    this.#settle()
    if (wasTold && this.#proofs.length === 0) this.#publish()
  }

  #tellIn(delayMs: number): void {
    if (this.#stopping.signal.aborted) return
    this.#timer?.cancel()
    this.#timer = this.#options.clock.setTimer(delayMs, () => void this.#tell())
  }

  async #tell(): Promise<void> {
    const { pulse, prefix, clock } = this.#options
    this.#tellIn(INTERVAL_MS)
    await pulse.beat(prefix, PULSE_PATIENCE_MS, this.#stopping.signal)
    if (this.#stopping.signal.aborted) return
    this.#answered(pulse.askedAtMs)
    this.#patience?.cancel()
    this.#patience = null
    if (this.#proofs.length === 0) this.#tellRegularly()
    else this.#patience = clock.setTimer(WRITE_PATIENCE_MS, () => this.#tellRegularly())
  }

  #tellRegularly(): void {
    this.#patience?.cancel()
    this.#patience = null
    this.#publish()
    this.#options.onTold()
  }

  #answered(askedAtMs: number | null): void {
    if (!this.#isCaughtUp) return
    if (askedAtMs === null || askedAtMs < this.#caughtUpAtMs) return this.#tellIn(ASK_AGAIN_MS)
    if (this.#proofs.length === MOST_PROOFS) this.#proofs.pop()
    this.#proofs.push({ askedAtMs, received: this.#received })
    this.#settle()
  }

  /** Settles the proofs for which the stream has what they need. */
  #settle(): void {
    if (this.#proofs.length === 0) return
    const waiting = this.#proofs.findIndex(({ received }) => received > this.#written)
    const taken = this.#proofs.splice(0, waiting === -1 ? this.#proofs.length : waiting)
    for (const { askedAtMs } of taken) this.#vouchedMs = Math.max(this.#vouchedMs ?? askedAtMs, askedAtMs)
    if (this.#proofs.length === 0 && this.#patience !== null) this.#tellRegularly()
  }

  #publish(): void {
    if (this.#stopping.signal.aborted) return
    const { client, names, envelope, clock, position } = this.#options
    const { epoch, sequence } = position()
    this.#saidMs = clock.monotonic()
    const status: PublisherStatus = {
      epoch,
      session: this.#session,
      sequence,
      at: this.#saidMs,
      ageMs: this.ageMs,
      trouble: this.#trouble,
    }
    client.publish(names.status, envelope.seal('status', '', Buffer.from(JSON.stringify(status))))
  }
}
