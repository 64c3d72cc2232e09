/**
 * Finds the last whole message of a stream, after which the next publisher continues, and the fingerprint of its
 * history.
 */
import type { HistoryFingerprint } from '../../engine/feed/history-fingerprint.js'
import { type Broker, BrokerError } from '../broker.js'
import { decodePart, joinParts, type Message, type Part } from './message.js'
import type { Envelope } from './signed-envelope.js'
import type { Names } from './names.js'
import { FINGERPRINT_EVERY, recallHistory } from './recall-history.js'

export interface Tail {
  /** The sequence that the next write must expect; 0 if nothing was ever written. */
  readonly sequence: number
  /** null if no message is left after which a publisher could continue. */
  readonly end: StreamEnd | null
}

export interface StreamEnd {
  readonly message: Message
  /** The fingerprint of everything up to the message. */
  readonly fingerprint: HistoryFingerprint
}

interface Placed {
  readonly message: Message
  /** The sequence of its first part. */
  readonly start: number
}

/** The most unsigned messages skipped at the end of a stream. */
const MOST_REFUSED = 64

/**
 * Skips the parts of a message whose publisher died before the last part, and messages that this fleet has not signed.
 * No publisher can continue after a message that is unreadable or foreign.
 *
 * @throws BrokerError
 */
export async function readTail(client: Broker, names: Names, envelope: Envelope): Promise<Tail> {
  const state = await client.streamState(names.stream)
  if (state === null || state.last === 0) return { sequence: 0, end: null }
  const { last, first } = state
  const source = { client, names, envelope }
  const newest = await orNull(lastMessage(source, first, last))
  if (newest === null) return { sequence: last, end: null }
  const { message } = newest
  // A stream is continued only if its last message says that the stream is complete.
  const messages = message.isSynced ? await sinceFingerprint(source, first, newest) : [message]
  return { sequence: last, end: { message, fingerprint: recallHistory(messages) } }
}

interface Source {
  readonly client: Pick<Broker, 'message'>
  readonly names: Names
  readonly envelope: Envelope
}

/** Returns the messages from the last fingerprint onward, in ascending order, as far back as each leads to the next. */
async function sinceFingerprint(source: Source, first: number, newest: Placed): Promise<Message[]> {
  const messages = [newest.message]
  let oldest: Placed = newest
  while (messages.length < FINGERPRINT_EVERY && oldest.message.fingerprint === undefined) {
    const before = await orNull(lastMessage(source, first, oldest.start - 1))
    if (before === null || !leadsTo(before.message, oldest.message)) break
    messages.unshift(before.message)
    oldest = before
  }
  return messages
}

function leadsTo(before: Message, after: Message): boolean {
  return before.revision === after.previous && before.epoch <= after.epoch && before.clusterId === after.clusterId
}

/** Returns null instead of an unreadable message. */
async function orNull(read: Promise<Placed | null>): Promise<Placed | null> {
  try {
    return await read
  } catch (error) {
    if (!(error instanceof BrokerError) || error.code !== 'corrupt') throw error
    return null
  }
}

/** Returns the last whole message that ends at or before sequence `last`; null if none is usable. */
async function lastMessage(from: Source, first: number, last: number): Promise<Placed | null> {
  let refused = 0
  for (let at = last; at >= first;) {
    const part = await partAt(from, at)
    if (part === 'refused' && ++refused <= MOST_REFUSED) {
      at--
      continue
    }
    if (part === null || part === 'refused') break
    const start = at - part.index
    if (part.index < part.count - 1) {
      at = start - 1
      continue
    }
    const parts: Part[] = []
    for (let sequence = start; sequence <= at; sequence++) {
      const piece = sequence === at ? part : await partAt(from, sequence)
      if (piece === null || piece === 'refused') return null
      parts.push(piece)
    }
    return { message: joinParts(parts), start }
  }
  return null
}

async function partAt({ client, names, envelope }: Source, sequence: number): Promise<Part | 'refused' | null> {
  const data = await client.message(names.stream, sequence)
  if (data === null) return null
  const part = envelope.open('message', sequence, data)
  return part === null ? 'refused' : decodePart(part)
}
