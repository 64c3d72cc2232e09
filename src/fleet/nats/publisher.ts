/**
 * Writes one resource's feed to its stream, for as long as this process is the one elected to.
 *
 *     etcd ─▶ feed ─▶ queue ─▶ messages on their way (each expects the sequence before it) ─▶ stream
 *                       └─ while too many are on their way, batches gather and share a message
 *
 * It goes on exactly after the stream's last message: the feed compares the history and watches etcd from there.
 * The first write of a session (a claim, or a whole state) raises the epoch; from then on every write of an earlier
 * publisher expects a sequence that is gone, and is refused. Any write that fails ends the session, because all after it
 * fail too: the next one reads the tail again, whoever's it is. A retry of single messages was rejected, for it can only
 * guess whether the first try was written.
 *
 * When snapshots are taken is `snapshot-taker.ts`, what is said of the stream's age `status-sender.ts`.
 */
import type { FeedStatus } from '../../feed/feed-options.js'
import type { FeedResume } from '../../feed/history-reader.js'
import type { FeedSink, Replacement, ReplaceReason } from '../../model/feed-sink.js'
import type { FleetMetrics } from '../../model/stage-metrics.js'
import { HistoryFingerprint } from '../../feed/history-fingerprint.js'
import type { Batch, Key } from '../../model/event.js'
import { type Revision, ZERO_REVISION } from '../../model/revision.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { UpstreamReader } from '../../upstream/upstream.js'
import { batchBytes } from '../key-value-codec.js'
import { encodeMessage, type Body, type Header, type Message, type StateReason, type Testimony } from './message.js'
import type { Names } from './names.js'
import { BrokerError } from './broker-error.js'
import type { Closable } from './closable.js'
import type { NatsClient, StreamLimits } from './nats-client.js'
import type { StreamWriter } from './stream-writer.js'
import type { EtcdPulse } from './etcd-pulse.js'
import { ProgressCoalescer } from './progress-coalescer.js'
import { answerQuestions } from './questions.js'
import { SnapshotWriter } from './snapshot-store.js'
import { type SnapshotPlace, SnapshotTaker } from './snapshot-taker.js'
import { StatusSender, type Unpublished } from './status-sender.js'
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

export type PublisherMetrics = Pick<FleetMetrics, 'published' | 'snapshot' | 'queued'>

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
  /** Called once, when the session is over: nothing is written any more. */
  readonly onEnd: (reason: string) => void
}

/** No more than this is on its way without an acknowledgement. */
const WINDOW_MESSAGES = 64
const WINDOW_BYTES = 4 * 2 ** 20
/** Waiting batches share messages up to this size. */
const MESSAGE_BYTES = 256 * 1024
/** Beyond this the session ends, and the next one reads from etcd what this one could not keep. */
const QUEUE_BYTES = 64 * 2 ** 20
type Queued = Unpublished &
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

/** A message without batches counts as so much in the queue. */
const MARK_BYTES = 64

export class Publisher {
  readonly #options: PublisherOptions
  readonly #snapshots: SnapshotTaker
  readonly #status: StatusSender
  readonly #progress: ProgressCoalescer
  #feed: PublishedFeed | null = null
  #writer: StreamWriter | null = null
  #answering: Closable | null = null
  readonly #stopping = new AbortController()

  readonly #queue: Queued[] = []
  #queuedBytes = 0
  #isUploading = false
  #inFlight = 0
  #inFlightBytes = 0

  #epoch = 0
  #clusterId = ''
  #isSynced = false
  #hasSaidSynced = false
  /** Recognises what was written, not what is queued: a mark testifies to its own revision. */
  #fingerprint = new HistoryFingerprint()
  /** Where the stream will stand when everything written has arrived. */
  #written = { sequence: 0, revision: ZERO_REVISION, settled: ZERO_REVISION }
  /** Where it stands for certain. */
  #acknowledged = { sequence: 0, revision: ZERO_REVISION, settled: ZERO_REVISION }
  #lastWriteMs = 0

  constructor(options: PublisherOptions) {
    this.#options = options
    const { client, names, prefix, pulse, clock } = options
    this.#progress = new ProgressCoalescer(clock, (revision) => this.#enqueueProgress(revision))
    this.#snapshots = new SnapshotTaker({ ...options, place: () => this.#snapshotPlace() })
    this.#status = new StatusSender({
      client,
      subject: names.status,
      prefix,
      pulse,
      clock,
      position: () => ({ epoch: this.#epoch, sequence: this.#acknowledged.sequence }),
      onTold: () => this.#keepAlive(),
    })
  }

  get epoch(): number {
    return this.#epoch
  }

