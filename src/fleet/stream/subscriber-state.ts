/**
 * Decides where a subscriber begins to read its stream, and what a break of the chain means. It reads and writes nothing;
 * `subscriber.ts` performs what is decided here.
 *
 * | the sink holds      | the stream                                     | begin with                                   |
 * | ------------------- | ---------------------------------------------- | -------------------------------------------- |
 * | nothing             | reaches a snapshot                             | the oldest useful snapshot, `initial`        |
 * | revision R          | leads from a snapshot at or before R up to R   | that snapshot, and keep what is held         |
 * | another history     | reaches a snapshot                             | the newest snapshot, `history-changed`       |
 * | a broken chain      | reaches a snapshot at or after R               | the newest snapshot, `gap` or `coalesce`     |
 * | anything            | reaches no such snapshot                       | wait for the publisher to take one           |
 */
import type { ReplaceReason } from '../../engine/model/feed-sink.js'
import type { Revision } from '../../engine/model/revision.js'
import type { StreamState } from '../broker.js'
import type { ChainEnd, StateMessage } from './message-chain.js'
import type { SnapshotEntry } from './snapshot-store.js'

export interface SubscriberState {
  /** When the stream was created. A recreated stream counts from one again. */
  readonly created: string
  /** The message at which the chain broke: earlier snapshots do not help. 0 while the chain is whole. */
  readonly brokenAt: number
  /** The message that did not follow when it was first read. The stream is reread from an earlier snapshot, once. */
  readonly doubtedAt: number
  /** Whether the stream contradicted the sink's content. */
  readonly isOtherHistory: boolean
  /** The etcd that the sink's content came from; null while unknown. */
  readonly clusterId: string | null
}

export const NOTHING_READ: SubscriberState = {
  created: '',
  brokenAt: 0,
  doubtedAt: 0,
  isOtherHistory: false,
  clusterId: null,
}

/** The content of the sink, whatever fed it. */
export interface Held {
  readonly position: Revision
  /** null if unknown. */
  readonly clusterId: string | null
  /** Whether etcd itself feeds the sink now: then a break of the chain has cost it nothing. */
  readonly isFromEtcd: boolean
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
  if (newest === undefined) return { kind: 'wait', reason: 'there is no snapshot that the stream goes on from' }
  if (held === null) {
    const entry = reachable.find(({ sequence }) => last - sequence <= refillMessages) ?? newest
    return { kind: 'load', entry, reason: 'initial' }
  }
  const isSameEtcd = isFrom(held, newest.clusterId)
  const bridge = reachable.findLast(({ revision }) => revision <= held.position)
  if (bridge !== undefined && isSameEtcd && (state.brokenAt === 0 || held.isFromEtcd))
    return { kind: 'bridge', entry: bridge }
  if (state.isOtherHistory || !isSameEtcd) return { kind: 'load', entry: newest, reason: 'history-changed' }
  if (newest.revision < held.position) {
    return { kind: 'wait', reason: 'there is no snapshot as new as what is held' }
  }
  return { kind: 'load', entry: newest, reason: onGap === 'coalesce' ? 'coalesce' : 'gap' }
}

/** Decides how to take a whole state from the stream: its snapshot exists, because the publisher wrote it first. */
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

/** A message may follow after all when the stream is read from further back: then it is `doubted`, and otherwise `broken`. */
export function chainBroke(
  state: SubscriberState,
  { sequence, isMisplaced, isOtherHistory }: Extract<ChainEnd, { kind: 'broken' }>,
): { readonly kind: 'doubted' | 'broken'; readonly state: SubscriberState } {
  const isDoubted =
    isMisplaced === true && isOtherHistory !== true && state.brokenAt === 0 && sequence > state.doubtedAt
  if (isDoubted) return { kind: 'doubted', state: { ...state, doubtedAt: sequence } }
  const isOther = state.isOtherHistory || isOtherHistory === true
  return { kind: 'broken', state: { ...state, brokenAt: sequence, isOtherHistory: isOther } }
}

/** Also true if it is unknown which etcd the content came from. */
function isFrom(held: Held, clusterId: string): boolean {
  return held.clusterId === null || held.clusterId === clusterId
}
