/**
 * Feeds one replica's sink from a resource's stream: first a snapshot, then every message after it, through one
 * consumer.
 *
 * `message-chain.ts` checks that nothing is missing between two messages. If it finds a hole, the sink gets a newer
 * snapshot, reported as a gap, so the sink itself never has a hole. A new replica begins at the oldest snapshot that
 * the stream still reaches, so that its ring is filled with history from before the replica started.
 *
 * A sink that is ahead of the snapshots keeps its content. The chain then begins behind the sink, at a snapshot from
 * which the stream leads up to the sink's revision. `subscriber-state.ts` decides between these cases.
 */
import { addInTurns } from '../../engine/feed/add-in-turns.js'
import type { KeyValue } from '../../engine/model/event.js'
import { ZERO_REVISION } from '../../engine/model/revision.js'
import type { ReplaceReason } from '../../engine/model/feed-sink.js'
import type { FeedMetrics } from '../../engine/model/stage-metrics.js'
import { backoffMs } from '../../support/backoff.js'
import { sleep } from '../../support/clock.js'
import { BrokerError } from '../broker.js'
import { type Chain, type ChainEnd, type Expected, followed, type StateMessage } from './message-chain.js'
import type { Message } from './message.js'
import { PartAssembler } from './part-assembler.js'
import type { PlacedSink } from './placed-sink.js'
import type { OneWayRequest } from './remote-reader.js'
import { type SnapshotEntry, takenAtOf } from './snapshot-store.js'
import { StatusListener } from './status-listener.js'
import type { StreamContext } from './stream-context.js'
import {
  chainBegan,
  chainBroke,
  chooseStart,
  foundStream,
  goesOn,
  type Held,
  isCurrent,
  NOTHING_READ,
  sinkIsAt,
  type Start,
  startAtState,
  type StartOptions,
  type SubscriberState,
} from './subscriber-state.js'
import { errorMessage } from '../../support/error-message.js'

export interface SubscriberOptions extends StreamContext, StartOptions {
  readonly sink: PlacedSink
  readonly sendOneWay: (kind: OneWayRequest) => void
  /** Called when the stream is followed again. Whatever fed the sink in the meantime must stop before this returns. */
  readonly onFollowing: () => void
  /** Called when the publisher confirms that the sink has everything, and when no publisher does so any more. */
  readonly onConfirmed: (isConfirmed: boolean) => void
  /** Called with the reason when the stream is not followed. */
  readonly onAway: (reason: string) => void
  readonly feedMetrics: Pick<FeedMetrics, 'relisted'>
  /**
   * Roughly how long etcd feeds the sink before the stream may take over again. After this time, the stream takes over
   * once its publisher confirms that it is fresh.
   */
  readonly stayMs: number
}

type Outcome = ChainEnd | { readonly kind: 'ended'; readonly reason: string }

/**
 * The phases of one attempt.
 *
 *     reading ─▶ loading ─▶ reading ─▶ opening ─▶ following
 *        ▲          (only without a place)  │         │
 *        └────────────── ended ─────────────┴─────────┘
 */
type Phase =
  /**
   * Waits, or finds out where to begin. While etcd feeds the sink, the stream may take over only if that was found
   * worthwhile, because etcd may have taken over during this phase.
   */
  | { readonly kind: 'reading'; readonly isWorthReturning: boolean }
  /** A snapshot is replacing the sink's content. */
  | { readonly kind: 'loading' }
  /** A consumer reads the stream, and the server has not sent anything yet. */
  | { readonly kind: 'opening'; readonly end: (outcome: Outcome) => void }
  | { readonly kind: 'following'; readonly end: (outcome: Outcome) => void }

const READING: Phase = { kind: 'reading', isWorthReturning: false }
const BACKOFF = { firstMs: 100, capMs: 2_000 }
/** The longest stay with etcd after useless returns to the stream, as a multiple of the first. */
const LONGEST_STAY = 2

export class Subscriber {
  readonly #status: StatusListener
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #state: SubscriberState = NOTHING_READ
  /** The number of returns to the stream since its publisher last confirmed the content. */
  #returns = 0
  #phase: Phase = READING
  /** The last snapshot that was read to prove the content, and the content, so that a reread need not read it again. */
  #proof = ''
  /** Whether a snapshot is being downloaded for a sink that has no content. */
  #isFirstArriving = false
  /** Whether the last snapshot could not be loaded. */
  #hasFailedToLoad = false

