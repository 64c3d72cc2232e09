/**
 * A publisher's snapshots: when one is due, and taking it.
 *
 * A snapshot is read from etcd at a revision whose message is acknowledged, rather than from a copy kept here: that costs
 * etcd one paged read for each stretch of stream at least as long as the state itself, and no memory.
 */
import { readPages } from '../../feed/read-pages.js'
import type { Key } from '../../model/event.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { UpstreamReader } from '../../upstream/upstream.js'
import type { Names } from './names.js'
import type { NatsClient, StreamLimits } from './nats-client.js'
import { type SnapshotEntry, SnapshotStore, SnapshotWriter } from './snapshot-store.js'

export interface SnapshotTakerOptions {
  readonly client: NatsClient
  readonly names: Names
  readonly limits: StreamLimits
  readonly prefix: Key
  readonly upstream: UpstreamReader
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: { snapshot(seconds: number, bytes: number): void }
  /** A snapshot is due after so many messages, or after as many bytes as this and as the last snapshot had. */
  readonly snapshotMessages: number
  readonly snapshotBytes: number
  /** Where the stream stands for certain; null while no snapshot may be taken there. */
  readonly place: () => SnapshotPlace | null
}

export type SnapshotPlace = Omit<SnapshotEntry, 'name' | 'keys' | 'takenAt'>

const PAGE_KEYS = 1_000
const PAGE_TIMEOUT_MS = 15_000
const RETRY_MS = 2_000
/** Orphans are looked for after the first snapshot, and then at most once in so long: the list of a bucket is of all resources. */
const SWEEP_INTERVAL_MS = 3_600_000
/** No upload takes so long, and no two clocks differ by as much. */
const ORPHAN_AGE_MS = 3_600_000
/** The stream discards its oldest messages by bytes: a snapshot is due long before it discards the newest one's place. */
const STREAM_SHARE = 0.5
const NOTHING = { messages: 0, bytes: 0, allBytes: 0 }

export class SnapshotTaker {
  readonly #options: SnapshotTakerOptions
  readonly #store: SnapshotStore
  readonly #stopping = new AbortController()
  /** Written to the stream since the last snapshot. */
  #since = NOTHING
  #lastBytes = 0
  #sweptMs = Number.NEGATIVE_INFINITY
  #isDue = false
  #taking: Promise<void> | null = null
  #retryTimer: Timer | null = null

  constructor(options: SnapshotTakerOptions) {
    this.#options = options
    this.#store = new SnapshotStore(options.client.buckets, options.names, options.limits.replicas)
  }

  /** Resolves when nothing of it runs. */
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

  /** Takes a first one where no edge could begin with those that are there. @throws BrokerError */
  async requestUnlessUsable(firstSequence: number, lastSequence: number): Promise<void> {
    const entries = await this.#store.index()
    if (!entries.some(({ sequence }) => sequence + 1 >= firstSequence && sequence <= lastSequence)) this.#isDue = true
  }

  /** So much was written to the stream. @param isHistory false where it tells nothing that a snapshot would save a replica. */
  written(messages: number, bytes: number, isHistory: boolean): void {
    const { messages: before, bytes: bytesBefore, allBytes } = this.#since
    this.#since = {
      messages: before + (isHistory ? messages : 0),
      bytes: bytesBefore + (isHistory ? bytes : 0),
      allBytes: allBytes + bytes,
    }
    this.consider()
  }

  /** Stores a whole state that the feed has read; it is made known once the stream has it. @throws BrokerError */
  async put(name: string, snapshot: SnapshotWriter): Promise<void> {
    await this.#store.put(name, snapshot)
  }

  /** No earlier snapshot helps after such a state. @throws BrokerError */
  async publishState(name: string, snapshot: SnapshotWriter, place: SnapshotPlace): Promise<void> {
    this.#lastBytes = snapshot.bytes
    await this.#publish(name, snapshot, place, true)
  }

  /** Takes a snapshot if one is due and there is a place for it. */
  consider(): void {
    const { snapshotMessages, snapshotBytes, limits, place } = this.#options
    const { messages, bytes, allBytes } = this.#since
    if (bytes >= Math.max(snapshotBytes, this.#lastBytes) || messages >= snapshotMessages) this.#isDue = true
    if (allBytes >= limits.maxBytes * STREAM_SHARE) this.#isDue = true
    if (!this.#isDue || this.#taking !== null || this.#stopping.signal.aborted) return
    const at = place()
    if (at === null) return
    this.#isDue = false
    this.#taking = this.#take(at).finally(() => {
      this.#taking = null
    })
  }

  async #take(place: SnapshotPlace): Promise<void> {
    const { names, clock, prefix, upstream, logger, metrics } = this.#options
    const startedMs = clock.monotonic()
    this.#since = NOTHING
    const { signal } = this.#stopping
    try {
      const snapshot = new SnapshotWriter()
      const { revision, epoch } = place
      const pages = { upstream, prefix, revision, pageKeys: PAGE_KEYS, pageTimeoutMs: PAGE_TIMEOUT_MS, clock, signal }
      for await (const page of readPages(pages)) snapshot.add(page.keyValues)
      const name = names.snapshot(epoch, revision, clock.now())
      await this.#store.put(name, snapshot)
      await this.#publish(name, snapshot, place, false)
      this.#lastBytes = snapshot.bytes
      metrics.snapshot((clock.monotonic() - startedMs) / 1_000, snapshot.bytes)
      await this.#sweep()
    } catch (error) {
      if (signal.aborted) return
      const reason = error instanceof Error ? error.message : String(error)
      logger.warn({ stream: names.stream, reason }, 'no snapshot could be taken; trying again')
      this.#retryTimer = clock.setTimer(RETRY_MS, () => this.request())
    }
  }

  /** What cannot be swept now is swept another time. */
  async #sweep(): Promise<void> {
    const { clock, logger, names } = this.#options
    if (clock.monotonic() - this.#sweptMs < SWEEP_INTERVAL_MS) return
    this.#sweptMs = clock.monotonic()
    const bucket = names.snapshotBucket
    try {
      const swept = await this.#store.sweep(ORPHAN_AGE_MS)
      if (swept > 0) logger.info({ bucket, swept }, 'left-over snapshots were deleted')
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      logger.warn({ bucket, reason }, 'left-over snapshots could not be deleted')
    }
  }

  async #publish(name: string, snapshot: SnapshotWriter, place: SnapshotPlace, replacesAll: boolean): Promise<void> {
    const { client, names, clock } = this.#options
    const entry: SnapshotEntry = { ...place, name, keys: snapshot.keys, takenAt: clock.now() }
    await this.#store.add(entry, (await client.streamState(names.stream))?.first ?? 1, replacesAll)
  }
}
