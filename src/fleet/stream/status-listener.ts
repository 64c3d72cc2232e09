/**
 * Listens to the publisher's statuses. Reports to the subscriber's sink how old its content is, when reads may be
 * answered (`synced`), and what is unreachable.
 *
 * NATS heartbeats say nothing about etcd, so only the publisher's statuses are used. A consumer may be alive and yet
 * deliver nothing, because its server has lost contact with the others. So the end of the stream in each status is
 * compared with what has arrived.
 */
import { CONFIRMED_FOR_MS, type FeedSink } from '../../engine/model/feed-sink.js'
import type { Timer } from '../../support/clock.js'
import type { Broker, Closable } from '../broker.js'
import { Confirmations } from './confirmations.js'
import type { PlacedSink } from './placed-sink.js'
import { type PublisherStatus, readPublisherStatus } from './publisher-status.js'
import type { StreamContext } from './stream-context.js'
import { nextReportedFreshness, type ReportedFreshness, SILENT_MS } from './reported-freshness.js'

interface StreamPosition {
  readonly sequence: number
  readonly epoch: number
}

export interface StatusListenerOptions extends Pick<StreamContext, 'names' | 'envelope' | 'clock'> {
  readonly client: Pick<Broker, 'subscribe' | 'doubt'>
  readonly sink: FeedSink & Pick<PlacedSink, 'etcd'>
  /** Returns the position in the stream that the sink has reached; null before the first. */
  readonly position: () => StreamPosition | null
  /**
   * Whether reads may be answered from the stream, and the sink has everything that the stream had when the follower
   * started.
   */
  readonly isCurrent: () => boolean
  /** Called when messages were written but do not arrive. */
  readonly onStuck: (reason: string) => void
  /** Called when the content becomes fresh, and when no publisher confirms it any more. */
  readonly onConfirmed: (isConfirmed: boolean) => void
  /** Called when a status of the publisher confirms more of the content than before. */
  readonly onReached: () => void
}

const CHECK_MS = 500
/**
 * Messages may overtake a status, but not by this long. A status for fewer messages than the sink had this long ago
 * means that the stream has lost its end, or was deleted and recreated, perhaps with the same epoch.
 */
const OVERTAKEN_MS = 2_000
/**
 * After this long without a status from the publisher, moving to another server will not help, because by then NATS has
 * elected its leaders and the connection has tried every server. Another move would only disturb the other resources,
 * which share the connection and whose publishers may be fine.
 */
const SERVER_DOUBTED_MS = 2 * 60_000

export class StatusListener {
  readonly #confirmations = new Confirmations()
  /** When the last status of the current publisher arrived. */
  #lastReceivedMs: number
  /** The epoch in that status. */
  #lastReceivedEpoch = 0
  /** The highest epoch of any message that was followed; 0 before the first. A status could name any. */
  knownEpoch = 0
  #trouble: PublisherStatus['trouble'] = null
  /** When the subscriber began to follow the stream; null while it does not. */
  #followedSinceMs: number | null = null
  /** The age of the newest message or snapshot when it arrived, computed from the clocks of two machines. */
  #written: { readonly ageMs: number; readonly cameMs: number } | null = null
  #reported: ReportedFreshness = 'nothing'
  /** The message after which nothing has arrived although the stream has more; null while nothing is missing. */
  #behind: { readonly at: number; readonly sinceMs: number } | null = null
  /** The message that had arrived although the stream ended before it; null while there is none. */
  #ahead: { readonly at: number; readonly sinceMs: number } | null = null
  /** The positions of the last checks, oldest first. The first one is older than `OVERTAKEN_MS`, if any is. */
  #positions: { readonly sequence: number; readonly atMs: number }[] = []
  /** Callers that wait for a publisher whose stream is fresh. */
  readonly #waiters = new Set<() => void>()
  #subscription: Closable | null = null
  #timer: Timer | null = null

  constructor(private readonly options: StatusListenerOptions) {
    this.#lastReceivedMs = options.clock.monotonic()
  }

  /** How far the sink may be behind etcd, in milliseconds; null before the publisher has reported it. */
  get ageMs(): number | null {
    const { confirmedMs } = this.#confirmations
    return confirmedMs === null ? null : this.options.clock.monotonic() - confirmedMs
  }