  /** The revision up to which the stream has acknowledged everything. */
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
    await Promise.all([this.#feed?.stop(), this.#snapshots.stop()])
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
      this.#progress.reset(revision)
      this.#fingerprint = fingerprintOf(message)
      await this.#write({ kind: 'claim', testimony: this.#testimony() }, revision, settled)
      if (this.#stopping.signal.aborted) return
      feed.start({ place: { settled, position: revision }, clusterId, fingerprint: fingerprintOf(message) })
      await this.#snapshots.requestUnlessUsable(first, sequence)
    }
    const { prefix, upstream } = this.#options
    const onProgressWanted = (): void => feed.requestProgress()
    const onSnapshotWanted = (): void => this.#snapshots.request()
    const maxBytes = client.maxPayloadBytes
    const onStatusWanted = (): void => this.#status.request()
    const answers = { upstream, prefix, maxBytes, onProgressWanted, onSnapshotWanted, onStatusWanted }
    this.#answering = client.respond(names.ask, answerQuestions(answers))
    this.#lastWriteMs = clock.monotonic()
    this.#status.start()
    this.#snapshots.consider()
  }

  #halt(): void {
    this.#stopping.abort(new BrokerError('unavailable', 'stopped'))
    this.#writer?.close()
    this.#answering?.close()
    this.#status.stop()
    this.#progress.stop()
    void this.#snapshots.stop()
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
      progress: (revision) => this.#progress.offer(revision),
      synced: () => {
        this.#status.caughtUp()
        if (!this.#hasSaidSynced) {
          this.#hasSaidSynced = true
          this.#enqueue({ kind: 'synced', sinceMs: this.#options.clock.monotonic() }, MARK_BYTES)
        }
      },
      disconnected: (reason) => this.#status.troubled(reason, false),
      refused: (reason) => this.#status.troubled(reason, true),
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
        this.#hasSaidSynced = false
        this.#status.fellBehind()
        const sinceMs = this.#options.clock.monotonic()
        this.#progress.reset(revision)
        const stateReason = reason === 'initial' ? 'gap' : reason
        this.#enqueue({ kind: 'state', revision, reason: stateReason, snapshot, fingerprint, sinceMs }, MARK_BYTES)
      },
      abort: () => {},
    }
  }

  #enqueueBatches(batches: readonly Batch[]): void {
    const last = this.#queue.at(-1)
    let into = last?.kind === 'batches' ? last : null
    const sinceMs = this.#options.clock.monotonic()
    for (const batch of batches) {
      const bytes = batchBytes(batch)
      if (into === null || into.bytes + bytes > MESSAGE_BYTES) {
        into = { kind: 'batches', batches: [], bytes: 0, sinceMs }
        this.#queue.push(into)
        this.#status.received(into)
      }
      into.batches.push(batch)
      into.bytes += bytes
      this.#queuedBytes += bytes
      this.#progress.reached(batch.revision)
    }
    this.#queueGrew()
  }

  #enqueueProgress(revision: Revision): void {
    this.#enqueue({ kind: 'progress', revision, sinceMs: this.#options.clock.monotonic() }, MARK_BYTES)
  }

  #enqueue(item: Queued, bytes: number): void {
    this.#queue.push(item)
    this.#status.received(item)
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
    const { names, clock } = this.#options
    try {
      const name = names.snapshot(this.#epoch, revision, clock.now())
      this.#clusterId = this.#feed?.clusterId ?? this.#clusterId
      await this.#snapshots.put(name, snapshot)
      if (this.#stopping.signal.aborted) return
      const body: Body = { kind: 'state', reason, snapshot: name, testimony: this.#testimony() }
      const sequence = await this.#write(body, revision, revision)
      this.#status.published(item)
      this.#isUploading = false
      this.#flush()
      const place = { ...this.#describe({ sequence, revision, settled: revision }), isSynced: false }
      await this.#snapshots.publishState(name, snapshot, place)
    } catch (error) {
      this.#end(error instanceof Error ? error.message : String(error))
    }
  }

  #send(item: Unpublished, body: Body, revision: Revision, settled: Revision): void {
    this.#write(body, revision, settled).then(
      () => this.#status.published(item),
      (error: unknown) => this.#end(error instanceof Error ? error.message : String(error)),
    )
  }

  /** Resolves when the message and everything before it is in the stream. @throws BrokerError */
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
    metrics.published(parts.length, body.kind === 'batches' ? countEvents(body.batches) : 0, bytes)
    this.#flush()
    this.#snapshots.written(parts.length, bytes, body.kind !== 'progress')
    return reached.sequence
  }

  #testimony(): Testimony {
    return { newest: this.#fingerprint.newest, lastDelete: this.#fingerprint.lastDelete }
  }

  #snapshotPlace(): SnapshotPlace | null {
    if (!this.#isSynced || this.#isUploading || this.#acknowledged.revision === ZERO_REVISION) return null
    return this.#describe(this.#acknowledged)
  }

  #describe(at: { sequence: number; revision: Revision; settled: Revision }): SnapshotPlace {
    const trustsProgress = this.#feed?.trustsProgress ?? false
    return { ...at, epoch: this.#epoch, clusterId: this.#clusterId, isSynced: this.#isSynced, trustsProgress }
  }

  /** A stream whose last message is discarded for its age could not be gone on from. */
  #keepAlive(): void {
    const { clock, limits } = this.#options
    const isQuiet = clock.monotonic() - this.#lastWriteMs > limits.maxAgeMs / 4
    if (!isQuiet || !this.#isSynced || this.#status.trouble !== null) return
    this.#enqueueProgress(ZERO_REVISION)
    // What stood in the stream before goes with its age, and the snapshots that stand there with it.
    this.#snapshots.request()
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
