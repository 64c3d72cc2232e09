/**
 * Sends the publisher's status once a second, and when an edge asks: how far the stream is, how old that is, and whether etcd
 * is there.
 *
 * The age counts from etcd's newest answer (`etcd-pulse.ts`) at which the feed had caught up with etcd, or from the arrival of
 * the oldest event that is not yet in the stream, whichever is earlier.
 */
import type { Key } from '../../model/event.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Envelope } from './envelope.js'
import type { EtcdPulse } from './etcd-pulse.js'
import type { NatsClient } from './nats-client.js'
import type { PublisherStatus } from './publisher-status.js'

/** Something that is known from etcd and is not in the stream yet. */
export interface Unpublished {
  readonly sinceMs: number
}

export interface StatusSenderOptions {
  readonly client: Pick<NatsClient, 'publish'>
  readonly subject: string
  readonly envelope: Envelope
  /** The keys that the pulse may read. */
  readonly prefix: Key
  readonly pulse: EtcdPulse
  readonly clock: Clock
  /** Returns the message up to which the stream is known to have everything. */
  readonly position: () => { readonly epoch: number; readonly sequence: number }
  /** Called after each regular status. */
  readonly onTold: () => void
}

const INTERVAL_MS = 1_000
/** A status waits no longer than this for etcd's answer. */
const PULSE_PATIENCE_MS = 300
/** The shortest time between two statuses: edges that start together all ask for one at once. */
const REQUEST_GAP_MS = 200

export class StatusSender {
  readonly #options: StatusSenderOptions
  readonly #stopping = new AbortController()
  #timer: Timer | null = null
  #saidMs = Number.NEGATIVE_INFINITY
  #trouble: PublisherStatus['trouble'] = null
  /** Whether the feed has proven that it has caught up with etcd. Continuing a stream does not prove it. */
  #isCaughtUp = false
  /** The feed has handed over everything that etcd had at this time, by the monotonic clock. */
  #vouchedMs: number | null = null
  /** Oldest first. */
  readonly #unpublished = new Set<Unpublished>()

  constructor(options: StatusSenderOptions) {
    this.#options = options
  }

  get trouble(): PublisherStatus['trouble'] {
    return this.#trouble
  }

  start(): void {
    this.#tellIn(0)
  }

  stop(): void {
    this.#stopping.abort()
    this.#timer?.cancel()
  }

  /** Sends a status soon, because an edge asked. */
  request(): void {
    this.#tellIn(Math.max(0, this.#saidMs + REQUEST_GAP_MS - this.#options.clock.monotonic()))
  }

  /** Called when the feed has caught up with etcd. */
  caughtUp(): void {
    this.#trouble = null
    this.#isCaughtUp = true
    if (this.#timer !== null) this.#tellIn(0)
  }

  /** Called when the feed lists anew: it has to prove again that it has caught up. */
  fellBehind(): void {
    this.#isCaughtUp = false
  }

  /** Called when etcd is away, or refuses. */
  troubled(reason: string, isRefusal: boolean): void {
    this.#trouble = { reason, isRefusal }
    this.#isCaughtUp = false
    this.#publish()
  }

  /** Called when something has come from etcd that is to be published. */
  received(item: Unpublished): void {
    this.#unpublished.add(item)
  }

  /** Called when the stream has it. */
  published(item: Unpublished): void {
    this.#unpublished.delete(item)
  }

  #tellIn(delayMs: number): void {
    if (this.#stopping.signal.aborted) return
    this.#timer?.cancel()
    this.#timer = this.#options.clock.setTimer(delayMs, () => void this.#tell())
  }

  async #tell(): Promise<void> {
    const { pulse, prefix, onTold } = this.#options
    this.#tellIn(INTERVAL_MS)
    await pulse.beat(prefix, PULSE_PATIENCE_MS, this.#stopping.signal)
    if (this.#stopping.signal.aborted) return
    this.#publish()
    onTold()
  }

  #publish(): void {
    if (this.#stopping.signal.aborted) return
    const { client, subject, envelope, clock, position } = this.#options
    const { epoch, sequence } = position()
    this.#saidMs = clock.monotonic()
    const status: PublisherStatus = {
      epoch,
      sequence,
      at: this.#saidMs,
      ageMs: this.#ageMs(),
      trouble: this.#trouble,
    }
    client.publish(subject, envelope.seal('status', '', Buffer.from(JSON.stringify(status))))
  }

  /** The age of the stream; null before the feed has caught up for the first time. */
  #ageMs(): number | null {
    const { askedAtMs } = this.#options.pulse
    if (this.#isCaughtUp && askedAtMs !== null) this.#vouchedMs = Math.max(this.#vouchedMs ?? askedAtMs, askedAtMs)
    if (this.#vouchedMs === null) return null
    const [oldest] = this.#unpublished
    return this.#options.clock.monotonic() - Math.min(this.#vouchedMs, oldest?.sinceMs ?? this.#vouchedMs)
  }
}
