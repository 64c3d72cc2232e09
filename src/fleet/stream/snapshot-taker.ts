/**
 * Decides when a publisher's next snapshot is due, and takes it.
 *
 * A snapshot is read from etcd at a revision whose message is acknowledged, not from a copy kept here. This needs no
 * memory, and costs etcd one paged read for each stretch of the stream that is at least as large as the state itself.
 */
import { readPages } from '../../engine/feed/read-pages.js'
import type { Key } from '../../engine/model/event.js'
import { backoffMs } from '../../support/backoff.js'
import type { Timer } from '../../support/clock.js'
import type { StateReader } from '../../engine/upstream/upstream.js'
import type { Broker, StreamBounds } from '../broker.js'
import { type SnapshotEntry, SnapshotWriter } from './snapshot-store.js'
import type { StreamContext } from './stream-context.js'
import { errorMessage } from '../../support/error-message.js'

export interface SnapshotTakerOptions extends Pick<StreamContext, 'names' | 'store' | 'clock' | 'random' | 'logger'> {
  readonly client: Pick<Broker, 'streamState'>
  /** Returns the limits of the stream. */
  readonly bounds: () => StreamBounds
  readonly prefix: Key
  readonly upstream: StateReader
  readonly metrics: Pick<StreamContext['metrics'], 'snapshot'>
  /**
   * A snapshot is due after this many messages, or after as many bytes as `snapshotBytes` or the last snapshot,
   * whichever is larger.
   */
  readonly snapshotMessages: number
  readonly snapshotBytes: number
  /** Returns the acknowledged end of the stream; null while no snapshot may be taken there. */
  readonly place: () => SnapshotPlace | null
  /** Asks etcd for progress, which moves the place of a quiet resource. */
  readonly requestProgress: () => void
}

export type SnapshotPlace = Omit<SnapshotEntry, 'name' | 'keys'>

const RETRY = { firstMs: 2_000, capMs: 60_000 }
/**
 * A snapshot is due after this share of the stream's byte limit was written, or of its age limit has passed, long before
 * the stream discards the place of the last snapshot.
 */
const STREAM_SHARE = 0.5
const NOTHING = { messages: 0, bytes: 0, allBytes: 0 }
const NO_FAILURES = { count: 0, reason: '' }

export class SnapshotTaker {
  readonly #stopping = new AbortController()
  /** Bytes and messages written to the stream since the last snapshot. */
  #since = NOTHING
  #lastBytes = 0
  /** When the last snapshot was begun, or this session, in monotonic milliseconds. */
  #begunMs: number
  /**
   * The share of the stream's age limit after which the next snapshot is due. The first one comes earlier, because the
   * last snapshot of the previous publisher may be as old, and at a random time, because a publisher of many resources
   * should not read them all at once.
   */
  #ageShare: number
  #isDue = false
  /** The number of whole states being listed. */
  #listing = 0
  #taking: Promise<void> | null = null
  #retryTimer: Timer | null = null
  #failures = NO_FAILURES

  constructor(private readonly options: SnapshotTakerOptions) {
    this.#begunMs = options.clock.monotonic()
    this.#ageShare = (STREAM_SHARE * (1 + options.random.next())) / 2
  }

  /** Resolves when nothing is running any more. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#retryTimer?.cancel()
    await this.#taking
  }

  /** Takes a snapshot as soon as there is a place for it. */
  request(): void {
    this.#isDue = true
    this.consider()
  }

