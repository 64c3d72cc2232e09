/**
 * The state of a subscriber as a plain value, and the decisions made from it: where to begin reading the stream, and
 * how to continue after a break in the chain. `subscriber.ts` carries them out.
 *
 * | the sink holds      | the stream                                     | begin with                                   |
 * | ------------------- | ---------------------------------------------- | -------------------------------------------- |
 * | nothing             | reaches a snapshot                             | the oldest useful snapshot, `initial`        |
 * | revision R          | leads from a snapshot at or before R up to R   | that snapshot, and keep what is held         |
 * | another history     | reaches a snapshot                             | the newest snapshot, `history-changed`       |
 * | a broken chain      | reaches a snapshot at or after R               | the newest snapshot, `gap` or `coalesce`     |
 * | anything            | reaches no such snapshot                       | wait for the publisher to take one           |
 */
import type { Batch } from '../../engine/model/event.js'
import type { ReplaceReason } from '../../engine/model/feed-sink.js'
import type { Revision } from '../../engine/model/revision.js'
import type { StreamState } from '../broker.js'
import type { Chain, ChainEnd, Expected, StateMessage } from './message-chain.js'
import type { SnapshotEntry } from './snapshot-store.js'

export interface SubscriberState {
  /** When the stream was created. The sequences of a recreated stream start at 1 again. */
  readonly created: string
  /** The last message in the stream when the follower started. */
  readonly target: number
  /**
   * The newest message of the stream that this fleet has not signed. It is skipped, because the chain shows whether a
   * message is missing.
   */
  readonly refused: number
  /** How far the stream has been read; null before the chain has begun, and after it was broken. */
  readonly chain: Chain | null
  /** The message at which the chain broke, so earlier snapshots do not help; 0 while the chain is whole. */
  readonly brokenAt: number
  /** The message that did not follow when it was read. The stream is then reread from an earlier snapshot. */
  readonly doubtedAt: number
  /** How often in a row. */
  readonly doubts: number
  /** Whether the stream contradicted the sink's content. */
  readonly isOtherHistory: boolean
  /** The etcd that the sink's content came from; null while unknown. */
  readonly clusterId: string | null
  /** Whether that etcd's responses to progress requests can be trusted, according to the publisher. */
  readonly trustsProgress: boolean
}

export const NOTHING_READ: SubscriberState = {
  created: '',
  target: 0,
  refused: 0,
  chain: null,
  brokenAt: 0,
  doubtedAt: 0,
  doubts: 0,
  isOtherHistory: false,
  clusterId: null,
  trustsProgress: false,
}

/** The content of the sink, whatever fed it. */
export interface Held {
  readonly position: Revision
  /** null if unknown. */
  readonly clusterId: string | null
  /** Whether etcd itself feeds the sink now. If so, the sink has missed nothing when the chain breaks. */
  readonly isFromEtcd: boolean
  /** Whether etcd has replaced the content since the chain began, perhaps with another history. */
  readonly isRelisted: boolean
}

export type Start =
  | { readonly kind: 'load'; readonly entry: SnapshotEntry; readonly reason: ReplaceReason }
  /** Begins the chain at a snapshot, and lets the sink keep its content. */
  | { readonly kind: 'bridge'; readonly entry: SnapshotEntry }
  | { readonly kind: 'wait'; readonly reason: string }

export interface StartOptions {
  /** The most messages of history that a new replica replays. */
  readonly refillMessages: number
  /** How the sink handles a loss of history. */
  readonly onGap: 'expire' | 'coalesce'
}

/** @param snapshots in ascending order of sequence. @param held null while the sink holds nothing. */
export function chooseStart(
  state: SubscriberState,
  { first, last }: Pick<StreamState, 'first' | 'last'>,
  snapshots: readonly SnapshotEntry[],
  held: Held | null,
  { refillMessages, onGap }: StartOptions,
): Start {
  const reachable = snapshots.filter(
    ({ sequence }) => sequence <= last && sequence + 1 >= first && sequence >= state.brokenAt,
  )
  const newest = reachable.at(-1)
  if (newest === undefined)
    return { kind: 'wait', reason: 'no snapshot is recent enough for the stream to continue from it' }
  if (held === null) {
    const entry = reachable.find(({ sequence }) => last - sequence <= refillMessages) ?? newest
    return { kind: 'load', entry, reason: 'initial' }
  }
  const isSameEtcd = isFrom(held, newest.clusterId)
  const bridge = reachable.findLast(({ revision }) => revision <= held.position)
  const isSound = held.isFromEtcd || (state.brokenAt === 0 && !state.isOtherHistory)
  if (bridge !== undefined && isSameEtcd && isSound) return { kind: 'bridge', entry: bridge }
  if (state.isOtherHistory || !isSameEtcd) return { kind: 'load', entry: newest, reason: 'history-changed' }
  if (newest.revision < held.position) {
    return { kind: 'wait', reason: 'no snapshot is as recent as the data held here' }
  }
  return { kind: 'load', entry: newest, reason: onGap === 'coalesce' ? 'coalesce' : 'gap' }
}

