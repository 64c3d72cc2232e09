/**
 * One replica's way from a resource's stream to its sink: a snapshot, then every message after it, by one consumer.
 *
 * It trusts nobody to have kept the order: each message must follow the revision that the one before it left, under the
 * same epoch or a later one that begins with a claim or a state. What does not is a broken chain, and leads to a newer
 * snapshot, which the sink takes as a gap: never a hole. A brand-new replica begins at the oldest snapshot that the
 * stream reaches, so that its ring is filled with history from before it started.
 *
 * The sink may be ahead of the stream's place (it was fed by etcd itself meanwhile, or the stream was made anew): then what
 * it has is passed over, and compared with the last batch it was given, for it may be another history.
 */
import type { Batch, Key, KeyValue } from '../../model/event.js'
import { type Revision, ZERO_REVISION } from '../../model/revision.js'
import type { FeedSink, ReplaceReason } from '../../model/feed-sink.js'
import type { FleetMetrics } from '../../model/stage-metrics.js'
import { backoffMs } from '../../support/backoff.js'
import { type Clock, sleep, type Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import { Confirmations } from './confirmations.js'
import { decodePart, joinParts, type Message, type Part } from './message.js'
import type { Names } from './names.js'
import type { PublisherStatus } from './publisher.js'
import { BrokerError, type Closable, type NatsClient } from './nats-client.js'
import { type SnapshotEntry, SnapshotStore } from './snapshot-store.js'

export type SubscriberMetrics = Pick<
  FleetMetrics,
  'hop' | 'received' | 'broken' | 'snapshotLoaded' | 'snapshotUnusable'
>

export interface SubscriberOptions {
  readonly client: NatsClient
  readonly names: Names
  readonly replicas: number
  readonly sink: PlacedSink
  /** A snapshot is wanted, and there is none that helps. */
  readonly requestSnapshot: () => void
  /** The publisher is to say how it is. */
  readonly requestWord: () => void
  /** The stream speaks again: whoever fed the sink meanwhile is to stop before this returns. */
  readonly onFollowing: () => void
  /** The stream does not speak, for this reason. */
  readonly onAway: (reason: string) => void
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: SubscriberMetrics
  /** Messages of history that a brand-new replica replays at most. */
  readonly refillMessages: number
  /** What the loss of history is to the sink. */
  readonly onGap: 'expire' | 'coalesce'
  /** Of the etcd that feeds the sink itself at the moment; null when none does. */
  readonly directClusterId: () => string | null
}

/** The sink, and how far it was brought, whoever brought it there. */
export interface PlacedSink extends FeedSink {
  /** null before the first state. */
  readonly place: { readonly settled: Revision; readonly position: Revision } | null
  readonly lastBatch: Batch | null
}

/** Where the stream was left. */
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
      /** What was read contradicts what the sink has. */
      readonly isOtherHistory?: true
    }
  | { readonly kind: 'state'; readonly message: Extract<Message, { kind: 'state' }>; readonly sequence: number }

const BACKOFF = { firstMs: 100, capMs: 2_000 }
/** Three signs of life. */
const SILENT_MS = 3_500
const CHECK_MS = 500
/** What is held is called old when the publisher's last word about etcd is: less than two of them. */
export const CONFIRMED_FOR_MS = 1_800
/** Snapshots that are remembered as unreadable. */
const MOST_UNUSABLE = 64
/** Parts of one message that are held. */
const MOST_PART_BYTES = 64 * 2 ** 20

