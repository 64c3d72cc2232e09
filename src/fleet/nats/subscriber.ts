/**
 * Brings one replica's sink up to a resource's stream: a snapshot, then every message after it, by one consumer.
 *
 * The order of messages is checked, not trusted: each must follow the revision that the one before it left, under the same
 * epoch or a later one that begins with a claim or a state. A message that does not breaks the chain, and the sink takes a
 * newer snapshot as a gap: it never has a hole. A new replica begins at the oldest snapshot that the stream still reaches,
 * so that its ring is filled with history from before it started.
 *
 * The sink may be ahead of the place in the stream, because etcd itself fed it meanwhile or the stream was made anew. Then
 * batches that it has are passed over, and its last one is compared with the stream's: the stream may be another history.
 */
import type { Batch, KeyValue } from '../../model/event.js'
import { type Revision, ZERO_REVISION } from '../../model/revision.js'
import type { ReplaceReason } from '../../model/feed-sink.js'
import type { FleetMetrics } from '../../model/stage-metrics.js'
import { backoffMs } from '../../support/backoff.js'
import { type Clock, sleep } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { Message } from './message.js'
import type { Names } from './names.js'
import { BrokerError } from './broker-error.js'
import type { NatsClient } from './nats-client.js'
import { PartAssembler } from './part-assembler.js'
import type { PlacedSink } from './placed-sink.js'
import { SnapshotReader } from './snapshot-reader.js'
import { type SnapshotEntry, SnapshotStore } from './snapshot-store.js'
import { StatusListener } from './status-listener.js'

export type SubscriberMetrics = Pick<
  FleetMetrics,
  'hop' | 'received' | 'broken' | 'snapshotLoaded' | 'snapshotUnusable'
>

export interface SubscriberOptions {
  readonly client: NatsClient
  readonly names: Names
  readonly replicas: number
  readonly sink: PlacedSink
  /** Asks the publisher for a snapshot: none that is there helps. */
  readonly requestSnapshot: () => void
  /** Asks the publisher for its status. */
  readonly requestStatus: () => void
  /** The stream is followed again: whatever fed the sink meanwhile has to stop before this returns. */
  readonly onFollowing: () => void
  /** The stream is not followed, for this reason. */
  readonly onAway: (reason: string) => void
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: SubscriberMetrics
  /** A new replica replays at most so many messages of history. */
  readonly refillMessages: number
  /** How the sink is to take a loss of history. */
  readonly onGap: 'expire' | 'coalesce'
  /** The cluster id of the etcd that feeds the sink itself at the moment; null when none does. */
  readonly directClusterId: () => string | null
}

/** Where the following stands in the stream. */
interface Place {
  readonly sequence: number
  readonly epoch: number
  readonly revision: Revision
  readonly clusterId: string
}

type Outcome =
  | { readonly kind: 'ended'; readonly reason: string }
  | {
      readonly kind: 'broken'
      readonly reason: string
      readonly sequence: number
      /** The stream contradicts what the sink has. */
      readonly isOtherHistory?: true
    }
  | { readonly kind: 'state'; readonly message: Extract<Message, { kind: 'state' }>; readonly sequence: number }

const BACKOFF = { firstMs: 100, capMs: 2_000 }

export class Subscriber {
  readonly #options: SubscriberOptions
  readonly #snapshots: SnapshotReader
  readonly #status: StatusListener
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #place: Place | null = null
  /** The chain broke at this message: snapshots before it do not help. */
  #brokenAt = 0
  #isOtherHistory = false
  /** When the stream that is followed was made: one made anew under its name is another. */
  #created = ''
  /** The cluster id of the etcd that the sink's content comes from. */
  #heldClusterId: string | null = null
  #trustsProgress = false
  #isSynced = false
  #isFollowing = false
  #target = 0
  readonly #parts = new PartAssembler()
  /** The sink's last batch, while the sink is ahead of the stream and has not been proven to be of the same history. */
  #expected: Batch | null = null
  /** Ends the following. */
  #end: ((outcome: Outcome) => void) | null = null

