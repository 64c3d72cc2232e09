/**
 * The state of a publishing session as a plain value, and the choice of its next message. `publisher.ts` does the
 * writing.
 *
 *     continues the stream ── claim ─▶ synced ◀──── progress ────┐
 *                                        └── a whole state ─▶ unsynced
 *     cannot continue it ───────────────────── a whole state ─────▲
 */
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import type { Body, Message, StreamPlace } from './message.js'
import { FINGERPRINT_EVERY } from './recall-history.js'
import type { Tail } from './tail.js'

/**
 * `sequence` is the last message that the stream is known to have. Epoch 0 means that the session has not begun.
 * Replicas answer reads only from a synced stream, so after a whole state another message must say that the stream is
 * synced.
 */
export interface Session extends StreamPlace {
  readonly settled: Revision
  /** The number of messages of batches since the last fingerprint. */
  readonly sinceFingerprint: number
  /**
   * When etcd had what the session continues after: the last message of the previous publisher, or a state of its own;
   * null if there is nothing to continue.
   */
  readonly continuedAt: number | null
}

export const NOT_STARTED: Session = {
  epoch: 0,
  sequence: 0,
  revision: ZERO_REVISION,
  settled: ZERO_REVISION,
  clusterId: '',
  isSynced: false,
  sinceFingerprint: 0,
  continuedAt: null,
}

/**
 * Begins after the end of the stream.
 * @param knownEpoch the highest epoch of the messages that this process has followed. The stream may have been deleted
 * since, or have lost its end. If an epoch were used again, followers would take the statuses for those of the old stream.
 */
export function beginAfter({ sequence, end }: Tail, knownEpoch: number): Session {
  const last = end?.message
  // If the stream no longer shows its epoch, its sequence is at least as high as any epoch so far, because each epoch
  // has written at least one message.
  const session = { ...NOT_STARTED, epoch: Math.max(last?.epoch ?? sequence, knownEpoch) + 1, sequence }
  if (last?.isSynced !== true) return session
  const { revision, settled, clusterId, sentAt } = last
  return { ...session, revision, settled, clusterId, isSynced: true, continuedAt: sentAt }
}

/**
 * Whether the next message must carry the fingerprint. A mark always does, because it may be the only message that a
 * quiet stream still has.
 */
export function isFingerprintDue({ sinceFingerprint }: Session, { kind }: Body): boolean {
  return kind !== 'batches' || sinceFingerprint + 1 >= FINGERPRINT_EVERY
}

/** @param changes how the message differs from the previous one. */
export function nextMessage(
  { epoch, revision: previous, settled, clusterId, isSynced }: Session,
  body: Body,
  changes: Partial<Pick<Session, 'revision' | 'isSynced'>>,
  stamp: Pick<Message, 'sentAt' | 'trustsProgress' | 'fingerprint'>,
): Message {
  const { revision = previous } = changes
  const isContent = body.kind === 'batches' || body.kind === 'state'
  return {
    epoch,
    previous,
    clusterId,
    isSynced,
    ...changes,
    revision,
    settled: isContent ? revision : settled,
    ...stamp,
    ...body,
  }
}

/** @param sequence the stream's acknowledged last message. */
export function written(session: Session, message: Message, sequence: number): Session {
  const { revision, settled, isSynced, fingerprint } = message
  const sinceFingerprint = fingerprint === undefined ? session.sinceFingerprint + 1 : 0
  return { ...session, sequence, revision, settled, isSynced, sinceFingerprint }
}