export class Subscriber {
  readonly #options: SubscriberOptions
  readonly #store: SnapshotStore
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #place: Place | null = null
  /** Snapshots before this message do not help: the chain broke there. */
  #brokenAt = 0
  #isOtherHistory = false
  /** Which of the streams of this name is followed. */
  #created = ''
  /** Of the etcd that the sink's content comes from. */
  #heldClusterId: string | null = null
  readonly #unusable = new Set<string>()
  #trustsProgress = false
  #isSynced = false
  #isFollowing = false
  #target = 0
  #parts: Part[] = []
  #partBytes = 0
  /** The sink was ahead when this began: not yet seen that it is the same history. */
  #expected: Batch | null = null
  readonly #confirmations = new Confirmations()
  /** When somebody last spoke who may publish. */
  #heardMs: number
  #trouble: PublisherStatus['trouble'] = null
  #followingMs = 0
  /** When the newest of what is held was written, by its publisher's clock. */
  #writtenAt: number | null = null
  /** The sink has been told once that reads may be answered. */
  #wasTold = false
  #statusSubscription: Closable | null = null
  #statusTimer: Timer | null = null
  #isTold = false
  /** The stream has more than has come, and this is where it stands still. */
  #behind: { readonly at: number; readonly sinceMs: number } | null = null
  /** Ends the following. */
  #end: ((outcome: Outcome) => void) | null = null

  constructor(options: SubscriberOptions) {
    this.#options = options
    this.#store = new SnapshotStore(options.client, options.names, options.replicas)
    this.#heardMs = options.clock.monotonic()
  }

  start(): void {
    const { client, names } = this.#options
    this.#statusSubscription = client.subscribe(names.status, (data) => this.#heard(data))
    this.#heardMs = this.#options.clock.monotonic()
    this.#check()
    this.#running ??= this.#run(this.#stopping.signal)
  }

  /** The sink hears nothing after the call; resolves when nothing of it runs. */
  async stop(): Promise<void> {
    this.#stopping.abort(new BrokerError('unavailable', 'stopped'))
    this.#statusSubscription?.close()
    this.#statusTimer?.cancel()
    await this.#running
  }

  /** Since etcd is known to have had no more than what is held; null when nobody has said so. */
  get ageMs(): number | null {
    const { confirmedMs } = this.#confirmations
    return confirmedMs === null ? null : this.#options.clock.monotonic() - confirmedMs
  }

  get trustsProgress(): boolean {
    return this.#trustsProgress
  }

  /** Of the etcd behind the stream; null before anything was read. */
  get clusterId(): string | null {
    return this.#place?.clusterId ?? this.#heldClusterId
  }

