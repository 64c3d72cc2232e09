/**
 * One resource's feed, written to its stream, for as long as this process is the one to do so.
 *
 *     etcd ─▶ feed ─▶ queue ─▶ messages on their way (each expects the sequence before it) ─▶ stream
 *                       └─ while the way is full, batches gather and share a message
 *
 * It goes on exactly after the stream's last message: etcd is watched from there, after the feed has compared the history.
 * The first write of a session (a claim, or a whole state) raises the epoch; from then on every write of an earlier
 * publisher expects a sequence that is gone, and is refused. Any write that fails ends the session, because all after it
 * fail too: the next one reads the tail again, whoever's it is. A retry of single messages was rejected, for it can only
 * guess whether the first try was written.
 *
 * Snapshots are read from etcd at a revision whose message is acknowledged, rather than from a copy kept here: that costs
 * etcd one paged read for each stretch of stream at least as long as the state itself, and no memory.
 */
import type { FeedStatus } from '../../feed/feed-options.js'
import type { FeedResume } from '../../feed/feed.js'
import type { FeedSink, Replacement, ReplaceReason } from '../../feed/feed-sink.js'
import { readPages } from '../../feed/read-pages.js'
import { HistoryFingerprint } from '../../feed/history-fingerprint.js'
import type { Batch, Key } from '../../model/event.js'
import { type Revision, ZERO_REVISION } from '../../model/revision.js'
import type { Clock, Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { UpstreamReader } from '../../upstream/upstream.js'
import { batchBytes } from '../key-value-codec.js'
import { encodeMessage, type Body, type Header, type Message, type StateReason, type Testimony } from './message.js'
import type { Names } from './names.js'
import { BrokerError, type Closable, type NatsClient, type StreamLimits, type StreamWriter } from './nats-client.js'
import type { EtcdPulse } from './etcd-pulse.js'
import { answerQuestions } from './questions.js'
import { SnapshotStore, SnapshotWriter } from './snapshot-store.js'
import { readTail } from './tail.js'

/** The part of a `Feed` that a publisher drives. */
export interface PublishedFeed {
  readonly status: FeedStatus
  readonly clusterId: string | null
  readonly trustsProgress: boolean
  start(resume?: FeedResume): void
  stop(): Promise<void>
  requestProgress(): void
}

/** What a publisher says of itself every second. */
export interface PublisherStatus {
  readonly epoch: number
  /** The stream has everything up to this message. */
  readonly sequence: number
  /** When this was written, by a clock that only the publisher knows. Not told by the first release. */
  readonly at?: number
  /**
   * All that etcd had so long ago is in the stream up to that message; null when the publisher cannot say. Not told by the
   * first release.
   */
  readonly ageMs?: number | null
  /** Why etcd is away; null while it is there. */
  readonly trouble: { readonly reason: string; readonly isRefusal: boolean } | null
}

export interface PublisherMetrics {
  published(messages: number, events: number, bytes: number): void
  snapshot(seconds: number, bytes: number): void
  /** Bytes that wait for their turn to be written. */
  queued(bytes: number): void
}

export interface PublisherOptions {
  readonly client: NatsClient
  readonly names: Names
  readonly prefix: Key
  readonly upstream: UpstreamReader
  readonly openFeed: (sink: FeedSink) => PublishedFeed
  readonly pulse: EtcdPulse
  readonly limits: StreamLimits
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: PublisherMetrics
  /** A snapshot is due after so many messages, or as many bytes as this and as the last snapshot had. */
  readonly snapshotMessages: number
  readonly snapshotBytes: number
  /** The session is over: nothing is written any more. Once. */
  readonly onEnd: (reason: string) => void
}

/** What is on its way without an acknowledgement. */
const WINDOW_MESSAGES = 64
const WINDOW_BYTES = 4 * 2 ** 20
/** Waiting batches share messages up to this. */
const MESSAGE_BYTES = 256 * 1024
/** Beyond it the session ends, and the next one reads from etcd what this one could not keep. */
const QUEUE_BYTES = 64 * 2 ** 20
const STATUS_INTERVAL_MS = 1_000
/** A status does not wait longer for etcd. */
const PULSE_PATIENCE_MS = 300
/** Edges that come all at once ask for a word all at once. */
const WORD_GAP_MS = 200
const PAGE_KEYS = 1_000
const PAGE_TIMEOUT_MS = 15_000
const SNAPSHOT_RETRY_MS = 2_000

type Queued = Pending &
  (
    | { readonly kind: 'batches'; readonly batches: Batch[]; bytes: number }
    | { readonly kind: 'progress'; readonly revision: Revision }
    | { readonly kind: 'synced' }
    | {
        readonly kind: 'state'
        readonly revision: Revision
        readonly reason: StateReason
        readonly snapshot: SnapshotWriter
        readonly fingerprint: HistoryFingerprint
      }
  )

/** Since when it is known from etcd and not in the stream. */
interface Pending {
  readonly sinceMs: number
}

/** What a mark takes in the queue. */
const MARK_BYTES = 64

export class Publisher {
  readonly #options: PublisherOptions
  readonly #store: SnapshotStore
  #feed: PublishedFeed | null = null
  #writer: StreamWriter | null = null
  #answering: Closable | null = null
  #statusTimer: Timer | null = null
  #snapshotTimer: Timer | null = null
  readonly #stopping = new AbortController()
  #snapshotting: Promise<void> | null = null

  readonly #queue: Queued[] = []
  #queuedBytes = 0
  #isUploading = false
  #inFlight = 0
  #inFlightBytes = 0

  #epoch = 0
  #clusterId = ''
  #isSynced = false
  #hasSaidSynced = false
  /** The feed has proven that it is where etcd is; a stream that is gone on from does not prove it. */
  #isCaughtUp = false
  /** All that etcd had then has been handed over by the feed. */
  #vouchedMs: number | null = null
  /** On their way, oldest first. */
  readonly #unacknowledged = new Set<Pending>()
  #saidMs = Number.NEGATIVE_INFINITY
  /** Of what was written, not of what is queued: a mark testifies to its own revision. */
  #fingerprint = new HistoryFingerprint()
  /** Where the stream will stand when everything written has arrived. */
  #written = { sequence: 0, revision: ZERO_REVISION, settled: ZERO_REVISION }
  /** Where it stands for certain. */
  #acknowledged = { sequence: 0, revision: ZERO_REVISION, settled: ZERO_REVISION }
  #since = { messages: 0, bytes: 0 }
  #lastSnapshotBytes = 0
  #isSnapshotDue = false
  #lastWriteMs = 0
  /** Why etcd is away; null while it is there. */
  #trouble: { readonly reason: string; readonly isRefusal: boolean } | null = null

  constructor(options: PublisherOptions) {
    this.#options = options
    this.#store = new SnapshotStore(options.client, options.names, options.limits.replicas)
  }

  get epoch(): number {
    return this.#epoch
  }

  /** Acknowledged by the stream. */
  get revision(): Revision {
    return this.#acknowledged.revision
  }

  get queuedBytes(): number {
    return this.#queuedBytes
  }

  get feedStatus(): FeedStatus | null {
    return this.#feed?.status ?? null
  }

  /** Takes the stream over and begins to feed it. Trouble ends the session (`onEnd`), it is not thrown. */
  async start(): Promise<void> {
    try {
      await this.#begin()
    } catch (error) {
      this.#end(error instanceof Error ? error.message : String(error))
      if (!(error instanceof BrokerError)) this.#options.logger.error({ err: error }, 'unexpected error in a publisher')
    }
  }

  /** Nothing is written after the call; resolves when nothing of it runs. */
  async stop(): Promise<void> {
    this.#halt()
    await Promise.all([this.#feed?.stop(), this.#snapshotting])
  }

  async #begin(): Promise<void> {
    const { client, names, limits, clock } = this.#options
    await client.ensureStream(names.stream, names.log, limits)
    const { sequence, first, message } = await readTail(client, names)
    if (this.#stopping.signal.aborted) return
    this.#writer = client.openWriter(names.log)
    // With nothing left to count from, the sequence is at least as high as any epoch: each has written a message.
    this.#epoch = (message?.epoch ?? sequence) + 1
    this.#written.sequence = this.#acknowledged.sequence = sequence
    const feed = this.#options.openFeed(this.#sink())
    this.#feed = feed
    if (message?.isSynced !== true) {
      feed.start()
    } else {
      const { revision, settled, clusterId } = message
      this.#written = { sequence, revision, settled }
      this.#acknowledged = { ...this.#written }
      this.#clusterId = clusterId
      this.#isSynced = this.#hasSaidSynced = true
      this.#fingerprint = fingerprintOf(message)
      await this.#write({ kind: 'claim', testimony: this.#testimony() }, revision, settled)
      if (this.#stopping.signal.aborted) return
      feed.start({ place: { settled, position: revision }, clusterId, fingerprint: fingerprintOf(message) })
      const entries = await this.#store.index()
      const usable = entries.some((entry) => entry.sequence + 1 >= first && entry.sequence <= sequence)
      if (!usable) this.#isSnapshotDue = true
    }
    const { prefix, upstream } = this.#options
    const onProgressWanted = (): void => feed.requestProgress()
    const onSnapshotWanted = (): void => {
      this.#isSnapshotDue = true
      this.#considerSnapshot()
    }
    const maxBytes = client.maxPayloadBytes
    const onWordWanted = (): void => this.#tellStatusIn(Math.max(0, this.#saidMs + WORD_GAP_MS - clock.monotonic()))
    const answers = { upstream, prefix, maxBytes, onProgressWanted, onSnapshotWanted, onWordWanted }
    this.#answering = client.respond(names.ask, answerQuestions(answers))
    this.#lastWriteMs = clock.monotonic()
    this.#tellStatusIn(0)
    this.#considerSnapshot()
  }

  #halt(): void {
    this.#stopping.abort(new BrokerError('unavailable', 'stopped'))
    this.#writer?.close()
    this.#answering?.close()
    this.#statusTimer?.cancel()
    this.#snapshotTimer?.cancel()
    this.#queue.length = 0
    this.#queuedBytes = 0
    this.#options.metrics.queued(0)
  }

  #end(reason: string): void {
    if (this.#stopping.signal.aborted) return
    this.#halt()
    this.#options.onEnd(reason)
  }

  // What the feed tells

  #sink(): FeedSink {
    return {
      replace: (revision, reason) => this.#replace(revision, reason),
      apply: (batches) => this.#enqueueBatches(batches),
      progress: (revision) => this.#enqueue({ kind: 'progress', revision, sinceMs: this.#nowMs() }, MARK_BYTES),
      synced: () => {
        this.#trouble = null
        this.#isCaughtUp = true
        if (!this.#hasSaidSynced) {
          this.#hasSaidSynced = true
          this.#enqueue({ kind: 'synced', sinceMs: this.#nowMs() }, MARK_BYTES)
        }
        if (this.#statusTimer !== null) this.#tellStatusIn(0)
      },
      disconnected: (reason) => this.#troubled(reason, false),
      refused: (reason) => this.#troubled(reason, true),
    }
  }

  #replace(revision: Revision, reason: ReplaceReason): Replacement {
    const snapshot = new SnapshotWriter()
    const fingerprint = new HistoryFingerprint()
    return {
      add: (keyValues) => {
        snapshot.add(keyValues)
        fingerprint.listed(keyValues)
      },
      commit: () => {
        this.#hasSaidSynced = this.#isCaughtUp = false
        const sinceMs = this.#nowMs()
        const stateReason = reason === 'initial' ? 'gap' : reason
        this.#enqueue({ kind: 'state', revision, reason: stateReason, snapshot, fingerprint, sinceMs }, MARK_BYTES)
      },
      abort: () => {},
    }
  }

  #troubled(reason: string, isRefusal: boolean): void {
    this.#trouble = { reason, isRefusal }
    this.#isCaughtUp = false
    this.#publishStatus()
  }

  #enqueueBatches(batches: readonly Batch[]): void {
    const last = this.#queue.at(-1)
    let into = last?.kind === 'batches' ? last : null
    const sinceMs = this.#nowMs()
    for (const batch of batches) {
      const bytes = batchBytes(batch)
      if (into === null || into.bytes + bytes > MESSAGE_BYTES) {
        into = { kind: 'batches', batches: [], bytes: 0, sinceMs }
        this.#queue.push(into)
      }
      into.batches.push(batch)
      into.bytes += bytes
      this.#queuedBytes += bytes
    }
    this.#queueGrew()
  }

  #enqueue(item: Queued, bytes: number): void {
    this.#queue.push(item)
    this.#queuedBytes += bytes
    this.#queueGrew()
  }

  #queueGrew(): void {
    if (this.#queuedBytes > QUEUE_BYTES) {
      return this.#end(`more than ${QUEUE_BYTES} bytes wait to be published`)
    }
    this.#options.metrics.queued(this.#queuedBytes)
    this.#flush()
  }

  // Writing

  #flush(): void {
    while (!this.#isUploading && this.#inFlight < WINDOW_MESSAGES && this.#inFlightBytes < WINDOW_BYTES) {
      const item = this.#queue.shift()
      if (item === undefined || this.#stopping.signal.aborted) return
      this.#queuedBytes -= item.kind === 'batches' ? item.bytes : MARK_BYTES
      this.#options.metrics.queued(this.#queuedBytes)
      const { revision, settled } = this.#written
      this.#unacknowledged.add(item)
      switch (item.kind) {
        case 'batches': {
          const last = item.batches.at(-1) as Batch
          this.#fingerprint.applied(item.batches)
          this.#send(item, { kind: 'batches', batches: item.batches }, last.revision, last.revision)
          break
        }
        case 'progress': {
          const reached = item.revision > revision ? item.revision : revision
          this.#send(item, { kind: 'progress', testimony: this.#testimony() }, reached, settled)
          break
        }
        case 'synced':
          this.#isSynced = true
          this.#send(item, { kind: 'progress', testimony: this.#testimony() }, revision, settled)
          break
        case 'state':
          this.#isSynced = false
          this.#fingerprint = item.fingerprint
          this.#isUploading = true
          void this.#publishState(item)
          break
        default:
          item satisfies never
      }
    }
  }

  /** The snapshot first: whoever reads the mark finds it. */
  async #publishState(item: Extract<Queued, { kind: 'state' }>): Promise<void> {
    const { revision, reason, snapshot } = item
    const { names, client, clock } = this.#options
    try {
      const name = names.snapshot(this.#epoch, revision, clock.now())
      this.#clusterId = this.#feed?.clusterId ?? this.#clusterId
      await this.#store.put(name, snapshot)
      if (this.#stopping.signal.aborted) return
      const body: Body = { kind: 'state', reason, snapshot: name, testimony: this.#testimony() }
      const sequence = await this.#write(body, revision, revision)
      this.#unacknowledged.delete(item)
      this.#isUploading = false
      this.#flush()
      this.#lastSnapshotBytes = snapshot.bytes
      const entry = {
        ...this.#entryAt({ sequence, revision, settled: revision }, name, snapshot.keys),
        isSynced: false,
      }
      await this.#store.add(entry, (await client.streamState(names.stream))?.first ?? 1, true)
    } catch (error) {
      this.#end(error instanceof Error ? error.message : String(error))
    }
  }

  #send(item: Pending, body: Body, revision: Revision, settled: Revision): void {
    this.#write(body, revision, settled).then(
      () => this.#unacknowledged.delete(item),
      (error: unknown) => this.#end(error instanceof Error ? error.message : String(error)),
    )
  }

  /** Returns when it and everything before it is in the stream. @throws BrokerError */
  async #write(body: Body, revision: Revision, settled: Revision): Promise<number> {
    const { client, clock, metrics } = this.#options
    const writer = this.#writer
    if (writer === null) throw new BrokerError('unavailable', 'not started')
    const header: Header = {
      epoch: this.#epoch,
      previous: this.#written.revision,
      revision,
      settled,
      sentAt: clock.now(),
      isSynced: this.#isSynced,
      trustsProgress: this.#feed?.trustsProgress ?? false,
    }
    const parts = encodeMessage({ ...header, ...body, clusterId: this.#clusterId }, client.maxPayloadBytes)
    const bytes = parts.reduce((sum, part) => sum + part.length, 0)
    this.#inFlight++
    this.#inFlightBytes += bytes
    this.#lastWriteMs = clock.monotonic()
    const expected = this.#written.sequence
    this.#written = { sequence: expected + parts.length, revision, settled }
    const reached = this.#written
    const acknowledgements = await Promise.all(parts.map((part, index) => writer.write(part, expected + index)))
    if (acknowledgements.at(-1) !== reached.sequence) {
      throw new BrokerError('conflict', `written at ${acknowledgements.at(-1)} instead of ${reached.sequence}`)
    }
    this.#inFlight--
    this.#inFlightBytes -= bytes
    if (reached.sequence > this.#acknowledged.sequence) this.#acknowledged = reached
    this.#since.messages += parts.length
    this.#since.bytes += bytes
    metrics.published(parts.length, body.kind === 'batches' ? countEvents(body.batches) : 0, bytes)
    this.#flush()
    this.#considerSnapshot()
    return reached.sequence
  }

  #testimony(): Testimony {
    return { newest: this.#fingerprint.newest, lastDelete: this.#fingerprint.lastDelete }
  }

  // Snapshots

  #considerSnapshot(): void {
    const { snapshotMessages, snapshotBytes } = this.#options
    const { messages, bytes } = this.#since
    if (bytes >= Math.max(snapshotBytes, this.#lastSnapshotBytes) || messages >= snapshotMessages) {
      this.#isSnapshotDue = true
    }
    if (!this.#isSnapshotDue || !this.#isSynced || this.#snapshotting !== null || this.#stopping.signal.aborted) return
    if (this.#isUploading || this.#acknowledged.revision === ZERO_REVISION) return
    this.#isSnapshotDue = false
    this.#snapshotting = this.#takeSnapshot().finally(() => {
      this.#snapshotting = null
    })
  }

  async #takeSnapshot(): Promise<void> {
    const { client, names, clock, prefix, upstream, logger, metrics } = this.#options
    const at = this.#acknowledged
    const startedMs = clock.monotonic()
    this.#since = { messages: 0, bytes: 0 }
    const signal = this.#stopping.signal
    try {
      const snapshot = new SnapshotWriter()
      const { revision } = at
      const pages = { upstream, prefix, revision, pageKeys: PAGE_KEYS, pageTimeoutMs: PAGE_TIMEOUT_MS, clock, signal }
      for await (const page of readPages(pages)) snapshot.add(page.keyValues)
      const name = names.snapshot(this.#epoch, revision, clock.now())
      await this.#store.put(name, snapshot)
      const first = (await client.streamState(names.stream))?.first ?? 1
      await this.#store.add(this.#entryAt(at, name, snapshot.keys), first, false)
      this.#lastSnapshotBytes = snapshot.bytes
      metrics.snapshot((clock.monotonic() - startedMs) / 1_000, snapshot.bytes)
    } catch (error) {
      if (signal.aborted) return
      const reason = error instanceof Error ? error.message : String(error)
      logger.warn({ stream: names.stream, reason }, 'no snapshot; tries again')
      this.#snapshotTimer = clock.setTimer(SNAPSHOT_RETRY_MS, () => {
        this.#isSnapshotDue = true
        this.#considerSnapshot()
      })
    }
  }

  #entryAt(at: { sequence: number; revision: Revision; settled: Revision }, name: string, keys: number) {
    const trustsProgress = this.#feed?.trustsProgress ?? false
    return {
      name,
      ...at,
      epoch: this.#epoch,
      clusterId: this.#clusterId,
      keys,
      isSynced: this.#isSynced,
      trustsProgress,
      takenAt: this.#options.clock.now(),
    }
  }

  // Signs of life

  #tellStatusIn(delayMs: number): void {
    this.#statusTimer?.cancel()
    this.#statusTimer = this.#options.clock.setTimer(delayMs, () => void this.#tellStatus())
  }

  async #tellStatus(): Promise<void> {
    const { clock, limits, pulse, prefix } = this.#options
    this.#tellStatusIn(STATUS_INTERVAL_MS)
    await pulse.beat(prefix, PULSE_PATIENCE_MS, this.#stopping.signal)
    if (this.#stopping.signal.aborted) return
    this.#publishStatus()
    // A stream whose last message is discarded for its age could not be gone on from.
    const isQuiet = clock.monotonic() - this.#lastWriteMs > limits.maxAgeMs / 4
    if (isQuiet && this.#isSynced && this.#trouble === null) {
      this.#enqueue({ kind: 'progress', revision: ZERO_REVISION, sinceMs: this.#nowMs() }, MARK_BYTES)
      // What stood in the stream before it goes with its age, and the snapshots that stand there with it.
      this.#isSnapshotDue = true
    }
  }

  #nowMs(): number {
    return this.#options.clock.monotonic()
  }

  /** null before the feed was ever where etcd is. */
  #ageMs(): number | null {
    const { askedAtMs } = this.#options.pulse
    if (this.#isCaughtUp && askedAtMs !== null) this.#vouchedMs = Math.max(this.#vouchedMs ?? askedAtMs, askedAtMs)
    if (this.#vouchedMs === null) return null
    const [oldest = this.#queue[0]] = this.#unacknowledged
    return this.#nowMs() - Math.min(this.#vouchedMs, oldest?.sinceMs ?? this.#vouchedMs)
  }

  #publishStatus(): void {
    if (this.#stopping.signal.aborted) return
    const { client, names } = this.#options
    const { sequence } = this.#acknowledged
    this.#saidMs = this.#nowMs()
    const word = { at: this.#saidMs, ageMs: this.#ageMs() }
    const status: PublisherStatus = { epoch: this.#epoch, sequence, ...word, trouble: this.#trouble }
    client.publish(names.status, Buffer.from(JSON.stringify(status)))
  }
}

function countEvents(batches: readonly Batch[]): number {
  let events = 0
  for (const batch of batches) events += batch.events.length
  return events
}

/** What the publisher before this one had handed on last. */
function fingerprintOf(message: Message): HistoryFingerprint {
  const fingerprint = new HistoryFingerprint()
  if (message.kind === 'batches') fingerprint.applied(message.batches)
  else fingerprint.recalled(message.testimony.newest, message.testimony.lastDelete)
  return fingerprint
}
