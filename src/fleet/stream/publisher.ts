/**
 * Publishes one resource's feed to its stream, for as long as this process is the elected publisher.
 *
 *     etcd ─▶ feed ─▶ queue ─▶ one message in flight (it expects the sequence before it) ─▶ stream
 *                       └─ while it is in flight, batches accumulate and share the next message
 *
 * A session continues exactly after the stream's last message: the feed compares the history and watches etcd from
 * there. The first write of a session (a claim, or a whole state) raises the epoch; from then on every write of an
 * earlier publisher expects a sequence that is gone, and is rejected. The first failed write ends the session, because
 * all later ones fail too: the next session reads the tail again, no matter who wrote it. Retrying single messages was
 * rejected, because a retry can only guess whether the first attempt was written.
 *
 * `snapshot-taker.ts` decides when snapshots are taken; `status-sender.ts` reports how old the stream is.
 */
import type { Feed } from '../../engine/feed/feed.js'
import type { FeedSink, Replacement, ReplaceReason } from '../../engine/model/feed-sink.js'
import type { FleetMetrics } from '../fleet-metrics.js'
import { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Batch, Key } from '../../engine/model/event.js'
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { UpstreamReader } from '../../engine/upstream/upstream.js'
import { type Broker, BrokerError, type Closable, type StreamLimits } from '../broker.js'
import type { Body, Message, Testimony } from './message.js'
import { MessageWriter, type StreamPlace } from './message-writer.js'
import type { Names } from './names.js'
import type { Envelope } from './envelope.js'
import type { EtcdPulse } from './etcd-pulse.js'
import { ProgressCoalescer } from './progress-coalescer.js'
import { mayWrite, nextPublisherState, type PublisherInput, type PublisherState, sessionOf } from './publisher-state.js'
import { PublishQueue, type Queued, type QueuedState } from './publish-queue.js'
import { answerQuestions } from './questions.js'
import { type SnapshotStore, SnapshotWriter } from './snapshot-store.js'
import { type SnapshotPlace, SnapshotTaker } from './snapshot-taker.js'
import { StatusSender } from './status-sender.js'
import { FINGERPRINT_EVERY } from './recall-history.js'
import { readTail, type StreamEnd } from './tail.js'
import { errorMessage } from '../../support/error-message.js'

/** The part of a feed that a publisher drives. */
type PublishedFeed = Pick<Feed, 'clusterId' | 'trustsProgress' | 'start' | 'stop' | 'requestProgress'>

export type PublisherMetrics = Pick<FleetMetrics, 'published' | 'snapshot' | 'queued'>

export interface PublisherOptions {
  readonly client: Broker
  readonly names: Names
  readonly envelope: Envelope
  readonly store: SnapshotStore
  readonly prefix: Key
  readonly upstream: UpstreamReader
  readonly openFeed: (sink: FeedSink) => PublishedFeed
  readonly pulse: EtcdPulse
  readonly limits: StreamLimits
  readonly clock: Clock
  readonly logger: Logger
  readonly metrics: PublisherMetrics
  /** A snapshot is due after this many messages, or after as many bytes as the larger of this and the last snapshot. */
  readonly snapshotMessages: number
  readonly snapshotBytes: number
  /** Called once, when the session is over and nothing more is written. */
  readonly onEnd: (reason: string) => void
}

/** Beyond this the session ends, and the next one reads from etcd what this one could not keep. */
const QUEUE_BYTES = 64 * 2 ** 20

/** What a session has once the end of the stream is known. */
interface Session {
  readonly messages: MessageWriter
  readonly feed: PublishedFeed
}

export class Publisher {
  readonly #options: PublisherOptions
  readonly #snapshots: SnapshotTaker
  readonly #status: StatusSender
  readonly #progress: ProgressCoalescer
  readonly #queue: PublishQueue
  #state: PublisherState<Session> = { kind: 'reading' }
  /** Removes the responder to subscribers, and the listener for new keys. */
  #detach: () => void = () => {}
  #clusterId = ''
  /** When the last message of the previous publisher was written; null if there is nothing to continue. */
  #continuedAt: number | null = null
  /** Describes what was written, not what is queued: a mark testifies to its own revision. */
  #fingerprint = new HistoryFingerprint()
  #sinceFingerprint = 0

