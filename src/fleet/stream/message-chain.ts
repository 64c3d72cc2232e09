/**
 * Checks the messages of a stream one by one, and determines what each adds to the sink. `subscriber.ts` then delivers
 * that.
 *
 * The order of messages is checked, not trusted. Each message must continue from the revision at which the previous one
 * ended, in the same epoch or in a later epoch that begins with a claim or a state. A message that does not follow
 * breaks the chain.
 *
 * The sink may be ahead of the chain, because etcd itself fed it in the meantime or the stream was recreated. Batches
 * that the sink already has are then skipped, and the newest of what it has is compared with the stream's, because the
 * stream may contain a different history.
 */
import { isSamePut, type KnownPut } from '../../engine/feed/history-fingerprint.js'
import type { Batch } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Message, StreamPlace } from './message.js'

export type StateMessage = Extract<Message, { kind: 'state' }>

/** The part of the sink's content that the stream must repeat: its last batch, or the newest put of a whole state. */
export type Expected = Batch | { readonly revision: Revision; readonly put: KnownPut }

/** How far a stream has been read. */
export interface Chain extends StreamPlace {
  /** Set while the sink is ahead of the chain and its history is not yet proven to be the stream's; otherwise null. */
  readonly expected: Expected | null
}

/** The message follows the previous one. */
export interface ChainStep {
  readonly kind: 'follows'
  readonly chain: Chain
  /** The batches of the message that the sink does not have yet. */
  readonly fresh: readonly Batch[]
  /** When the message was written, by the publisher's clock; null for a claim, which only announces a publisher. */
  readonly writtenAt: number | null
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
       * and another publisher may have written new messages in its place. Those messages may well lead up to this one.
       */
      readonly isMisplaced?: true
    }
  /** A whole state replaces everything. The subscriber must read its snapshot and begin the chain there. */
  | { readonly kind: 'state'; readonly message: StateMessage; readonly sequence: number }

/** @param position the revision that the sink has reached. */
export function followed(chain: Chain, sequence: number, message: Message, position: Revision): ChainStep | ChainEnd {
  const { kind, epoch, previous, revision, clusterId, isSynced, sentAt } = message
  const broken = (reason: string): ChainEnd => ({ kind: 'broken', reason, sequence })
  const misplaced = (reason: string): ChainEnd => ({ kind: 'broken', reason, sequence, isMisplaced: true })
  if (epoch < chain.epoch) return misplaced(`epoch ${epoch} after epoch ${chain.epoch}`)
  if (kind === 'state') return { kind: 'state', message, sequence }
  if (epoch > chain.epoch && kind !== 'claim') return misplaced(`epoch ${epoch} without a claim`)
  if (clusterId !== chain.clusterId) return broken(`etcd ${clusterId} instead of ${chain.clusterId}`)
  if (previous !== chain.revision) return misplaced(`follows revision ${previous} instead of ${chain.revision}`)
  const batches = kind === 'batches' ? message.batches : []
  const expected = stillExpected(chain.expected, batches, revision)
  if (expected === 'differs') {
    const reason = `revision ${chain.expected?.revision} differs from the one held here`
    return { kind: 'broken', reason, sequence, isOtherHistory: true }
  }
  const fresh = (batches[0]?.revision ?? 0) > position ? batches : batches.filter((batch) => batch.revision > position)
  const next = { sequence, epoch, revision, clusterId, isSynced, expected }
  return { kind: 'follows', chain: next, fresh, writtenAt: kind === 'claim' ? null : sentAt }
}

/**
 * Returns what later messages must contain; null if there is nothing, or if these batches contain it.
 * @param until the revision up to which the batches are complete.
 */
function stillExpected(
  expected: Expected | null,
  batches: readonly Batch[],
  until: Revision,
): Expected | 'differs' | null {
  if (expected === null) return null
  const actual = batches.find(({ revision }) => revision >= expected.revision)
  if (actual === undefined) return until < expected.revision ? expected : 'differs'
  return hasExpected(actual, expected) ? null : 'differs'
}

function hasExpected(actual: Batch, expected: Expected): boolean {
  if ('events' in expected) return isSameBatch(actual, expected)
  return actual.events.some((event) => event.type === 'put' && isSamePut(expected.put, event.keyValue))
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
