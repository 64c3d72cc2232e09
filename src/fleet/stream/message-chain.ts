/**
 * Checks the messages of a stream one by one, and passes their content to the sink.
 *
 * The order of messages is checked, not trusted: each must follow the revision that the previous one left, under the
 * same epoch or a later one that begins with a claim or a state. A message that does not follow breaks the chain.
 *
 * The sink may be ahead of the chain, because etcd itself fed it meanwhile or the stream was recreated. Then batches
 * that the sink has are skipped, and its last batch is compared with the stream's: the stream may tell another history.
 */
import type { Batch } from '../../engine/model/event.js'
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import type { FleetMetrics } from '../fleet-metrics.js'
import type { Clock } from '../../support/clock.js'
import { BrokerError } from '../broker.js'
import type { Message } from './message.js'
import { PartAssembler } from './part-assembler.js'
import type { PlacedSink } from './placed-sink.js'

export type StateMessage = Extract<Message, { kind: 'state' }>

/** The position of the last message in the stream. */
export interface ChainPlace {
  readonly sequence: number
  readonly epoch: number
  readonly revision: Revision
  readonly clusterId: string
}

/** Where the chain begins, and what the publisher said about itself there. */
export interface ChainStart extends ChainPlace {
  readonly isSynced: boolean
  readonly trustsProgress: boolean
}

/** The end of the chain; `sequence` is the message that ended it. */
export type ChainEnd =
  | {
      readonly kind: 'broken'
      readonly reason: string
      readonly sequence: number
      /** The stream contradicts the sink's content. */
      readonly isOtherHistory?: true
      /**
       * The message does not follow the one read before it. NATS may have lost the end of the stream after it was read,
       * with another publisher writing in its place: what the stream has now may well lead up to this message.
       */
      readonly isMisplaced?: true
    }
  /** A whole state replaces everything: read its snapshot, and begin the chain there. */
  | { readonly kind: 'state'; readonly message: StateMessage; readonly sequence: number }

export interface MessageChainOptions {
  readonly sink: PlacedSink
  readonly clock: Clock
  readonly metrics: Pick<FleetMetrics, 'hop' | 'received'>
  /**
   * Called at each move. @param writtenAt when the message was written; absent if that says nothing about the content's
   * age.
   */
  readonly onMoved: (place: ChainPlace, writtenAt?: number | null) => void
}

export class MessageChain {
  readonly #options: MessageChainOptions
  readonly #parts = new PartAssembler()
  #place: ChainPlace | null = null
  #isSynced = false
  #trustsProgress = false
  /** The sink's last batch, while the sink is ahead of the chain and not yet proven to be of the same history. */
  #expected: Batch | null = null

  constructor(options: MessageChainOptions) {
    this.#options = options
  }

  /** null before the chain has begun, and after it was broken. */
  get place(): ChainPlace | null {
    return this.#place
  }

  /** Whether the publisher has proven that the stream has everything that etcd had. */
  get isSynced(): boolean {
    return this.#isSynced
  }

  /** Whether etcd's answers to progress requests can be trusted, according to the publisher. */
  get trustsProgress(): boolean {
    return this.#trustsProgress
  }

  /** Begins where a snapshot was loaded into the sink. @param writtenAt when it was taken; null if unknown. */
  beginAt(start: ChainStart, writtenAt: number | null): void {
    this.#begin(start, null)
    this.#options.onMoved(this.#place!, writtenAt)
  }

  /**
   * Begins behind the sink, which keeps its content. @param expected the sink's last batch, if the chain will meet it.
   */
  beginBehind(start: ChainStart, expected: Batch | null): void {
    this.#begin(start, expected)
    this.#options.onMoved(this.#place!)
  }

  /** The sink got to this batch by another route. If it is ahead of the chain, the chain must contain the batch. */
  meets(last: Batch | null): void {
    if (last !== null && this.#place !== null && last.revision > this.#place.revision) this.#expected = last
  }

  forget(): void {
    this.#place = null
    this.#expected = null
  }

  /** A new consumer begins to read after `place`, so parts from an earlier one are dropped. */
  resume(): void {
    this.#parts.clear()
  }

  /** Takes the next part of the stream. @returns null while the chain continues. */
  receive(sequence: number, data: Buffer): ChainEnd | null {
    const place = this.#place
    if (place === null) return { kind: 'broken', reason: 'no place', sequence }
    try {
      const message = this.#parts.add(data)
      return message === null ? null : this.#follow(sequence, message, place)
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error
      return { kind: 'broken', reason: error.message, sequence }
    }
  }

  #begin({ sequence, epoch, revision, clusterId, isSynced, trustsProgress }: ChainStart, expected: Batch | null): void {
    this.#place = { sequence, epoch, revision, clusterId }
    this.#isSynced = isSynced
    this.#trustsProgress = trustsProgress
    this.#expected = expected
  }

  #follow(sequence: number, message: Message, place: ChainPlace): ChainEnd | null {
    const { kind, epoch, previous, revision, clusterId } = message
    const broken = (reason: string): ChainEnd => ({ kind: 'broken', reason, sequence })
    const misplaced = (reason: string): ChainEnd => ({ kind: 'broken', reason, sequence, isMisplaced: true })
    if (epoch < place.epoch) return misplaced(`epoch ${epoch} after ${place.epoch}`)
    if (kind === 'state') return { kind: 'state', message, sequence }
    if (epoch > place.epoch && kind !== 'claim') return misplaced(`epoch ${epoch} without a claim`)
    if (clusterId !== place.clusterId) return broken(`etcd ${clusterId} instead of ${place.clusterId}`)
    if (previous !== place.revision) return misplaced(`follows revision ${previous} instead of ${place.revision}`)
    if (kind === 'batches') {
      const end = this.#apply(sequence, message.batches)
      if (end !== null) return end
      this.#options.metrics.hop(Math.max(0, (this.#options.clock.now() - message.sentAt) / 1_000))
    } else if (kind === 'progress' && revision > (this.#options.sink.place?.position ?? ZERO_REVISION)) {
      this.#options.sink.progress(revision)
    }
    this.#trustsProgress = message.trustsProgress
    this.#isSynced = message.isSynced
    this.#place = { sequence, epoch, revision, clusterId }
    // A claim only announces a publisher; it does not show how far etcd has got.
    this.#options.onMoved(this.#place, ...(kind === 'claim' ? [] : [message.sentAt]))
    return null
  }

  #apply(sequence: number, batches: readonly Batch[]): ChainEnd | null {
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
    metrics.received(fresh.reduce((sum, { events }) => sum + events.length, 0))
    return null
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
