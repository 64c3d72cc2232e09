/**
 * Recognizes a history by the end of its stream: one of the last messages carries the fingerprint, and the batches of
 * the messages after it continue it. So a publisher that takes over compares as much with etcd as a feed that
 * continues.
 */
import { HistoryFingerprint, type KnownHistory } from '../../engine/feed/history-fingerprint.js'
import type { KeyValue } from '../../engine/model/event.js'
import type { Message } from './message.js'

/**
 * One in this many messages carries the fingerprint: each costs the stream about 2 KB, or the next publisher a read.
 */
export const FINGERPRINT_EVERY = 8

/**
 * @param messages the end of the stream in ascending order, at least one, starting at the last fingerprint if there is
 * one.
 */
export function recallHistory(messages: readonly Message[]): HistoryFingerprint {
  const [first, ...later] = messages as readonly [Message, ...Message[]]
  const fingerprint = HistoryFingerprint.recalled(knownAfter(first))
  for (const message of later) if (message.kind === 'batches') fingerprint.applied(message.batches)
  return fingerprint
}

function knownAfter(message: Message): KnownHistory {
  const values = valuesOf(message)
  if (message.fingerprint === undefined) {
    const fingerprint = new HistoryFingerprint()
    if (message.kind === 'batches') fingerprint.applied(message.batches)
    else return { puts: values, lastDelete: message.testimony.lastDelete, keyCount: null }
    return fingerprint
  }
  const { puts, lastDelete, keyCount } = message.fingerprint
  // Values that the message repeats go into this publisher's own marks.
  const whole = puts.map(
    (put) => values.find((each) => each.key === put.key && each.modRevision === put.modRevision) ?? put,
  )
  return { puts: whole, lastDelete, keyCount }
}

function valuesOf(message: Message): readonly KeyValue[] {
  if (message.kind !== 'batches') return message.testimony.newest === null ? [] : [message.testimony.newest]
  return message.batches.flatMap(({ events }) =>
    events.flatMap((event) => (event.type === 'put' ? [event.keyValue] : [])),
  )
}