  constructor(private readonly options: SubscriberOptions) {
    this.#status = new StatusListener({
      ...options,
      position: () => this.#state.chain,
      isCurrent: () => isCurrent(this.#state),
      onStuck: (reason) => this.#end({ kind: 'ended', reason }),
      onReached: () => {
        if (this.isFollowing) this.#returns = 0
      },
    })
  }

  start(): void {
    this.#status.start()
    this.#running ??= this.#run(this.#stopping.signal)
  }

  /** Stops calling the sink immediately; resolves when nothing is running any more. */
  async stop(): Promise<void> {
    this.#stopping.abort(new BrokerError('unavailable', 'stopped'))
    this.#status.stop()
    await this.#running
  }

  /** How far the sink may be behind etcd, in milliseconds; null before the publisher has reported it. */
  get ageMs(): number | null {
    return this.#status.ageMs
  }

  /**
   * The age of the content in milliseconds; null if unknown. If no publisher has reported it, it is computed from the
   * clocks of two machines.
   */
  get writtenMs(): number | null {
    return this.#status.writtenMs
  }

  /** The highest epoch of any message that was followed; 0 before the first. */
  get knownEpoch(): number {
    return this.#status.knownEpoch
  }

  get trustsProgress(): boolean {
    return this.#state.trustsProgress
  }

  /** The cluster id of the etcd behind the stream; null before anything was read. */
  get clusterId(): string | null {
    return this.#state.clusterId
  }

  /**
   * Called when the content of the sink is wrong. The sink then gets the next snapshot. As after another history, nobody
   * may resume from what it has served.
   */
  rebuild(reason: string): void {
    this.#end({ kind: 'broken', reason, sequence: this.#sequence, isOtherHistory: true })
    this.options.sendOneWay('snapshot')
  }

  /** Called when the sink has everything that etcd had this long ago, whichever source fed it. */
  confirmed(ageMs: number): void {
    this.#status.confirmed(ageMs)
  }

  /** Stops following, so that another source can feed the sink until the stream is worth returning to. */
  leave(): void {
    this.#end({ kind: 'ended', reason: 'no status has arrived from a publisher' })
  }

  /**
   * Whether a snapshot is replacing the sink's content, or is arriving for a sink that has none. Etcd does not take
   * over then, because that would cost it a list of everything. If a snapshot failed to load before, etcd gets the
   * chance to be faster.
   */
  get isLoading(): boolean {
    return this.#phase.kind === 'loading' || (this.#isFirstArriving && !this.#hasFailedToLoad)
  }

  get isFollowing(): boolean {
    return this.#phase.kind === 'following'
  }

  /** Ends the consumer, if there is one. */
  #end(outcome: Outcome): void {
    if (this.#phase.kind === 'opening' || this.#phase.kind === 'following') this.#phase.end(outcome)
  }

  /** The last message delivered to the sink; 0 before the first. */
  get #sequence(): number {
    return this.#state.chain?.sequence ?? 0
  }

  async #run(signal: AbortSignal): Promise<void> {
    const { clock, random, logger, names } = this.options
    for (let attempt = 1; !signal.aborted;) {
      let outcome: Outcome | null
      try {
        await this.#worthFollowing(signal)
        if (signal.aborted) return
        await this.#findPlace()
        if (signal.aborted) return
        const before = this.#sequence
        outcome = await this.#follow(signal)
        if (this.#sequence > before && outcome.kind !== 'broken') attempt = 1
        if (outcome.kind === 'state' && !signal.aborted) {
          outcome = await this.#tryState(outcome.message, outcome.sequence)
          if (outcome === null) continue
        }
      } catch (error) {
        if (!(error instanceof BrokerError)) {
          logger.error({ stream: names.stream, err: error }, 'unexpected error in a subscriber')
        }
        outcome = { kind: 'ended', reason: errorMessage(error) }
      }
      if (signal.aborted) return
      if (outcome?.kind === 'broken') this.#broke(outcome)
      else if (outcome?.kind === 'ended') this.options.onAway(`NATS: ${outcome.reason}`)
      await sleep(clock, backoffMs(BACKOFF, attempt++, random), signal)
    }
  }

  #broke(end: Extract<Outcome, { kind: 'broken' }>): void {
    const { logger, metrics, names } = this.options
    const { kind, state } = chainBroke(this.#state, end)
    this.#state = state
    // Until the stream is read again, which may take seconds, nobody knows how old the content is.
    this.options.onAway(`NATS: ${end.reason}`)
    const fields = { stream: names.stream, reason: end.reason, sequence: end.sequence }
    if (kind === 'doubted') return logger.info(fields, 'rereading the stream')
    logger.warn(fields, 'the chain is broken')
    metrics.broken()
  }

  /**
   * Waits until the stream is worth following. While etcd feeds the sink, a stream without a publisher is no
   * improvement. Each useless return makes the next wait longer.
   */
  async #worthFollowing(signal: AbortSignal): Promise<void> {
    const { clock, random, sink, stayMs } = this.options
    this.#phase = READING
    if (sink.etcd === null) return
    const stay = { firstMs: stayMs, capMs: stayMs * LONGEST_STAY }
    await sleep(clock, backoffMs(stay, ++this.#returns, random), signal)
    await this.#status.nextFreshStatus(signal)
    this.#phase = { kind: 'reading', isWorthReturning: true }
  }

  /** Whether etcd took over while the stream was being read. */
  get #isOvertaken(): boolean {
    const { kind } = this.#phase
    return this.options.sink.etcd !== null && !(kind === 'reading' && this.#phase.isWorthReturning)
  }

  // Where to begin

  /** Begins a new chain, unless the stream still has the messages that follow the current one. @throws BrokerError */
  async #findPlace(): Promise<void> {
    const { client, names } = this.options
    const stream = await client.streamState(names.stream)
    if (stream === null) throw new BrokerError('not-found', 'nothing has been published yet')
    if (stream.created !== this.#state.created) this.#status.forget()
    this.#state = foundStream(this.#state, stream)
    const { sink, store } = this.options
    // Etcd may have fed the sink in the meantime, also from another cluster.
    if (goesOn(this.#state, stream, this.#held)) {
      this.#state = sinkIsAt(this.#state, sink.lastBatch)
      return
    }
    // Until another chain begins, no status says anything about the content.
    this.#state = { ...this.#state, chain: null }
    await this.#begin(chooseStart(this.#state, stream, await store.index(), this.#held, this.options))
  }

  /** @throws BrokerError */
  async #begin(start: Start): Promise<void> {
    switch (start.kind) {
      case 'load':
        return await this.#load(start.entry, start.reason)
      case 'bridge':
        return await this.#bridge(start.entry)
      case 'wait':
        this.options.sendOneWay('snapshot')
        throw new BrokerError('not-found', start.reason)
      default:
        start satisfies never
    }
  }

  get #held(): Held | null {
    const { place, etcd, isRelisted } = this.options.sink
    if (place === null) return null
    const clusterId = etcd?.clusterId ?? this.#state.clusterId
    return { position: place.position, clusterId, isFromEtcd: etcd !== null, isRelisted }
  }

  async #load(entry: SnapshotEntry, reason: ReplaceReason): Promise<void> {
    const { sink, metrics, feedMetrics, logger, names, onFollowing } = this.options
    const { sequence, revision } = entry
    const pages = await this.#download(entry)
    if (this.#stopping.signal.aborted) return
    // Etcd may have brought the sink further in the meantime.
    const position = sink.place?.position ?? null
    const isBehind = position !== null && (reason === 'initial' || position > revision)
    if (this.#isOvertaken || (sink.etcd !== null && isBehind && reason !== 'history-changed')) {
      throw new BrokerError('unavailable', 'etcd delivered newer data than the snapshot')
    }
    this.#phase = { kind: 'loading' }
    onFollowing()
    const replacement = sink.replace(revision, reason)
    try {
      for (const page of pages) await addInTurns(page, (part) => replacement.add(part), this.#stopping.signal)
    } catch (error) {
      replacement.abort()
      throw error
    } finally {
      this.#phase = READING
    }
    replacement.commit()
    metrics.snapshotLoaded()
    if (reason !== 'initial') feedMetrics.relisted(reason)
    logger.info({ stream: names.stream, revision, sequence, reason }, 'snapshot loaded')
    this.#state = chainBegan(this.#state, entry, null)
    if (reason === 'history-changed') this.#status.restarted(entry, takenAtOf(entry))
    else this.#status.moved(entry, takenAtOf(entry))
  }

  /** @throws BrokerError, also when no part of it arrives for a while. */
  async #download(entry: SnapshotEntry): Promise<readonly (readonly KeyValue[])[]> {
    const pages: (readonly KeyValue[])[] = []
    this.#isFirstArriving = this.options.sink.place === null
    try {
      for await (const page of this.options.store.read(entry)) pages.push(page)
      this.#hasFailedToLoad = false
      return pages
    } catch (error) {
      this.#hasFailedToLoad = true
      throw error
    } finally {
      this.#isFirstArriving = false
    }
  }

  /**
   * Begins the chain behind the sink, which keeps its content. The stream must then repeat the sink's history.
   * @throws BrokerError
   */
  async #bridge(entry: SnapshotEntry): Promise<void> {
    const { sink, store } = this.options
    const newest = newestOf(sink)
    const isAhead = newest !== null && newest.revision > entry.revision
    const proof = `${entry.name} ${sink.replacements}`
    if (!(isAhead && 'events' in newest) && proof !== this.#proof) {
      const isOfHistory = await store.isOfHistory(entry, sink.fingerprint(), sink.place!.position)
      if (proof !== `${entry.name} ${sink.replacements}`) {
        throw new BrokerError('unavailable', 'etcd replaced the content in the meantime')
      }
      if (!isOfHistory) return await this.#load(entry, 'history-changed')
      this.#proof = proof
    }
    this.#state = chainBegan(this.#state, entry, isAhead ? newest : null)
    sink.isRelisted = false
    this.#status.moved(entry, null)
  }

  /** Loads a state; if its snapshot is unreadable, the chain is broken there and a later snapshot is needed. */
  async #tryState(message: StateMessage, sequence: number): Promise<Outcome | null> {
    try {
      const start = startAtState(message, sequence, this.#held)
      // Its download may take long, and etcd may be faster.
      if (start.kind === 'load') this.options.onAway('NATS: the stream contains a whole state')
      await this.#begin(start)
      return null
    } catch (error) {
      if (this.options.store.isUsable(message.snapshot)) throw error
      const broken = { kind: 'broken', reason: 'the snapshot that the stream names cannot be read', sequence } as const
      return message.reason === 'history-changed' ? { ...broken, isOtherHistory: true } : broken
    }
  }

  // Following

  #follow(signal: AbortSignal): Promise<Outcome> {
    const { client, names, envelope } = this.options
    const { chain, target } = this.#state
    if (chain === null) return Promise.resolve({ kind: 'ended', reason: 'no position in the stream' })
    if (this.#isOvertaken) return Promise.resolve({ kind: 'ended', reason: 'no status has arrived from a publisher' })
    const parts = new PartAssembler()
    return new Promise((resolve) => {
      const finish = (outcome: Outcome): void => {
        signal.removeEventListener('abort', onAbort)
        consumer.close()
        this.#phase = READING
        this.#status.away()
        resolve(outcome)
      }
      this.#phase = { kind: 'opening', end: finish }
      const onAbort = (): void => finish({ kind: 'ended', reason: 'stopped' })
      // NATS is alive. Only the publisher's status can say whether the publisher and etcd are.
      const onAlive = (): void => {
        if (this.#phase.kind !== 'opening') return
        this.#phase = { kind: 'following', end: finish }
        this.options.onFollowing()
        this.options.sendOneWay('word')
        this.#status.following()
      }
      const consumer = client.follow(names.stream, chain.sequence + 1, {
        onMessage: (sequence, data) => {
          onAlive()
          const part = envelope.open('message', sequence, data)
          if (part === null) this.#state = { ...this.#state, refused: sequence }
          const end = part === null ? null : this.#receive(sequence, parts, part)
          if (end === null) this.#status.consider()
          else finish(end)
        },
        onIdle: onAlive,
        onEnd: (reason) => finish({ kind: 'ended', reason }),
      })
      signal.addEventListener('abort', onAbort, { once: true })
      // Nothing is missing, so do not wait for the first heartbeat.
      if (chain.sequence >= target && client.isConnected) onAlive()
    })
  }

  /** @returns null while the chain continues. */
  #receive(sequence: number, parts: PartAssembler, part: Buffer): ChainEnd | null {
    try {
      const message = parts.add(part)
      return message === null ? null : this.#take(sequence, message)
    } catch (error) {
      // Nothing may be thrown into the client of NATS, which would end its connection.
      if (!(error instanceof BrokerError)) {
        this.options.logger.error({ stream: this.options.names.stream, err: error }, 'unexpected error in a subscriber')
      }
      return { kind: 'broken', reason: errorMessage(error), sequence }
    }
  }

  #take(sequence: number, message: Message): ChainEnd | null {
    const { sink, clock, metrics } = this.options
    const position = sink.place?.position ?? ZERO_REVISION
    const step = followed(this.#state.chain as Chain, sequence, message, position)
    if (step.kind !== 'follows') return step
    const { kind, sentAt, revision, trustsProgress } = message
    if (kind === 'batches') {
      sink.apply(step.fresh)
      metrics.received(step.fresh.reduce((sum, { events }) => sum + events.length, 0))
      metrics.delay(Math.max(0, (clock.now() - sentAt) / 1_000))
    } else if (kind === 'progress' && revision > position) sink.progress(revision)
    this.#state = { ...this.#state, chain: step.chain, trustsProgress }
    this.#status.moved(step.chain, step.writtenAt)
    return null
  }
}

/** Returns the newest of the sink's content that a stream can be compared with. */
function newestOf(sink: PlacedSink): Expected | null {
  if (sink.lastBatch !== null) return sink.lastBatch
  const put = sink.fingerprint().newest
  return put === null ? null : { revision: put.modRevision, put }
}
