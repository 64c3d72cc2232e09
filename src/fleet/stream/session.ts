/**
 * The state of a publishing session as a plain value, and which message comes next. `publisher.ts` does the writing.
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
 * The last message is the last that the stream is known to have; epoch 0: the session has not begun. Replicas answer
 * reads only from a stream that is synced, so after a whole state it takes another message that says so.
 */
export interface Session extends StreamPlace {
  readonly settled: Revision
  /** Messages of batches since the last fingerprint. */
  readonly sinceFingerprint: number
  /** When the last message of the previous publisher was written; null if there is nothing to continue. */
  readonly continuedAt: number | null
}

export const NOT_BEGUN: Session = {
  epoch: 0,
  sequence: 0,
  revision: ZERO_REVISION,
  settled: ZERO_REVISION,
  clusterId: '',
  isSynced: false,
  sinceFingerprint: 0,
  continuedAt: null,
}

/** Begins after the end of the stream. */
export function beginAfter({ sequence, end }: Tail): Session {
  const last = end?.message
  // If no epoch is left to count from, the sequence is at least as high as any: each has written a message.
  const begun = { ...NOT_BEGUN, epoch: (last?.epoch ?? sequence) + 1, sequence }
  if (last?.isSynced !== true) return begun
  const { revision, settled, clusterId, sentAt } = last
  return { ...begun, revision, settled, clusterId, isSynced: true, continuedAt: sentAt }
}

/** Whether the next message has the fingerprint: a mark may be the only message that a quiet stream still has. */
export function isFingerprintDue({ sinceFingerprint }: Session, { kind }: Body): boolean {
  return kind !== 'batches' || sinceFingerprint + 1 >= FINGERPRINT_EVERY
}

/** @param changes how the message differs from the one before it. */
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
