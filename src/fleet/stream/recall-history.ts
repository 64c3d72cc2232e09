/**
 * Recognizes a history by the end of its stream: every mark and some batches carry the fingerprint, and the batches
 * after it continue it. So a new publisher can check etcd as thoroughly as a feed that merely continues.
 */
import { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Message } from './message.js'

/**
 * One in this many messages of batches carries the fingerprint as well: more often costs the stream 2 KB each, less
 * often makes the next publisher read more.
 */
export const FINGERPRINT_EVERY = 8

/**
 * @param messages the end of the stream in ascending order, at least one, starting at the last fingerprint if the
 * stream still has one.
 */
export function recallHistory(messages: readonly Message[]): HistoryFingerprint {
  let fingerprint = new HistoryFingerprint()
  for (const message of messages) {
    if (message.fingerprint !== undefined) fingerprint = HistoryFingerprint.recalled(message.fingerprint)
    else if (message.kind === 'batches') fingerprint.applied(message.batches)
  }
  return fingerprint
}