/**
 * How often in a row the stream is reread for the same message, with a longer wait each time. A replica of the stream in
 * NATS that was cut off may show its own end of the stream for seconds, until NATS replaces it.
 */
const MAX_DOUBTS = 5

/** Decides how to load a whole state from the stream. Its snapshot exists, because the publisher wrote it first. */
export function startAtState(message: StateMessage, sequence: number, held: Held | null): Start {
  const { revision, settled, epoch, clusterId, snapshot: name, reason, isSynced, trustsProgress } = message
  const entry = { name, revision, settled, sequence, epoch, clusterId, isSynced, trustsProgress, keys: null }
  if (held === null) return { kind: 'load', entry, reason: 'initial' }
  const isSameEtcd = isFrom(held, clusterId)
  // The sink is already beyond the state, so for this sink there is no gap.
  if (revision <= held.position && reason !== 'history-changed' && isSameEtcd) return { kind: 'bridge', entry }
  const isOther = held.position > revision || !isSameEtcd
  return { kind: 'load', entry, reason: isOther ? 'history-changed' : reason }
}

/** Forgets everything known about the stream if it was recreated. */
export function foundStream(
  state: SubscriberState,
  { created, last }: Pick<StreamState, 'created' | 'last'>,
): SubscriberState {
  if (created === state.created) return { ...state, target: last }
  return { ...state, created, target: last, refused: 0, chain: null, brokenAt: 0, doubtedAt: 0, doubts: 0 }
}

/**
 * Whether the stream still has the messages that follow the chain, and the sink what came before them. If etcd feeds the
 * sink from an earlier revision than the chain has reached, etcd was restored, and what follows is of the old history.
 * The same may be true if etcd has replaced the content, whatever its revision, because a restored etcd may continue
 * with higher revisions than before.
 */
export function goesOn(
  { chain, clusterId }: SubscriberState,
  { first, last }: Pick<StreamState, 'first' | 'last'>,
  held: Held | null,
): boolean {
  if (chain === null || held === null || held.isRelisted || held.clusterId !== clusterId) return false
  const isRestored = held.isFromEtcd && held.position < chain.revision
  return !isRestored && chain.sequence <= last && chain.sequence + 1 >= first
}

/** @param expected what the sink has, if the chain begins behind it and must contain it. */
export function chainBegan(state: SubscriberState, entry: SnapshotEntry, expected: Expected | null): SubscriberState {
  const { sequence, epoch, revision, clusterId, isSynced, trustsProgress } = entry
  const chain = { sequence, epoch, revision, clusterId, isSynced, expected }
  return { ...state, chain, refused: 0, brokenAt: 0, isOtherHistory: false, clusterId, trustsProgress }
}

/**
 * Called when the sink got to this batch by another route. If the sink is ahead of the chain, the chain must contain
 * the batch.
 */
export function sinkIsAt(state: SubscriberState, last: Batch | null): SubscriberState {
  const { chain } = state
  if (last === null || chain === null || last.revision <= chain.revision) return state
  return { ...state, chain: { ...chain, expected: last } }
}

/**
 * Whether reads may be answered from the stream, and the sink has everything that the stream had when the follower
 * started.
 */
export function isCurrent({ chain, refused, target }: SubscriberState): boolean {
  return chain !== null && chain.isSynced && Math.max(chain.sequence, refused) >= target
}

/**
 * Returns `doubted` if the message may turn out to follow when the stream is read from further back, and otherwise
 * `broken`.
 */
export function chainBroke(
  state: SubscriberState,
  { sequence, isMisplaced, isOtherHistory }: Extract<ChainEnd, { kind: 'broken' }>,
): { readonly kind: 'doubted' | 'broken'; readonly state: SubscriberState } {
  const doubts = sequence > state.doubtedAt ? 1 : state.doubts + 1
  const isDoubted = isMisplaced === true && isOtherHistory !== true && state.brokenAt === 0 && doubts <= MAX_DOUBTS
  if (isDoubted) return { kind: 'doubted', state: { ...state, chain: null, doubtedAt: sequence, doubts } }
  const isOther = state.isOtherHistory || isOtherHistory === true
  return { kind: 'broken', state: { ...state, chain: null, brokenAt: sequence, isOtherHistory: isOther } }
}

/** Whether the content came from this etcd. Also true if its etcd is unknown. */
function isFrom(held: Held, clusterId: string): boolean {
  return held.clusterId === null || held.clusterId === clusterId
}