  constructor(options: PublisherOptions) {
    this.#options = options
    const { client, names, envelope, prefix, pulse, clock } = options
    this.#progress = new ProgressCoalescer(clock, (revision) => this.#enqueueProgress(revision))
    this.#snapshots = new SnapshotTaker({ ...options, place: () => this.#snapshotPlace() })
    this.#status = new StatusSender({
      client,
      subject: names.status,
      envelope,
      prefix,
      pulse,
      clock,
      position: () => ({ epoch: this.epoch, sequence: this.#session?.messages.acknowledged.sequence ?? 0 }),
      onTold: () => this.#keepAlive(),
    })
    this.#queue = new PublishQueue((item) => {
      // Progress is not content: its absence makes nothing older.
      if (item.kind !== 'progress') this.#status.received(item)
    })
  }

  get epoch(): number {
    return this.#session?.messages.epoch ?? 0
  }

  get #session(): Session | null {
    return sessionOf(this.#state)
  }

  get #isOver(): boolean {
    return this.#state.kind === 'over'
  }

  #next(input: PublisherInput<Session>): void {
    this.#state = nextPublisherState(this.#state, input)
  }

  /** Takes over the stream and begins to feed it. A failure ends the session (`onEnd`) and is not thrown. */
  async start(): Promise<void> {
    try {
      await this.#begin()
    } catch (error) {
      this.#end(errorMessage(error))
      if (!(error instanceof BrokerError)) this.#options.logger.error({ err: error }, 'unexpected error in a publisher')
    }
  }

  /** Nothing is written after the call. Resolves when nothing of the session is running any more. */
  async stop(): Promise<void> {
    this.#halt()
    await Promise.all([this.#session?.feed.stop(), this.#snapshots.stop()])
  }

  async #begin(): Promise<void> {
    const { client, names, envelope, limits } = this.#options
    await client.ensureStream(names.stream, names.log, limits)
    const { sequence, first, end } = await readTail(client, names, envelope)
    const message = end?.message ?? null
    if (this.#isOver) return
    const feed = this.#options.openFeed(this.#sink())
    const session = { messages: this.#openWriter(sequence, message), feed }
    this.#next({ kind: 'read', session, continues: message?.isSynced === true })
    if (end?.message.isSynced !== true) {
      feed.start()
    } else {
      await this.#claim(end)
      if (this.#isOver) return
      const { settled, revision, clusterId } = end.message
      feed.start({ place: { settled, position: revision }, clusterId, fingerprint: end.fingerprint })
      void this.#snapshots.requestUnlessUsable(first, sequence)
    }
    const answering = this.#answer(feed)
    // Data that the new key has not signed becomes unreadable once the old key is gone.
    const unfollowKeys = envelope.onKeysChanged(() => this.#snapshots.request())
    this.#detach = () => {
      answering.close()
      unfollowKeys()
    }
    this.#status.start()
    this.#snapshots.consider()
  }

  #openWriter(sequence: number, last: Message | null): MessageWriter {
    const { client, names, envelope, clock, metrics } = this.#options
    const isContinued = last?.isSynced === true
    return new MessageWriter({
      client,
      writer: client.openWriter(names.log),
      envelope,
      clock,
      metrics,
      // If no epoch is left to count from, the sequence is at least as high as any: each has written a message.
      epoch: (last?.epoch ?? sequence) + 1,
      place: {
        sequence,
        revision: isContinued ? last.revision : ZERO_REVISION,
        settled: isContinued ? last.settled : ZERO_REVISION,
      },
      onAcknowledged: (parts, bytes, kind) => {
        this.#flush()
        this.#snapshots.written(parts, bytes, kind !== 'progress')
      },
    })
  }

  /** Continues after the last message of the previous publisher. @throws BrokerError when another was faster. */
  async #claim({ message, fingerprint }: StreamEnd): Promise<void> {
    const { revision, settled, clusterId, sentAt } = message
    this.#clusterId = clusterId
    this.#continuedAt = sentAt
    this.#queue.continueSynced()
    this.#progress.reset(revision)
    this.#fingerprint = HistoryFingerprint.recalled(fingerprint)
    await this.#write({ kind: 'claim', testimony: this.#testimony() }, revision, settled)
  }

  #answer(feed: PublishedFeed): Closable {
    const { client, names, envelope, prefix, upstream } = this.#options
    const answers = {
      upstream,
      prefix,
      envelope,
      maxBytes: client.maxPayloadBytes,
      onProgressWanted: () => feed.requestProgress(),
      onSnapshotWanted: () => this.#snapshots.requestForSubscriber(),
      onStatusWanted: () => this.#status.request(),
    }
    return client.respond(names.ask, answerQuestions(answers))
  }

  #halt(): void {
    this.#next({ kind: 'end' })
    this.#session?.messages.close()
    this.#detach()
    this.#status.stop()
    this.#progress.stop()
    void this.#snapshots.stop()
    this.#queue.clear()
    this.#options.metrics.queued(0)
  }

  #end(reason: string): void {
    if (this.#isOver) return
    this.#halt()
    this.#options.onEnd(reason)
  }

  // Calls from the feed

  #sink(): FeedSink {
    return {
      replace: (revision, reason) => this.#replace(revision, reason),
      apply: (batches) => this.#enqueueBatches(batches),
      progress: (revision) => this.#progress.offer(revision),
      synced: () => {
        this.#status.caughtUp()
        if (this.#queue.add({ kind: 'synced' })) this.#queueGrew()
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
        this.#status.fellBehind()
        this.#progress.reset(revision)
        const stateReason = reason === 'initial' ? 'gap' : reason
        this.#queue.add({ kind: 'state', revision, reason: stateReason, snapshot, fingerprint })
        this.#queueGrew()
      },
      abort: () => {},
    }
  }

  #enqueueBatches(batches: readonly Batch[]): void {
    this.#queue.addBatches(batches)
    for (const { revision } of batches) this.#progress.reached(revision)
    this.#queueGrew()
  }

  #enqueueProgress(revision: Revision): void {
    this.#queue.add({ kind: 'progress', revision })
    this.#queueGrew()
  }

  #queueGrew(): void {
    if (this.#queue.bytes > QUEUE_BYTES) {
      return this.#end(`more than ${QUEUE_BYTES} bytes wait to be published`)
    }
    this.#options.metrics.queued(this.#queue.bytes)
    this.#flush()
  }

  // Writing

  #flush(): void {
    while (mayWrite(this.#state) && this.#state.session.messages.hasRoom) {
      const item = this.#queue.shift()
      if (item === undefined) return
      this.#options.metrics.queued(this.#queue.bytes)
      const { revision, settled } = this.#state.session.messages.written
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
          this.#next({ kind: 'caught-up' })
          this.#send(item, { kind: 'progress', testimony: this.#testimony() }, revision, settled)
          break
        case 'state':
          this.#next({ kind: 'relisted' })
          this.#fingerprint = item.fingerprint
          void this.#publishState(item)
          break
        default:
          item satisfies never
      }
    }
  }

  /** Uploads the snapshot before it writes the mark, so that every reader of the mark finds the snapshot. */
  async #publishState(item: QueuedState): Promise<void> {
    const { revision, reason, snapshot } = item
    const { names, clock } = this.#options
    try {
      const name = names.snapshot(this.epoch, revision, clock.now())
      this.#clusterId = this.#session?.feed.clusterId ?? this.#clusterId
      await this.#snapshots.put(name, snapshot)
      if (this.#isOver) return
      const body: Body = { kind: 'state', reason, snapshot: name, testimony: this.#testimony() }
      const place = await this.#write(body, revision, revision)
      this.#status.published(item)
      this.#next({ kind: 'state-written' })
      this.#flush()
      await this.#snapshots.publishState(name, snapshot, { ...this.#describe(place), isSynced: false })
    } catch (error) {
      this.#end(errorMessage(error))
    }
  }

  #send(item: Queued, body: Body, revision: Revision, settled: Revision): void {
    this.#write(body, revision, settled).then(
      () => this.#status.published(item),
      (error: unknown) => this.#end(errorMessage(error)),
    )
  }

  /** Resolves when the stream has the message and everything before it. @throws BrokerError */
  async #write(body: Body, revision: Revision, settled: Revision): Promise<StreamPlace> {
    if (this.#session === null) throw new BrokerError('unavailable', 'not started')
    const { messages, feed } = this.#session
    const { trustsProgress } = feed
    const stamp = { revision, settled, isSynced: this.#isSynced, trustsProgress, clusterId: this.#clusterId }
    const fingerprint = this.#isFingerprintDue(body) ? { fingerprint: this.#fingerprint.digested() } : {}
    return await messages.write(body, { ...stamp, ...fingerprint })
  }

  get #isSynced(): boolean {
    return this.#state.kind === 'synced'
  }

  /** The first message of a session includes it, and then one of every few. */
  #isFingerprintDue({ kind }: Body): boolean {
    if (kind !== 'claim' && kind !== 'state' && ++this.#sinceFingerprint < FINGERPRINT_EVERY) return false
    this.#sinceFingerprint = 0
    return true
  }

  #testimony(): Testimony {
    const { newest, lastDelete } = this.#fingerprint
    return { newest: newest !== null && 'value' in newest ? newest : null, lastDelete }
  }

  #snapshotPlace(): SnapshotPlace | null {
    if (!this.#isSynced || this.#session === null) return null
    const { acknowledged } = this.#session.messages
    return acknowledged.revision === ZERO_REVISION ? null : this.#describe(acknowledged)
  }

  #describe(place: StreamPlace): SnapshotPlace {
    const trustsProgress = this.#session?.feed.trustsProgress ?? false
    const takenAt = this.#asOf()
    return {
      ...place,
      epoch: this.epoch,
      clusterId: this.#clusterId,
      isSynced: this.#isSynced,
      trustsProgress,
      takenAt,
    }
  }

  /**
   * Returns the wall-clock time of the etcd content in the stream: until more is known, a continued stream is as old as
   * its last message.
   */
  #asOf(): number {
    const { ageMs } = this.#status
    const now = this.#options.clock.now()
    return ageMs === null ? (this.#continuedAt ?? now) : now - ageMs
  }

  /** Writes a mark before the last message grows too old to be kept: no publisher can continue after a discarded message. */
  #keepAlive(): void {
    const { clock, limits } = this.#options
    if (this.#session === null || !this.#isSynced || this.#status.trouble !== null) return
    if (clock.monotonic() - this.#session.messages.lastWriteMs <= limits.maxAgeMs / 4) return
    this.#enqueueProgress(ZERO_REVISION)
    // The older messages will be discarded for their age, and with them the places of the snapshots taken there.
    this.#snapshots.request()
  }
}
