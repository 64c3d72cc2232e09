/**
 * What a subscriber hears of its publisher's signs of life, and what its sink is told of them: how old the content is, that
 * reads may be answered (`synced`), and who is away.
 *
 * NATS' own signs of life say nothing about etcd: only the publisher's count. A consumer may live and deliver nothing (its
 * server has lost touch with the others), so what the publisher says is in the stream is compared with what has come.
 */
import type { FeedSink } from '../../model/feed-sink.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Closable } from './closable.js'
import { Confirmations } from './confirmations.js'
import type { NatsClient } from './nats-client.js'
import type { PublisherStatus } from './publisher-status.js'

interface StreamPosition {
  readonly sequence: number
  readonly epoch: number
}

export interface StatusListenerOptions {
  readonly client: Pick<NatsClient, 'subscribe'>
  readonly subject: string
  readonly sink: FeedSink
  readonly clock: Clock
  /** How far the sink was brought by the stream; null before it was. */
  readonly position: () => StreamPosition | null
  readonly isFollowing: () => boolean
  /** The stream may answer reads, and the sink has all that was in it when the following began. */
  readonly isCurrent: () => boolean
  /** Messages were written, and do not come. */
  readonly onStuck: (reason: string) => void
}

/** So long without a word that counts (three of the publisher's statuses) makes a source silent. */
const SILENT_MS = 3_500
const CHECK_MS = 500
/** The content is called old when the publisher's last word about etcd is: less than two of its statuses. */
export const CONFIRMED_FOR_MS = 1_800

export class StatusListener {
  readonly #options: StatusListenerOptions
  readonly #confirmations = new Confirmations()
  /** When somebody last spoke who may publish. */
  #heardMs: number
  #trouble: PublisherStatus['trouble'] = null
  #followingMs = 0
  /** When the newest of what is held was written, by its publisher's clock. */
  #writtenAt: number | null = null
  /** The sink was told that all is well, and nothing else since. */
  #isTold = false
  /** The sink was told once that reads may be answered. */
  #wasTold = false
  /** The stream has more than has come, and this is where it stands still. */
  #behind: { readonly at: number; readonly sinceMs: number } | null = null
  #subscription: Closable | null = null
  #timer: Timer | null = null

  constructor(options: StatusListenerOptions) {
    this.#options = options
    this.#heardMs = options.clock.monotonic()
  }

  /** For how long it is not known that etcd has no more than what is held; null when nobody has said so yet. */
  get ageMs(): number | null {
    const { confirmedMs } = this.#confirmations
    return confirmedMs === null ? null : this.#options.clock.monotonic() - confirmedMs
  }

  start(): void {
    const { client, subject, clock } = this.#options
    this.#subscription = client.subscribe(subject, (data) => this.#heard(data))
    this.#heardMs = clock.monotonic()
    this.#check()
  }

  stop(): void {
    this.#subscription?.close()
    this.#timer?.cancel()
  }

  /** The stream is another one: what was said of messages counts no more. */
  forget(): void {
    this.#confirmations.forget()
  }

  /** A following begins. */
  following(): void {
    this.#followingMs = this.#options.clock.monotonic()
    this.consider()
  }

  /** The stream is not followed any more. */
  away(): void {
    this.#isTold = false
  }

  /** The sink was brought there. @param writtenAt when that was written; absent where the sink was there already. */
  moved({ sequence, epoch }: StreamPosition, writtenAt?: number | null): void {
    if (writtenAt !== undefined) this.#writtenAt = writtenAt
    if (this.#confirmations.reached(sequence, epoch)) this.#tellAge()
  }

  /** Tells the sink that reads may be answered, as soon as that is so. */
  consider(): void {
    const { sink, clock, isFollowing, isCurrent } = this.#options
    if (this.#isTold || !isFollowing() || !isCurrent()) return
    if (this.#trouble === null && this.#isConfirmed) {
      this.#isTold = this.#wasTold = true
      return sink.synced()
    }
    if (this.#wasTold) return
    // Nobody may publish for long: what there is can be served, with its age. No better one is known than by two clocks.
    if (this.#trouble === null && clock.monotonic() - this.#followingMs <= SILENT_MS) return
    this.#wasTold = true
    if (this.ageMs === null) {
      sink.confirmed?.(Math.max(0, clock.now() - (this.#writtenAt ?? clock.now())), CONFIRMED_FOR_MS)
    }
    sink.synced()
    this.#tellTrouble()
  }

  #heard(data: Buffer): void {
    const { clock, position } = this.#options
    const status = JSON.parse(data.toString('utf8')) as PublisherStatus
    const { trouble, epoch, sequence } = status
    const place = position()
    // Another has taken over from whoever says this.
    if (epoch < (place?.epoch ?? 0)) return
    const nowMs = clock.monotonic()
    this.#heardMs = nowMs
    this.#trouble = trouble
    this.#compare(place, epoch, sequence)
    this.#confirmations.heard(status, nowMs)
    if (place !== null && this.#confirmations.reached(place.sequence, place.epoch)) this.#tellAge()
    if (trouble === null || !this.#wasTold) return this.consider()
    this.#isTold = false
    this.#tellTrouble()
  }

  /** Messages that were written a while ago and have not arrived must be requested again. */
  #compare(place: StreamPosition | null, epoch: number, sequence: number): void {
    if (place === null || epoch < place.epoch || place.sequence >= sequence) {
      this.#behind = null
      return
    }
    const nowMs = this.#options.clock.monotonic()
    if (this.#behind?.at !== place.sequence) this.#behind = { at: place.sequence, sinceMs: nowMs }
    if (nowMs - this.#behind.sinceMs < SILENT_MS) return
    this.#behind = null
    this.#options.onStuck(`message ${sequence} was written, and ${place.sequence} is the last to come`)
  }

  #check(): void {
    const { clock, isFollowing } = this.#options
    if (this.#isTold && isFollowing() && !this.#isConfirmed) {
      this.#isTold = false
      this.#tellTrouble()
    } else {
      this.consider()
    }
    this.#timer = clock.setTimer(CHECK_MS, () => this.#check())
  }

  get #isConfirmed(): boolean {
    const { ageMs } = this
    return ageMs !== null && ageMs <= SILENT_MS
  }

  #tellAge(): void {
    const { ageMs } = this
    if (ageMs !== null) this.#options.sink.confirmed?.(ageMs, CONFIRMED_FOR_MS)
  }

  #tellTrouble(): void {
    const { sink, clock } = this.#options
    if (this.#trouble !== null) {
      const { reason, isRefusal } = this.#trouble
      if (isRefusal) sink.refused(reason)
      else sink.disconnected(`etcd: ${reason}`)
    } else if (clock.monotonic() - this.#heardMs > SILENT_MS) {
      sink.disconnected('no publisher is heard')
    } else {
      sink.disconnected('what the publisher has of etcd has not come yet')
    }
  }
}
