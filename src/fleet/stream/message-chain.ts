/**
 * Checks the messages of a stream one by one, and says what each brings to the sink. `subscriber.ts` then delivers it.
 *
 * The order of messages is checked, not trusted: each must follow the revision that the previous one left, under the
 * same epoch or a later one that begins with a claim or a state. A message that does not follow breaks the chain.
 *
 * The sink may be ahead of the chain, because etcd itself fed it in the meantime or the stream was recreated. Then
 * batches that the sink has are skipped, and its last batch is compared with the stream's: the stream may tell another
 * history.
 */
import type { Batch } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Message, StreamPlace } from './message.js'

export type StateMessage = Extract<Message, { kind: 'state' }>

/** The end of what was read of a stream. */
export interface Chain extends StreamPlace {
  /** The sink's last batch, while the sink is ahead of the chain and not yet proven to be of the same history. */
  readonly expected: Batch | null
}

/** The message follows. */
export interface ChainStep {
  readonly kind: 'follows'
  readonly chain: Chain
  /** The batches of the message that the sink does not have yet. */
  readonly fresh: readonly Batch[]
  /** When that was written, by the publisher's clock. A claim only announces a publisher, and has null. */
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
       * with another publisher writing in its place: the stream's current messages may well lead up to this one.
       */
      readonly isMisplaced?: true
    }
  /** A whole state replaces everything: read its snapshot, and begin the chain there. */
  | { readonly kind: 'state'; readonly message: StateMessage; readonly sequence: number }

/** @param position how far the sink is. */
export function followed(chain: Chain, sequence: number, message: Message, position: Revision): ChainStep | ChainEnd {
  const { kind, epoch, previous, revision, clusterId, isSynced, sentAt } = message
  const broken = (reason: string): ChainEnd => ({ kind: 'broken', reason, sequence })
  const misplaced = (reason: string): ChainEnd => ({ kind: 'broken', reason, sequence, isMisplaced: true })
  if (epoch < chain.epoch) return misplaced(`epoch ${epoch} after ${chain.epoch}`)
  if (kind === 'state') return { kind: 'state', message, sequence }
  if (epoch > chain.epoch && kind !== 'claim') return misplaced(`epoch ${epoch} without a claim`)
  if (clusterId !== chain.clusterId) return broken(`etcd ${clusterId} instead of ${chain.clusterId}`)
  if (previous !== chain.revision) return misplaced(`follows revision ${previous} instead of ${chain.revision}`)
  const batches = kind === 'batches' ? message.batches : []
  const expected = stillExpected(chain.expected, batches)
  if (expected === 'differs') {
    const reason = `revision ${chain.expected?.revision} is not what was held`
    return { kind: 'broken', reason, sequence, isOtherHistory: true }
  }
  const fresh = (batches[0]?.revision ?? 0) > position ? batches : batches.filter((batch) => batch.revision > position)
  const next = { sequence, epoch, revision, clusterId, isSynced, expected }
  return { kind: 'follows', chain: next, fresh, writtenAt: kind === 'claim' ? null : sentAt }
}

/** Returns what the chain must contain later; null if it need not, or contains it now. */
function stillExpected(expected: Batch | null, batches: readonly Batch[]): Batch | 'differs' | null {
  if (expected === null) return null
  const told = batches.find(({ revision }) => revision >= expected.revision)
  if (told === undefined) return expected
  return isSameBatch(told, expected) ? null : 'differs'
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
