/**
 * Publishes one resource's feed to its stream, for as long as this process is the elected publisher.
 *
 *     etcd ─▶ feed ─▶ queue ─▶ a loop writes one message after the other, each of which expects the sequence before it
 *                       └─ while a message is in flight, batches accumulate and share the next message
 *
 * A session continues exactly after the stream's last message. The feed compares the history and watches etcd from
 * there. The first write of a session (a claim, or a whole state) raises the epoch. From then on, every write of an
 * earlier publisher is rejected, because it expects a sequence that is no longer the last. The first failed write ends
 * the session, because all later writes would fail too. The next session reads the tail again, no matter who wrote it.
 * Retrying single messages was rejected, because a retry can only guess whether the first attempt was written.
 *
 * `snapshot-taker.ts` decides when snapshots are taken; `status-sender.ts` reports how old the stream is.
 */
import type { Feed } from '../../engine/feed/feed.js'
import type { FeedSink, Replacement, ReplaceReason } from '../../engine/model/feed-sink.js'
import { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Batch, Key } from '../../engine/model/event.js'
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import type { StateReader } from '../../engine/upstream/upstream.js'
import { type Appender, BrokerError, type Closable, type StreamBounds, type StreamLimits } from '../broker.js'
import { type Body, encodeMessage } from './message.js'
import { PublishQueue, type Queued, type QueuedState } from './publish-queue.js'
import { edgeRequestHandler } from './remote-reader.js'
import { beginAfter, isFingerprintDue, nextMessage, NOT_STARTED, type Session, written } from './publisher-session.js'
import { SnapshotWriter } from './snapshot-store.js'
import { type SnapshotPlace, SnapshotTaker } from './snapshot-taker.js'
import { StatusSender } from './status-sender.js'
import type { StreamContext } from './stream-context.js'
import { readTail, type StreamEnd } from './tail.js'
import { errorMessage } from '../../support/error-message.js'
import { NATS_QUEUE_BYTES } from '../limits.js'

/** The part of a feed that a publisher drives. */
type PublishedFeed = Pick<
  Feed,
  'ageMs' | 'clusterId' | 'trustsProgress' | 'confirm' | 'start' | 'stop' | 'requestProgress'
>

export interface PublisherOptions extends StreamContext {
  readonly prefix: Key
  readonly upstream: StateReader
  readonly openFeed: (sink: FeedSink) => PublishedFeed
  readonly limits: StreamLimits
  /**
   * A snapshot is due after this many messages, or after as many bytes as `snapshotBytes` or the last snapshot,
   * whichever is larger.
   */
  readonly snapshotMessages: number
  readonly snapshotBytes: number
  /** Returns the highest epoch of the messages that this process has followed; 0 if none. */
  readonly knownEpoch: () => number
  /** Called once, when the session is over and nothing more is written. */
  readonly onEnd: (reason: string) => void
}

export class Publisher {
  readonly #stopping = new AbortController()
  readonly #writer: Appender
  readonly #feed: PublishedFeed
  readonly #snapshots: SnapshotTaker
  readonly #status: StatusSender
  readonly #queue: PublishQueue
  /** Removes the responder to subscribers, and the listener for new keys. */
  #detach: () => void = () => {}
  #session: Session = NOT_STARTED
  /** Covers everything written, but not what is queued. */
  #fingerprint = new HistoryFingerprint()
  /** When the last message with a fingerprint was sent, in monotonic milliseconds. */
  #fingerprintSentMs = 0
  /** The configured limits, or those of the stream where they are lower. */
  #bounds: StreamBounds