  /**
   * The age of the content in milliseconds; null if unknown. If no publisher has reported it, it is computed from the
   * clocks of two machines.
   */
  get writtenMs(): number | null {
    if (this.ageMs !== null || this.#written === null) return this.ageMs
    const { ageMs, cameMs } = this.#written
    return ageMs + (this.options.clock.monotonic() - cameMs)
  }

  start(): void {
    const { client, names, clock } = this.options
    this.#subscription = client.subscribe(names.status, (data) => this.#received(data))
    this.#lastReceivedMs = clock.monotonic()
    this.#check()
  }

  stop(): void {
    this.#subscription?.close()
    this.#timer?.cancel()
  }

  /** Called when the sink has everything that etcd had this long ago. Older statuses then say nothing about its age. */
  confirmed(ageMs: number): void {
    this.#confirmations.confirm(this.options.clock.monotonic() - ageMs)
    this.#reportAge()
  }

  /** Called when the stream was recreated. Statuses about messages of the old stream are then ignored. */
  forget(): void {
    this.#confirmations.forget()
    this.#positions = []
  }

  /** Resolves when the next status that reports a fresh stream arrives, or when the signal aborts. */
  nextFreshStatus(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const finish = (): void => {
        this.#waiters.delete(finish)
        signal.removeEventListener('abort', finish)
        resolve()
      }
      if (signal.aborted) return finish()
      this.#waiters.add(finish)
      signal.addEventListener('abort', finish, { once: true })
    })
  }

  /** Called when following the stream begins. */
  following(): void {
    this.#followedSinceMs = this.options.clock.monotonic()
    this.consider()
  }

  /** Called when the stream is no longer followed. */
  away(): void {
    this.#followedSinceMs = null
    this.consider()
  }

  /**
   * Called when the sink has reached this position in the stream.
   * @param writtenAt when the content there was written; null if unknown, or if the sink had it before.
   */
  moved({ sequence, epoch }: StreamPosition, writtenAt: number | null): void {
    const { clock } = this.options
    this.knownEpoch = Math.max(this.knownEpoch, epoch)
    if (writtenAt !== null) {
      this.#written = { ageMs: Math.max(0, clock.now() - writtenAt), cameMs: clock.monotonic() }
    }
    this.#reached(sequence, epoch)
  }

  /** As `moved`, after the content was replaced by one that may be older. What was confirmed before says nothing now. */
  restarted(position: StreamPosition, writtenAt: number | null): void {
    this.#confirmations.unconfirm()
    this.#positions = []
    this.moved(position, writtenAt)
    if (this.ageMs === null && this.writtenMs !== null) this.options.sink.confirmed?.(this.writtenMs, CONFIRMED_FOR_MS)
  }

  /** Reports changes to the sink: reads may be answered, or no publisher confirms the content any more. */
  consider(): void {
    const { sink, clock, isCurrent, onConfirmed } = this.options
    const nowMs = clock.monotonic()
    const before = this.#reported
    this.#reported = nextReportedFreshness(before, {
      followedMs: this.#followedSinceMs === null ? null : nowMs - this.#followedSinceMs,
      isCurrent: isCurrent(),
      isInTrouble: this.#trouble !== null,
      ageMs: this.ageMs,
    })
    if (this.#reported === before) return
    if (this.#reported === 'fresh') {
      onConfirmed(true)
      return sink.synced()
    }
    // The component that knows why the stream is unavailable reports it to the sink.
    if (this.#followedSinceMs === null) return
    if (before === 'nothing') {
      // Report the age computed from the clocks of two machines. If that is unknown too, the sink keeps counting from
      // its last confirmation.
      if (this.ageMs === null && this.writtenMs !== null) sink.confirmed?.(this.writtenMs, CONFIRMED_FOR_MS)
      sink.synced()
    }
    this.#reportTrouble()
  }

  #received(data: Buffer): void {
    const { clock, position, envelope } = this.options
    const opened = envelope.open('status', '', data)
    const status = opened === null ? null : readPublisherStatus(opened)
    if (status === null) return
    const { trouble, epoch, sequence, ageMs } = status
    const nowMs = clock.monotonic()
    const sentMs = this.#confirmations.note(status, nowMs)
    if (sentMs === null) return
    // This includes statuses of a lower epoch, because the stream may have been recreated.
    if (trouble === null && ageMs !== null && ageMs <= SILENT_MS) for (const wake of this.#waiters) wake()
    const place = position()
    // Ignore a sender from which another publisher has taken over. If that publisher has fallen silent, it may have
    // been lost together with its epoch, so the sender is believed.
    const isSuccessorActive = epoch < this.#lastReceivedEpoch && nowMs - this.#lastReceivedMs <= SILENT_MS
    if (isSuccessorActive || epoch < (place?.epoch ?? 0)) return
    // If NATS has lost the end of the stream, what comes in its place has yet to be read.
    const isLost = (this.#ahead !== null && sequence < this.#ahead.at) || sequence < this.#sequenceBefore(nowMs)
    if (ageMs !== null && !isLost) this.#confirmations.expect(status, sentMs - ageMs)
    this.#lastReceivedEpoch = epoch
    this.#lastReceivedMs = nowMs
    this.#trouble = trouble
    this.#compare(place, epoch, sequence)
    this.#compareEnd(place, sequence)
    if (place !== null) this.#reached(place.sequence, place.epoch)
    const before = this.#reported
    this.consider()
    // The reason may have changed.
    if (trouble !== null && before === 'stale' && this.#followedSinceMs !== null) this.#reportTrouble()
  }

  /** The sequence that the sink had reached `OVERTAKEN_MS` ago; -1 if unknown. */
  #sequenceBefore(nowMs: number): number {
    while (this.#positions[1] !== undefined && nowMs - this.#positions[1].atMs >= OVERTAKEN_MS) this.#positions.shift()
    const [first] = this.#positions
    return first !== undefined && nowMs - first.atMs >= OVERTAKEN_MS ? first.sequence : -1
  }

  #reached(sequence: number, epoch: number): void {
    if (!this.#confirmations.reached(sequence, epoch)) return
    this.#reportAge()
    this.options.onReached()
  }

  /** Messages that were written a while ago but have not arrived must be requested again. */
  #compare(place: StreamPosition | null, epoch: number, sequence: number): void {
    if (place === null || epoch < place.epoch || place.sequence >= sequence) {
      this.#behind = null
      return
    }
    const nowMs = this.options.clock.monotonic()
    if (this.#behind?.at !== place.sequence) this.#behind = { at: place.sequence, sinceMs: nowMs }
    if (nowMs - this.#behind.sinceMs < SILENT_MS) return
    this.#behind = null
    this.options.onStuck(`message ${sequence} was written, but only messages up to ${place.sequence} have arrived`)
  }

  /**
   * A message may overtake a status. But if a message has arrived that the stream does not have for longer, NATS has lost
   * the end of the stream, so it must be reread.
   */
  #compareEnd(place: StreamPosition | null, sequence: number): void {
    const nowMs = this.options.clock.monotonic()
    if (this.#ahead !== null && sequence >= this.#ahead.at) this.#ahead = null
    if (place === null || place.sequence <= sequence) {
      this.#ahead = null
      return
    }
    this.#ahead ??= { at: place.sequence, sinceMs: nowMs }
    const { at, sinceMs } = this.#ahead
    if (nowMs - sinceMs < SILENT_MS) return
    this.#ahead = { at, sinceMs: nowMs }
    this.options.onStuck(`message ${at} has arrived, but the stream ends with message ${sequence}`)
  }

  #check(): void {
    const { client, clock, onConfirmed, position } = this.options
    const place = position()
    this.#sequenceBefore(clock.monotonic())
    if (place !== null) this.#positions.push({ sequence: place.sequence, atMs: clock.monotonic() })
    if (this.#followedSinceMs !== null) {
      const silentMs = clock.monotonic() - this.#lastReceivedMs
      const isSilent = silentMs > SILENT_MS
      // The stream is reachable but its publisher is silent, perhaps because this NATS server cannot reach the
      // publisher. A publisher that was never heard may not exist, and then the connection, which all resources share,
      // should stay.
      if (isSilent && this.#lastReceivedEpoch > 0 && silentMs <= SERVER_DOUBTED_MS) client.doubt()
      const isOld = this.ageMs === null || this.ageMs > SILENT_MS
      if (isOld && (isSilent || this.#trouble === null)) onConfirmed(false)
    }
    this.consider()
    this.#timer = clock.setTimer(CHECK_MS, () => this.#check())
  }

  #reportAge(): void {
    const { ageMs } = this
    const { sink } = this.options
    // While etcd feeds the sink, the stream says nothing about its age.
    if (ageMs !== null && sink.etcd === null) sink.confirmed?.(ageMs, CONFIRMED_FOR_MS)
  }

  #reportTrouble(): void {
    const { sink, clock } = this.options
    if (this.#trouble !== null) {
      const { reason, isRefusal } = this.#trouble
      if (isRefusal) sink.refused(reason, true)
      else sink.disconnected(`etcd: ${reason}`)
    } else if (clock.monotonic() - this.#lastReceivedMs > SILENT_MS) {
      sink.disconnected('no status has arrived from a publisher')
    } else {
      sink.disconnected('waiting for the data that the publisher has read from etcd')
    }
  }
}
