/**
 * Sends the publisher's status once a second and on request: the end of the stream, the stream's age, and whether etcd
 * answers.
 *
 * The age is measured from the newest request to etcd that was sent after the feed had caught up, as soon as the stream
 * has everything that etcd had sent before its response. The arrival of an event proves nothing, because the event may
 * have waited while this process was stopped.
 */
import type { Feed } from '../../engine/feed/feed.js'
import type { Timer } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import { type Broker, BrokerError } from '../broker.js'
import type { PublisherStatus } from './publisher-status.js'
import type { StreamContext } from './stream-context.js'

export interface StatusSenderOptions extends Pick<StreamContext, 'names' | 'envelope' | 'clock'> {
  readonly client: Pick<Broker, 'publish'>
  readonly feed: Pick<Feed, 'ageMs' | 'confirm'>
  /** Returns the message up to which the stream is known to be complete. */
  readonly position: () => { readonly epoch: number; readonly sequence: number }
  /**
   * Called for each response from etcd that proves the stream's age once the stream has everything received before the
   * response.
   *
   * @returns whether the stream already has all that; if not, `proven` is called as soon as it does.
   */
  readonly prove: (requestedAtMs: number) => boolean
  /** Called after each regular status. */
  readonly onSent: () => void
}

const INTERVAL_MS = 1_000
/** A status waits no longer than this for etcd's response. */
const PATIENCE_MS = 300
/** A request sent before the feed had caught up proves nothing; the next request follows after this time. */
const RETRY_MS = 500
/**
 * The shortest time between a status and a requested one, because edges that start together all request one at once.
 */
const REQUEST_GAP_MS = 200
/** The machine was paused if the time of day gains this much on the monotonic clock between two statuses. */
const PAUSED_MS = 500

export class StatusSender {
  readonly #stopping = new AbortController()
  #timer: Timer | null = null
  #sentAtMs = Number.NEGATIVE_INFINITY
  #session: number
  /** By how much the time of day is ahead of the monotonic clock, which stands still while the machine is paused. */
  #leadMs: number
  #trouble: PublisherStatus['trouble'] = null
  /** When the feed last caught up with etcd. */
  #caughtUpAtMs = 0
  /**
   * The latest monotonic time for which the stream is known to have everything that etcd had then; null before the
   * first proof.
   */
  #provenMs: number | null = null

  constructor(private readonly options: StatusSenderOptions) {
    this.#session = options.clock.now()
    this.#leadMs = this.#session - options.clock.monotonic()
  }

  get trouble(): PublisherStatus['trouble'] {
    return this.#trouble
  }

  /** The age of the stream, in milliseconds; null before the first proof. */
  get ageMs(): number | null {
    return this.#provenMs === null ? null : this.options.clock.monotonic() - this.#provenMs
  }

  start(): void {
    this.#sendIn(0)
  }

  stop(): void {
    this.#stopping.abort()
    this.#timer?.cancel()
  }

  /** Sends a status soon, because an edge asked. */
  request(): void {
    this.#sendIn(Math.max(0, this.#sentAtMs + REQUEST_GAP_MS - this.options.clock.monotonic()))
  }

  /** Called when the feed has caught up with etcd. */
  caughtUp(): void {
    this.#trouble = null
    this.#caughtUpAtMs = this.options.clock.monotonic()
    if (this.#timer !== null) this.#sendIn(0)
  }

  /** Called when the feed gets data again, but has not caught up yet. A refusal has then ended. */
  received(): void {
    if (this.#trouble?.isRefusal === true) this.#trouble = { ...this.#trouble, isRefusal: false }
  }

  /**
   * Called when etcd is unreachable, or refuses requests.
   * @param isRefusal as in `PublisherStatus`. A replica that starts later must not open watches that a refusal has just
   * ended, so a refusal stays one if etcd becomes unreachable.
   */
  failed(reason: string, isRefusal: boolean): void {
    this.#trouble = { reason, isRefusal: isRefusal || this.#trouble?.isRefusal === true }
    this.#publish()
  }

  /**
   * Called when the stream has everything received before this response, if that was too late for the regular status.
   */
  proven(requestedAtMs: number): void {
    this.#recordProof(requestedAtMs)
    this.#publish()
  }

  #sendIn(delayMs: number): void {
    if (this.#stopping.signal.aborted) return
    this.#timer?.cancel()
    this.#timer = this.options.clock.setTimer(delayMs, () => void this.#send())
  }

  async #send(): Promise<void> {
    const { feed, clock } = this.options
    const { signal } = this.#stopping
    this.#sendIn(INTERVAL_MS)
    const late = (): Error => new BrokerError('unavailable', `no answer within ${PATIENCE_MS} ms`)
    await withDeadline(clock, PATIENCE_MS, signal, late, () => feed.confirm()).catch(() => {})
    if (signal.aborted) return
    this.#proveAge()
    this.#publish()
    this.options.onSent()
  }

  #proveAge(): void {
    const { feed, clock, prove } = this.options
    const { ageMs } = feed
    if (ageMs === null) return
    const requestedAtMs = clock.monotonic() - ageMs
    if (requestedAtMs < this.#caughtUpAtMs) return this.#sendIn(RETRY_MS)
    if (prove(requestedAtMs)) this.#recordProof(requestedAtMs)
  }

  #recordProof(requestedAtMs: number): void {
    if (requestedAtMs < this.#caughtUpAtMs) return
    this.#provenMs = Math.max(this.#provenMs ?? requestedAtMs, requestedAtMs)
  }

  /**
   * After a pause of the machine, edges must not compare their clocks with its earlier statuses, or all later ones would
   * seem late. What was asked before the pause is older than the monotonic clock says.
   */
  #noticePause(): void {
    const { clock } = this.options
    const [now, nowMs] = [clock.now(), clock.monotonic()]
    const pausedMs = now - nowMs - this.#leadMs
    this.#leadMs = now - nowMs
    if (pausedMs <= PAUSED_MS) return
    this.#session = Math.max(this.#session + 1, now)
    this.#caughtUpAtMs = nowMs
    if (this.#provenMs !== null) this.#provenMs -= pausedMs
  }

  #publish(): void {
    if (this.#stopping.signal.aborted) return
    this.#noticePause()
    const { client, names, envelope, clock, position } = this.options
    const { epoch, sequence } = position()
    this.#sentAtMs = clock.monotonic()
    const status: PublisherStatus = {
      epoch,
      session: this.#session,
      sequence,
      at: this.#sentAtMs,
      ageMs: this.ageMs,
      trouble: this.#trouble,
    }
    client.publish(names.status, envelope.seal('status', '', Buffer.from(JSON.stringify(status))))
  }
}