  constructor(private readonly options: PublisherOptions) {
    const { client, names, clock } = options
    this.#bounds = options.limits
    this.#writer = client.openWriter(names.log)
    this.#feed = options.openFeed(this.#sink())
    this.#snapshots = new SnapshotTaker({
      ...options,
      bounds: () => this.#bounds,
      place: () => this.#snapshotPlace(),
      requestProgress: () => this.#feed.requestProgress(),
    })
    this.#status = new StatusSender({
      ...options,
      feed: this.#feed,
      position: () => this.#session,
      prove: (requestedAtMs) => this.#queue.addProof(requestedAtMs),
      onSent: () => this.#keepAlive(),
    })
    this.#queue = new PublishQueue(clock)
  }

  get #isOver(): boolean {
    return this.#stopping.signal.aborted
  }

  /** Takes over the stream and begins to feed it. A failure ends the session (`onEnd`) and is not thrown. */
  async start(): Promise<void> {
    try {
      await this.#begin()
      void this.#run()
    } catch (error) {
      this.#failed(error)
    }
  }

  /**
   * Nothing is written to the stream after this call. Resolves when no work of the session is running any more, except
   * an upload under way.
   */
  async stop(): Promise<void> {
    this.#halt()
    await Promise.all([this.#feed.stop(), this.#snapshots.stop()])
  }

  async #begin(): Promise<void> {
    const { client, names, envelope, limits } = this.options
    const { maxBytes, maxAgeMs } = await client.ensureStream(names.stream, names.log, limits)
    this.#bounds = { maxBytes: Math.min(maxBytes, limits.maxBytes), maxAgeMs: Math.min(maxAgeMs, limits.maxAgeMs) }
    const tail = await readTail(client, names, envelope)
    const { end } = tail
    if (this.#isOver) return
    this.#session = beginAfter(tail, this.options.knownEpoch())
    if (end !== null && this.#session.isSynced) {
      await this.#claim(end)
      if (this.#isOver) return
      const { settled, revision, clusterId } = end.message
      this.#feed.start({ place: { settled, position: revision }, clusterId, fingerprint: end.fingerprint })
    } else this.#feed.start()
    const responder = this.#openResponder()
    // Data that was not signed with the new key becomes unreadable once the old key is removed, so a new snapshot is
    // needed.
    const unfollowKeys = envelope.onKeysChanged(() => this.#snapshots.request())
    this.#detach = () => {
      responder.close()
      unfollowKeys()
    }
    this.#status.start()
    this.#snapshots.consider()
  }

  /**
   * Continues after the last message of the previous publisher.
   * @throws BrokerError when another publisher was faster.
   */
  async #claim({ fingerprint }: StreamEnd): Promise<void> {
    this.#queue.continueSynced()
    this.#fingerprint = HistoryFingerprint.recalled(fingerprint)
    await this.#write({ kind: 'claim' })
  }

  #openResponder(): Closable {
    const { client, names, envelope, prefix, upstream } = this.options
    const handlerOptions = {
      upstream,
      prefix,
      envelope,
      maxBytes: client.maxPayloadBytes,
      onOneWay: {
        progress: () => this.#feed.requestProgress(),
        snapshot: () => this.#snapshots.requestForSubscriber(),
        word: () => this.#status.request(),
      },
    }
    return client.respond(names.requests, edgeRequestHandler(handlerOptions))
  }

  #halt(): void {
    this.#stopping.abort(new BrokerError('unavailable', 'the session is over'))
    this.#writer.close()
    this.#detach()
    this.#status.stop()
    void this.#snapshots.stop()
    this.#queue.close()
    this.options.metrics.queued(0)
  }

  #failed(error: unknown): void {
    if (this.#isOver) return
    if (!(error instanceof BrokerError)) this.options.logger.error({ err: error }, 'unexpected error in a publisher')
    this.#halt()
    this.options.onEnd(errorMessage(error))
  }

  // Calls from the feed

  #sink(): FeedSink {
    return {
      replace: (revision, reason) => this.#replace(revision, reason),
      apply: (batches) => {
        this.#status.received()
        this.#enqueueBatches(batches)
      },
      progress: (revision) => {
        this.#status.received()
        this.#queue.addProgress(revision)
      },
      synced: () => {
        this.#status.caughtUp()
        this.#queue.addSynced()
        this.#queueGrew()
      },
      disconnected: (reason) => this.#status.failed(reason, false),
      refused: (reason, isLasting) => this.#status.failed(reason, isLasting),
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
        const stateReason = reason === 'initial' ? 'gap' : reason
        this.#queue.addState({ kind: 'state', revision, reason: stateReason, snapshot, fingerprint })
        this.#queueGrew()
      },
      abort: () => {},
    }
  }

  #enqueueBatches(batches: readonly Batch[]): void {
    this.#queue.addBatches(batches)
    this.#queueGrew()
  }

  #queueGrew(): void {
    const { bytes } = this.#queue
    if (bytes <= NATS_QUEUE_BYTES) return this.options.metrics.queued(bytes)
    this.#failed(new BrokerError('unavailable', `more than ${NATS_QUEUE_BYTES} bytes wait to be published`))
  }

  // Writing

  async #run(): Promise<void> {
    try {
      for (let item = await this.#queue.next(); item !== null; item = await this.#queue.next()) {
        this.options.metrics.queued(this.#queue.bytes)
        await this.#publish(item)
      }
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Resolves when the stream has the item and everything before it. @throws BrokerError */
  async #publish(item: Queued): Promise<void> {
    const { revision } = this.#session
    switch (item.kind) {
      case 'batches': {
        const { batches } = item
        const last = batches.at(-1) as Batch
        this.#fingerprint.applied(batches)
        return await this.#write({ kind: 'batches', batches }, { revision: last.revision })
      }
      case 'progress':
        return await this.#write(
          { kind: 'progress' },
          { revision: item.revision > revision ? item.revision : revision },
        )
      case 'synced':
        return await this.#write({ kind: 'progress' }, { isSynced: true })
      case 'state':
        return await this.#publishState(item)
      case 'proof':
        return this.#status.proven(item.requestedAtMs)
      default:
        item satisfies never
    }
  }

  /** Uploads the snapshot before it writes the mark, so that every reader of the mark finds the snapshot. */
  async #publishState({ revision, reason, snapshot, fingerprint }: QueuedState): Promise<void> {
    const { names, clock, store } = this.options
    const clusterId = this.#feed.clusterId ?? this.#session.clusterId
    this.#session = { ...this.#session, isSynced: false, clusterId, continuedAt: clock.now() }
    this.#fingerprint = fingerprint
    const name = names.snapshot(this.#session.epoch, revision, clock.now())
    await store.put(name, snapshot)
    await this.#write({ kind: 'state', reason, snapshot: name }, { revision })
    // This is not awaited, because later messages need not wait until the snapshot is in the index.
    this.#snapshots.publishState(name, snapshot, this.#placeNow()).catch((error: unknown) => this.#failed(error))
  }

  /**
   * Writes one message, which expects the sequence of the previous one. Resolves when the stream has the message and
   * everything before it; only then may the next message be written.
   * @throws BrokerError
   */
  async #write(body: Body, changes: Partial<Pick<Session, 'revision' | 'isSynced'>> = {}): Promise<void> {
    this.#stopping.signal.throwIfAborted()
    const { client, clock, metrics, envelope } = this.options
    const { trustsProgress } = this.#feed
    const session = this.#session
    const hasFingerprint = isFingerprintDue(session, body)
    const fingerprint = hasFingerprint ? { fingerprint: this.#fingerprint.digested() } : {}
    // A claim, or a mark without etcd, makes the content no newer. Before the first proof, nor does anything but a state.
    const { ageMs, trouble } = this.#status
    const { kind } = body
    const isOld = kind === 'claim' || (kind === 'progress' && trouble !== null) || (kind !== 'state' && ageMs === null)
    const sentAt = isOld ? this.#asOf() : clock.now()
    const message = nextMessage(session, body, changes, { sentAt, trustsProgress, ...fingerprint })
    const parts = encodeMessage(message, client.maxPayloadBytes - envelope.overheadBytes).map((part, index) =>
      envelope.seal('message', session.sequence + index + 1, part),
    )
    if (hasFingerprint) this.#fingerprintSentMs = clock.monotonic()
    const sequences = await Promise.all(parts.map((part, index) => this.#writer.write(part, session.sequence + index)))
    const sequence = session.sequence + parts.length
    if (sequences.at(-1) !== sequence) {
      throw new BrokerError('conflict', `the message was written at ${sequences.at(-1)} instead of ${sequence}`)
    }
    this.#session = written(session, message, sequence)
    metrics.published(body.kind === 'batches' ? body.batches.reduce((sum, { events }) => sum + events.length, 0) : 0)
    const bytes = parts.reduce((sum, part) => sum + part.length, 0)
    this.#snapshots.written(parts.length, bytes, body.kind !== 'progress')
  }

  #snapshotPlace(): SnapshotPlace | null {
    return this.#session.isSynced && this.#session.revision !== ZERO_REVISION ? this.#placeNow() : null
  }

  #placeNow(): SnapshotPlace {
    const { sequence, revision, settled, epoch, clusterId, isSynced } = this.#session
    const { trustsProgress } = this.#feed
    return { sequence, revision, settled, epoch, clusterId, isSynced, trustsProgress, takenAt: this.#asOf() }
  }

  /**
   * Returns the wall-clock time at which etcd had the content of the stream. Until more is known, a continued stream
   * counts as being as old as its last message, or as the state that this session has written.
   */
  #asOf(): number {
    const { ageMs } = this.#status
    const now = this.options.clock.now()
    return ageMs === null ? (this.#session.continuedAt ?? now) : now - ageMs
  }

  /**
   * Writes a mark before the stream discards its last fingerprint for its age, because the next publisher continues
   * from there. It does so without etcd too, or an outage longer than that age would end all watches.
   */
  #keepAlive(): void {
    if (!this.#session.isSynced) return
    if (this.options.clock.monotonic() - this.#fingerprintSentMs <= this.#bounds.maxAgeMs / 4) return
    this.#queue.addProgress(ZERO_REVISION)
  }
}