  /** What the sink holds is wrong: it takes the newest snapshot that will be there. */
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
      // Made anew, it counts from one again.
      this.#created = state.created
      this.#confirmations.forget()
      this.#place = null
      this.#brokenAt = 0
    }
    const place = this.#place
    if (place !== null && place.sequence <= state.last && place.sequence + 1 >= state.first) return
    const reachable = (await this.#store.index()).filter(
      ({ name, sequence }) =>
        sequence <= state.last &&
        sequence + 1 >= state.first &&
        sequence >= this.#brokenAt &&
        !this.#unusable.has(name),
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
    // One from which the stream leads up to where the sink is: nothing is lost.
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
    for await (const page of this.#pages(entry)) pages.push(page)
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
    this.#writtenAt = entry.takenAt ?? null
    this.#moved({ sequence, epoch, revision, clusterId })
    this.#heldClusterId = clusterId
  }

  /** The sink keeps what it has; the stream is read from before it, and has to tell the same. */
  async #bridge(entry: SnapshotEntry): Promise<void> {
    const { sink } = this.#options
    const last = sink.lastBatch
    this.#expected = null
    if (last !== null && last.revision > entry.revision) {
      this.#expected = last
    } else if (last !== null && !(await this.#holds(entry, last))) {
      return await this.#load(entry, 'history-changed')
    }
    const { sequence, epoch, revision, clusterId } = entry
    this.#moved({ sequence, epoch, revision, clusterId })
    this.#heldClusterId = clusterId
    this.#isSynced = entry.isSynced
    this.#trustsProgress = entry.trustsProgress
  }

  /** Whether a later state can follow the batch: none of its keys is older there, and what it deleted is not there from before. */
  async #holds(entry: SnapshotEntry, batch: Batch): Promise<boolean> {
    const expected = new Map<Key, Revision | null>()
    for (const event of batch.events) {
      if (event.type === 'put') expected.set(event.keyValue.key, event.keyValue.modRevision)
      else expected.set(event.key, null)
    }
    for await (const page of this.#pages(entry)) {
      for (const { key, modRevision } of page) {
        const ours = expected.get(key)
        if (ours === undefined) continue
        if (ours === null ? modRevision < batch.revision : modRevision < ours) return false
      }
    }
    return true
  }

  /** @throws BrokerError; one that cannot be read is not tried again, and another one is asked for. */
  async *#pages(entry: Pick<SnapshotEntry, 'name' | 'keys'>): AsyncGenerator<readonly KeyValue[]> {
    try {
      yield* this.#store.read(entry)
    } catch (error) {
      if (!(error instanceof BrokerError) || (error.code !== 'corrupt' && error.code !== 'not-found')) throw error
      const { logger, metrics, names, requestSnapshot } = this.#options
      logger.error({ stream: names.stream, snapshot: entry.name, reason: error.message }, 'a snapshot cannot be read')
      metrics.snapshotUnusable()
      if (this.#unusable.size >= MOST_UNUSABLE) this.#unusable.clear()
      this.#unusable.add(entry.name)
      requestSnapshot()
      throw error
    }
  }

  /** Whether what the sink holds came from that etcd; true where nobody knows. */
  #isHeld(clusterId: string): boolean {
    const held = this.#options.directClusterId() ?? this.#heldClusterId
    return held === null || held === clusterId
  }

  /** Where its snapshot is of no use, a later one has to do. */
  async #tryState(message: Extract<Message, { kind: 'state' }>, sequence: number): Promise<Outcome | null> {
    try {
      await this.#takeState(message, sequence)
      return null
    } catch (error) {
      if (!this.#unusable.has(message.snapshot)) throw error
      const broken = { kind: 'broken', reason: 'the state of the stream cannot be read', sequence } as const
      return message.reason === 'history-changed' ? { ...broken, isOtherHistory: true } : broken
    }
  }

  /** A state in the stream itself: its snapshot is there, for it was written first. */
  async #takeState(message: Extract<Message, { kind: 'state' }>, sequence: number): Promise<void> {
    const { revision, settled, epoch, clusterId, snapshot: name, reason, isSynced, trustsProgress } = message
    const entry = { name, revision, settled, sequence, epoch, clusterId, isSynced, trustsProgress }
    const at = this.#options.sink.place?.position ?? null
    // What the sink has reaches beyond it already, so for this sink there is no gap.
    if (at !== null && revision <= at && reason !== 'history-changed' && this.#isHeld(clusterId)) {
      return await this.#bridge({ ...entry, keys: null })
    }
    const isOther = at !== null && (at > revision || !this.#isHeld(clusterId))
    const because = at === null ? 'initial' : isOther ? 'history-changed' : reason
    await this.#load({ ...entry, keys: null }, because)
  }

  // Following

  #follow(signal: AbortSignal): Promise<Outcome> {
    const { client, names, clock } = this.#options
    const place = this.#place
    if (place === null) return Promise.resolve({ kind: 'ended', reason: 'no place' })
    this.#parts = []
    this.#partBytes = 0
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
      // NATS lives; that the publisher does, and how etcd is, only the publisher can say.
      const isHeard = (): void => {
        if (!isFirst) return
        isFirst = false
        this.#isFollowing = true
        this.#followingMs = clock.monotonic()
        this.#options.onFollowing()
        this.#options.requestWord()
        this.#considerSynced()
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
      // Nothing is behind: the first heartbeat need not be waited for.
      if (place.sequence >= this.#target && client.isConnected) isHeard()
    })
  }

  #receive(sequence: number, data: Buffer): Outcome | null {
    const broken = (reason: string): Outcome => ({ kind: 'broken', reason, sequence })
    const place = this.#place
    if (place === null) return broken('no place')
    let message: Message
    try {
      const part = decodePart(data)
      // An earlier publisher died before its last part.
      if (part.index === 0) this.#dropParts()
      if (part.index !== this.#parts.length) return broken(`part ${part.index} without those before it`)
      const [first] = this.#parts
      if (first !== undefined && first.header.epoch !== part.header.epoch) return broken('parts of two publishers')
      if (part.count > 1) {
        this.#parts.push(part)
        this.#partBytes += part.bytes.length
        if (this.#partBytes > MOST_PART_BYTES) return broken('a message too large to hold')
        if (part.index < part.count - 1) return null
      }
      message = joinParts(part.count > 1 ? this.#parts : [part])
      this.#dropParts()
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error
      return broken(error.message)
    }
    return this.#follows(sequence, message, place)
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
    this.#writtenAt = message.sentAt
    this.#moved({ sequence, epoch, revision, clusterId })
    this.#considerSynced()
    return null
  }

  #moved(place: Place): void {
    this.#place = place
    if (this.#confirmations.reached(place.sequence, place.epoch)) this.#tellAge()
  }

  #tellAge(): void {
    const { ageMs } = this
    if (ageMs !== null) this.#options.sink.confirmed?.(ageMs, CONFIRMED_FOR_MS)
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

  #considerSynced(): void {
    if (!this.#isSynced || !this.#isFollowing || (this.#place?.sequence ?? 0) < this.#target || this.#isTold) return
    const { sink, clock } = this.#options
    if (this.#trouble === null && this.#isConfirmed) {
      this.#isTold = this.#wasTold = true
      return sink.synced()
    }
    if (this.#wasTold) return
    // Nobody may publish for long: what there is can be served, with its age. No better one is known than by two clocks.
    if (this.#trouble === null && clock.monotonic() - this.#followingMs <= SILENT_MS) return
    this.#wasTold = true
    if (this.ageMs === null) {
      sink.confirmed?.(Math.max(0, clock.now() - (this.#writtenAt ?? clock.now())), CONFIRMED_FOR_MS)
    }
    sink.synced()
    this.#tellTrouble()
  }

  get #isConfirmed(): boolean {
    const { ageMs } = this
    return ageMs !== null && ageMs <= SILENT_MS
  }

  #tellTrouble(): void {
    const { sink, clock } = this.#options
    if (this.#trouble !== null) {
      const { reason, isRefusal } = this.#trouble
      if (isRefusal) sink.refused(reason)
      else sink.disconnected(`etcd: ${reason}`)
    } else if (clock.monotonic() - this.#heardMs > SILENT_MS) {
      sink.disconnected('no publisher is heard')
    } else {
      sink.disconnected('what the publisher has of etcd has not come yet')
    }
  }

  #dropParts(): void {
    if (this.#parts.length > 0) this.#parts = []
    this.#partBytes = 0
  }

  // Signs of life

  #heard(data: Buffer): void {
    const status = JSON.parse(data.toString('utf8')) as PublisherStatus
    const { trouble, epoch, sequence } = status
    // Another has taken over from whoever says this.
    if (epoch < (this.#place?.epoch ?? 0)) return
    const nowMs = this.#options.clock.monotonic()
    this.#heardMs = nowMs
    this.#trouble = trouble
    this.#compare(epoch, sequence)
    this.#confirmations.heard(status, nowMs)
    const place = this.#place
    if (place !== null && this.#confirmations.reached(place.sequence, place.epoch)) this.#tellAge()
    if (trouble === null || !this.#wasTold) return this.#considerSynced()
    this.#isTold = false
    this.#tellTrouble()
  }

  /**
   * A consumer may live and deliver nothing (its server has lost touch with the others): what has been written for a while
   * and is not here has to be asked for anew.
   */
  #compare(epoch: number, sequence: number): void {
    const place = this.#place
    if (place === null || epoch < place.epoch || place.sequence >= sequence) {
      this.#behind = null
      return
    }
    const nowMs = this.#options.clock.monotonic()
    if (this.#behind?.at !== place.sequence) this.#behind = { at: place.sequence, sinceMs: nowMs }
    if (nowMs - this.#behind.sinceMs < SILENT_MS) return
    this.#behind = null
    this.#end?.({ kind: 'ended', reason: `message ${sequence} was written, and ${place.sequence} is the last to come` })
  }

  #check(): void {
    const { clock } = this.#options
    if (this.#isFollowing && this.#isTold && !this.#isConfirmed) {
      this.#isTold = false
      this.#tellTrouble()
    } else {
      this.#considerSynced()
    }
    this.#statusTimer = clock.setTimer(CHECK_MS, () => this.#check())
  }

  #away(reason: string): void {
    this.#isTold = false
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