  constructor(options: SubscriberOptions) {
    this.#options = options
    const { client, names, replicas, sink, clock } = options
    const store = new SnapshotStore(client.buckets, names, replicas)
    this.#snapshots = new SnapshotReader(store, (name, reason) => this.#unusable(name, reason))
    this.#status = new StatusListener({
      client,
      subject: names.status,
      sink,
      clock,
      position: () => this.#place,
      isFollowing: () => this.#isFollowing,
      isCurrent: () => this.#isSynced && (this.#place?.sequence ?? 0) >= this.#target,
      onStuck: (reason) => this.#end?.({ kind: 'ended', reason }),
    })
  }

  start(): void {
    this.#status.start()
    this.#running ??= this.#run(this.#stopping.signal)
  }

  /** The sink hears nothing after the call; resolves when nothing of it runs. */
  async stop(): Promise<void> {
    this.#stopping.abort(new BrokerError('unavailable', 'stopped'))
    this.#status.stop()
    await this.#running
  }

  /** For how long it is not known that etcd has no more than what is held; null when nobody has said so yet. */
  get ageMs(): number | null {
    return this.#status.ageMs
  }

  get trustsProgress(): boolean {
    return this.#trustsProgress
  }

  /** The cluster id of the etcd behind the stream; null before anything was read. */
  get clusterId(): string | null {
    return this.#place?.clusterId ?? this.#heldClusterId
  }

  /** The content of the sink is wrong, so it takes the next snapshot. */
  rebuild(reason: string): void {
    this.#end?.({ kind: 'broken', reason, sequence: this.#place?.sequence ?? 0 })
    this.#options.requestSnapshot()
  }

  get isFollowing(): boolean {
    return this.#isFollowing
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, logger, names, metrics } = this.#options
    for (let attempt = 1; !signal.aborted;) {
      let outcome: Outcome | null
      try {
        await this.#findPlace()
        if (signal.aborted) return
        const before = this.#place?.sequence ?? 0
        outcome = await this.#follow(signal)
        if ((this.#place?.sequence ?? 0) > before) attempt = 1
        if (outcome.kind === 'state' && !signal.aborted) {
          outcome = await this.#tryState(outcome.message, outcome.sequence)
          if (outcome === null) continue
        }
      } catch (error) {
        if (!(error instanceof BrokerError)) {
          logger.error({ stream: names.stream, err: error }, 'unexpected error in a subscriber')
        }
        outcome = { kind: 'ended', reason: error instanceof Error ? error.message : String(error) }
      }
      if (signal.aborted) return
      if (outcome?.kind === 'broken') {
        logger.warn({ stream: names.stream, reason: outcome.reason, sequence: outcome.sequence }, 'the chain is broken')
        metrics.broken()
        this.#brokenAt = outcome.sequence
        this.#isOtherHistory ||= outcome.isOtherHistory === true
        this.#place = null
        this.#expected = null
      } else if (outcome?.kind === 'ended') {
        this.#away(outcome.reason)
      }
      await sleep(clock, backoffMs(BACKOFF, attempt++, random), signal)
    }
  }

  // Where to begin

  /** Sets `#place`, with the sink brought there. @throws BrokerError */
  async #findPlace(): Promise<void> {
    const { client, names, sink } = this.#options
    const state = await client.streamState(names.stream)
    if (state === null) throw new BrokerError('not-found', 'nothing has been published yet')
    this.#target = state.last
    if (state.created !== this.#created) {
      // A stream made anew counts from one again.
      this.#created = state.created
      this.#status.forget()
      this.#place = null
      this.#brokenAt = 0
    }
    const place = this.#place
    if (place !== null && place.sequence <= state.last && place.sequence + 1 >= state.first) return
    const reachable = (await this.#snapshots.index()).filter(
      ({ sequence }) => sequence <= state.last && sequence + 1 >= state.first && sequence >= this.#brokenAt,
    )
    const at = sink.place?.position ?? null
    const newest = reachable.at(-1)
    if (newest === undefined) {
      this.#options.requestSnapshot()
      throw new BrokerError('not-found', 'there is no snapshot that the stream goes on from')
    }
    if (at === null) {
      const refill = reachable.find(({ sequence }) => state.last - sequence <= this.#options.refillMessages) ?? newest
      return await this.#load(refill, 'initial')
    }
    // The stream leads from such a snapshot up to where the sink is: nothing is lost.
    const bridge = reachable.findLast(({ revision }) => revision <= at)
    const isSameEtcd = this.#isHeld(newest.clusterId)
    if (bridge !== undefined && this.#brokenAt === 0 && isSameEtcd) return await this.#bridge(bridge)
    if (this.#isOtherHistory || !isSameEtcd) return await this.#load(newest, 'history-changed')
    if (newest.revision < at) {
      this.#options.requestSnapshot()
      throw new BrokerError('not-found', 'there is no snapshot as new as what is held')
    }
    await this.#load(newest, this.#options.onGap === 'coalesce' ? 'coalesce' : 'gap')
  }

  async #load(entry: SnapshotEntry, reason: ReplaceReason): Promise<void> {
    const { sink, metrics, logger, names } = this.#options
    const { sequence, epoch, revision, clusterId } = entry
    const pages: (readonly KeyValue[])[] = []
    for await (const page of this.#snapshots.pages(entry)) pages.push(page)
    if (this.#stopping.signal.aborted) return
    this.#options.onFollowing()
    const replacement = sink.replace(revision, reason)
    for (const page of pages) replacement.add(page)
    replacement.commit()
    metrics.snapshotLoaded(reason)
    logger.info({ stream: names.stream, revision, sequence, reason }, 'snapshot taken')
    this.#brokenAt = 0
    this.#isOtherHistory = false
    this.#expected = null
    this.#trustsProgress = entry.trustsProgress
    this.#isSynced = entry.isSynced
    this.#moved({ sequence, epoch, revision, clusterId }, entry.takenAt ?? null)
    this.#heldClusterId = clusterId
  }

  /** The sink keeps what it has; the stream is read from before that, and has to tell the same. */
  async #bridge(entry: SnapshotEntry): Promise<void> {
    const { sink } = this.#options
    const last = sink.lastBatch
    this.#expected = null
    if (last !== null && last.revision > entry.revision) {
      this.#expected = last
    } else if (last !== null && !(await this.#snapshots.canFollow(entry, last))) {
      return await this.#load(entry, 'history-changed')
    }
    const { sequence, epoch, revision, clusterId } = entry
    this.#moved({ sequence, epoch, revision, clusterId })
    this.#heldClusterId = clusterId
    this.#isSynced = entry.isSynced
    this.#trustsProgress = entry.trustsProgress
  }

  /** Whether the sink's content came from that etcd; true where that is not known. */
  #isHeld(clusterId: string): boolean {
    const held = this.#options.directClusterId() ?? this.#heldClusterId
    return held === null || held === clusterId
  }

  /** Takes a state; where its snapshot cannot be read, a later one has to do. */
  async #tryState(message: Extract<Message, { kind: 'state' }>, sequence: number): Promise<Outcome | null> {
    try {
      await this.#takeState(message, sequence)
      return null
    } catch (error) {
      if (this.#snapshots.isUsable(message.snapshot)) throw error
      const broken = { kind: 'broken', reason: 'the state of the stream cannot be read', sequence } as const
      return message.reason === 'history-changed' ? { ...broken, isOtherHistory: true } : broken
    }
  }

  /** Takes a state from the stream: its snapshot is there, because it was written first. */
  async #takeState(message: Extract<Message, { kind: 'state' }>, sequence: number): Promise<void> {
    const { revision, settled, epoch, clusterId, snapshot: name, reason, isSynced, trustsProgress } = message
    const entry = { name, revision, settled, sequence, epoch, clusterId, isSynced, trustsProgress }
    const at = this.#options.sink.place?.position ?? null
    // The sink has reached beyond the state already, so that for this sink there is no gap.
    if (at !== null && revision <= at && reason !== 'history-changed' && this.#isHeld(clusterId)) {
      return await this.#bridge({ ...entry, keys: null })
    }
    const isOther = at !== null && (at > revision || !this.#isHeld(clusterId))
    const because = at === null ? 'initial' : isOther ? 'history-changed' : reason
    await this.#load({ ...entry, keys: null }, because)
  }

  // Following

  #follow(signal: AbortSignal): Promise<Outcome> {
    const { client, names } = this.#options
    const place = this.#place
    if (place === null) return Promise.resolve({ kind: 'ended', reason: 'no place' })
    this.#parts.clear()
    return new Promise((resolve) => {
      const finish = (outcome: Outcome): void => {
        signal.removeEventListener('abort', onAbort)
        following.close()
        this.#isFollowing = false
        this.#end = null
        resolve(outcome)
      }
      this.#end = finish
      const onAbort = (): void => finish({ kind: 'ended', reason: 'stopped' })
      let isFirst = true
      // NATS is alive. Only the publisher can say whether it is, too, and how etcd is.
      const isHeard = (): void => {
        if (!isFirst) return
        isFirst = false
        this.#isFollowing = true
        this.#options.onFollowing()
        this.#options.requestStatus()
        this.#status.following()
      }
      const following = client.follow(names.stream, place.sequence + 1, {
        onMessage: (sequence, data) => {
          isHeard()
          const outcome = this.#receive(sequence, data)
          if (outcome !== null) finish(outcome)
        },
        onIdle: isHeard,
        onEnd: (reason) => finish({ kind: 'ended', reason }),
      })
      signal.addEventListener('abort', onAbort, { once: true })
      // Nothing is missing: the first heartbeat need not be waited for.
      if (place.sequence >= this.#target && client.isConnected) isHeard()
    })
  }

  #receive(sequence: number, data: Buffer): Outcome | null {
    const broken = (reason: string): Outcome => ({ kind: 'broken', reason, sequence })
    const place = this.#place
    if (place === null) return broken('no place')
    try {
      const message = this.#parts.add(data)
      return message === null ? null : this.#follows(sequence, message, place)
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error
      return broken(error.message)
    }
  }

  #follows(sequence: number, message: Message, place: Place): Outcome | null {
    const { kind, epoch, previous, revision, clusterId } = message
    const broken = (reason: string): Outcome => ({ kind: 'broken', reason, sequence })
    if (epoch < place.epoch) return broken(`epoch ${epoch} after ${place.epoch}`)
    if (kind === 'state') return { kind: 'state', message, sequence }
    if (epoch > place.epoch && kind !== 'claim') return broken(`epoch ${epoch} without a claim`)
    if (clusterId !== place.clusterId) return broken(`etcd ${clusterId} instead of ${place.clusterId}`)
    if (previous !== place.revision) return broken(`follows revision ${previous} instead of ${place.revision}`)
    if (kind === 'batches') {
      const outcome = this.#apply(sequence, message.batches)
      if (outcome !== null) return outcome
      this.#options.metrics.hop(Math.max(0, (this.#options.clock.now() - message.sentAt) / 1_000))
    } else if (kind === 'progress' && revision > (this.#options.sink.place?.position ?? ZERO_REVISION)) {
      this.#options.sink.progress(revision)
    }
    this.#trustsProgress = message.trustsProgress
    this.#isSynced = message.isSynced
    this.#moved({ sequence, epoch, revision, clusterId }, message.sentAt)
    this.#status.consider()
    return null
  }

  #moved(place: Place, writtenAt?: number | null): void {
    this.#place = place
    this.#status.moved(place, writtenAt)
  }

  #apply(sequence: number, batches: readonly Batch[]): Outcome | null {
    const { sink, metrics } = this.#options
    const at = sink.place?.position ?? ZERO_REVISION
    const fresh = (batches[0]?.revision ?? 0) > at ? batches : batches.filter(({ revision }) => revision > at)
    if (this.#expected !== null) {
      const { revision } = this.#expected
      const told = batches.find((batch) => batch.revision >= revision)
      if (told !== undefined && !isSameBatch(told, this.#expected)) {
        return { kind: 'broken', reason: `revision ${revision} is not what was held`, sequence, isOtherHistory: true }
      }
      if (told !== undefined) this.#expected = null
    }
    if (fresh.length > 0) sink.apply(fresh)
    metrics.received(
      1,
      fresh.reduce((sum, { events }) => sum + events.length, 0),
    )
    return null
  }

  #unusable(name: string, reason: string): void {
    const { logger, metrics, names, requestSnapshot } = this.#options
    logger.error({ stream: names.stream, snapshot: name, reason }, 'a snapshot cannot be read')
    metrics.snapshotUnusable()
    requestSnapshot()
  }

  #away(reason: string): void {
    this.#status.away()
    this.#options.onAway(`NATS: ${reason}`)
  }
}

function isSameBatch(a: Batch, b: Batch): boolean {
  if (a.revision !== b.revision || a.events.length !== b.events.length) return false
  return a.events.every((event, i) => {
    const other = b.events[i]
    if (event.type === 'delete') return other?.type === 'delete' && event.key === other.key
    if (other?.type !== 'put') return false
    const [mine, theirs] = [event.keyValue, other.keyValue]
    return mine.key === theirs.key && mine.version === theirs.version && mine.value.equals(theirs.value)
  })
}
