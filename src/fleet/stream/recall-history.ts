/**
 * Computes the fingerprint of a history from the end of its stream. Every mark and some messages of batches carry the
 * fingerprint; the batches after the last one are then added. So a new publisher can check etcd as thoroughly as a feed
 * that was not interrupted.
 */
import { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Message } from './message.js'

/**
 * One in this many messages of batches carries the fingerprint as well. A smaller number would add more fingerprints of
 * 2 KB to the stream, and a larger one would make the next publisher read more.
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
