/**
 * Decides when a publisher's next snapshot is due, and takes it.
 *
 * A snapshot is read from etcd at a revision whose message is acknowledged, not from a copy kept here. This needs no
 * memory, and costs etcd one paged read for each stretch of the stream that is at least as large as the state itself.
 */
import { readPages } from '../../engine/feed/read-pages.js'
import type { Key } from '../../engine/model/event.js'
import type { Timer } from '../../support/clock.js'
import type { StateReader } from '../../engine/upstream/upstream.js'
import type { Broker, StreamLimits } from '../broker.js'
import { type SnapshotEntry, SnapshotWriter } from './snapshot-store.js'
import type { StreamContext } from './stream-context.js'
import { errorMessage } from '../../support/error-message.js'

export interface SnapshotTakerOptions extends Pick<StreamContext, 'names' | 'store' | 'clock' | 'logger'> {
  readonly client: Pick<Broker, 'streamState'>
  readonly limits: StreamLimits
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
}

export type SnapshotPlace = Omit<SnapshotEntry, 'name' | 'keys'>

const RETRY_MS = 2_000
/**
 * A snapshot is due after this share of the stream's byte limit was written, long before the stream discards the place
 * of the last snapshot.
 */
const STREAM_SHARE = 0.5
const NOTHING = { messages: 0, bytes: 0, allBytes: 0 }

export class SnapshotTaker {
  readonly #stopping = new AbortController()
  /** Bytes and messages written to the stream since the last snapshot. */
  #since = NOTHING
  #lastBytes = 0
  #isDue = false
  /** The number of whole states being listed. */
  #listing = 0
  #taking: Promise<void> | null = null
  #retryTimer: Timer | null = null

  constructor(private readonly options: SnapshotTakerOptions) {}

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
    if (this.#listing === 0 && this.#taking === null && this.options.place() !== null) this.request()
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
    const { snapshotMessages, snapshotBytes, limits, place } = this.options
    const { messages, bytes, allBytes } = this.#since
    if (bytes >= Math.max(snapshotBytes, this.#lastBytes) || messages >= snapshotMessages) this.#isDue = true
    if (allBytes >= limits.maxBytes * STREAM_SHARE) this.#isDue = true
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

  async #take(place: SnapshotPlace): Promise<void> {
    const { names, clock, prefix, upstream, logger, metrics } = this.options
    this.#since = NOTHING
    const { signal } = this.#stopping
    try {
      const snapshot = new SnapshotWriter()
      const { revision, epoch } = place
      for await (const page of readPages({ upstream, prefix, revision, clock, signal })) snapshot.add(page.keyValues)
      const name = names.snapshot(epoch, revision, clock.now())
      await this.options.store.put(name, snapshot)
      await this.#publish(name, snapshot, place, false)
      this.#lastBytes = snapshot.bytes
      metrics.snapshot()
    } catch (error) {
      if (signal.aborted) return
      const reason = errorMessage(error)
      logger.warn({ stream: names.stream, reason }, 'snapshot failed; retrying')
      this.#retryTimer = clock.setTimer(RETRY_MS, () => {
        this.#retryTimer = null
        this.request()
      })
    }
  }

  async #publish(name: string, snapshot: SnapshotWriter, place: SnapshotPlace, replacesAll: boolean): Promise<void> {
    const { client, names } = this.options
    const entry: SnapshotEntry = { ...place, name, keys: snapshot.keys }
    await this.options.store.add(entry, (await client.streamState(names.stream))?.first ?? 1, replacesAll)
  }
}