  /**
   * Called when a subscriber finds no usable snapshot. The subscriber repeats the request until there is one, so a
   * snapshot that is already being taken or listed may be enough. Without this check, every replica's request would
   * cause another read of etcd when a fleet starts.
   */
  requestForSubscriber(): void {
    if (this.#listing > 0 || this.#taking !== null || this.options.place() === null) return
    // It is worth more attempts than a snapshot that is only due.
    if (this.options.clock.monotonic() - this.#begunMs >= RETRY.firstMs) {
      this.#retryTimer?.cancel()
      this.#retryTimer = null
    }
    this.request()
  }

  /**
   * Counts what was written to the stream.
   * @param isHistory false for progress, whose replay a snapshot does not save.
   */
  written(messages: number, bytes: number, isHistory: boolean): void {
    const { messages: before, bytes: bytesBefore, allBytes } = this.#since
    this.#since = {
      messages: before + (isHistory ? messages : 0),
      bytes: bytesBefore + (isHistory ? bytes : 0),
      allBytes: allBytes + bytes,
    }
    this.consider()
  }

  /**
   * Lists a whole state in the index once the stream has it, and drops all earlier snapshots, which are now useless.
   * @throws BrokerError
   */
  async publishState(name: string, snapshot: SnapshotWriter, place: SnapshotPlace): Promise<void> {
    this.#lastBytes = snapshot.bytes
    this.#begun()
    this.#listing++
    try {
      await this.#publish(name, snapshot, place, true)
    } finally {
      this.#listing--
    }
    this.consider()
  }

  /** Takes a snapshot if one is due and there is a place for it. */
  consider(): void {
    const { snapshotMessages, snapshotBytes, bounds, place, clock } = this.options
    const { messages, bytes, allBytes } = this.#since
    const { maxBytes, maxAgeMs } = bounds()
    if (bytes >= Math.max(snapshotBytes, this.#lastBytes) || messages >= snapshotMessages) this.#isDue = true
    if (allBytes >= maxBytes * STREAM_SHARE) this.#isDue = true
    if (clock.monotonic() - this.#begunMs >= maxAgeMs * this.#ageShare) this.#isDue = true
    if (!this.#isDue) return
    if (this.#listing > 0 || this.#retryTimer !== null || this.#taking !== null || this.#stopping.signal.aborted) return
    const at = place()
    if (at === null) return
    this.#isDue = false
    this.#taking = this.#take(at).finally(() => {
      this.#taking = null
      this.consider()
    })
  }

  #begun(): void {
    this.#begunMs = this.options.clock.monotonic()
    this.#ageShare = STREAM_SHARE
  }

  async #take(place: SnapshotPlace): Promise<void> {
    const { names, clock, random, prefix, upstream, logger, metrics } = this.options
    this.#since = NOTHING
    this.#begun()
    const { signal } = this.#stopping
    try {
      const snapshot = new SnapshotWriter()
      const { revision, epoch } = place
      for await (const page of readPages({ upstream, prefix, revision, clock, signal })) snapshot.add(page.keyValues)
      const name = names.snapshot(epoch, revision, clock.now())
      await this.options.store.put(name, snapshot)
      await this.#publish(name, snapshot, place, false)
      this.#lastBytes = snapshot.bytes
      this.#failures = NO_FAILURES
      metrics.snapshot()
    } catch (error) {
      if (signal.aborted) return
      const reason = errorMessage(error)
      // It is retried indefinitely; each reason is logged once.
      logger[reason === this.#failures.reason ? 'debug' : 'warn'](
        { stream: names.stream, reason },
        'snapshot failed; retrying',
      )
      this.#failures = { count: this.#failures.count + 1, reason }
      // etcd may have compacted the revision of a quiet resource.
      this.options.requestProgress()
      this.#retryTimer = clock.setTimer(backoffMs(RETRY, this.#failures.count, random), () => {
        this.#retryTimer = null
        this.request()
      })
    }
  }

  async #publish(name: string, snapshot: SnapshotWriter, place: SnapshotPlace, replacesAll: boolean): Promise<void> {
    const { client, names } = this.options
    const entry: SnapshotEntry = { ...place, name, keys: snapshot.keys }
    const stream = await client.streamState(names.stream)
    // Another publisher may have taken over during the upload.
    this.#stopping.signal.throwIfAborted()
    await this.options.store.add(entry, stream?.first ?? 1, replacesAll)
  }
}
