/**
 * Recognizes a history by the end of its stream: the last mark carries the fingerprint, and the batches after it
 * continue it. So a publisher that takes over compares as much with etcd as a feed that continues.
 */
import { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import type { Message } from './message.js'

/**
 * One in this many batches carries the fingerprint as well: each costs the stream about 2 KB, or the next publisher a
 * read.
 */
export const FINGERPRINT_EVERY = 8

/**
 * @param messages the end of the stream in ascending order, at least one, starting at the last fingerprint if the stream
 * still has one.
 */
export function recallHistory(messages: readonly Message[]): HistoryFingerprint {
  let fingerprint = new HistoryFingerprint()
  for (const message of messages) {
    if (message.fingerprint !== undefined) fingerprint = HistoryFingerprint.recalled(message.fingerprint)
    else if (message.kind === 'batches') fingerprint.applied(message.batches)
  }
  return fingerprint
}
