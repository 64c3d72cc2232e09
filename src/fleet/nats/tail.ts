/** Finds the last whole message of a stream, after which the next publisher goes on. */
import { decodePart, joinParts, type Message, type Part } from './message.js'
import type { Envelope } from './envelope.js'
import type { Names } from './names.js'
import { BrokerError } from './broker-error.js'
import type { NatsClient } from './nats-client.js'

export interface Tail {
  /** The next write must expect this sequence; 0 where nothing was ever written. */
  readonly sequence: number
  /** The first message that the stream still has. */
  readonly first: number
  /** null when no message is left after which a publisher could go on. */
  readonly message: Message | null
}

/** The most messages at the end of a stream that are skipped because this fleet has not signed them. */
const MOST_REFUSED = 64

/**
 * Skips the parts of a message whose publisher died before the last part, and messages that this fleet has not signed. After
 * a message that cannot be read, or that something else wrote, no publisher can go on.
 *
 * @throws BrokerError
 */
export async function readTail(client: NatsClient, names: Names, envelope: Envelope): Promise<Tail> {
  const state = await client.streamState(names.stream)
  if (state === null || state.last === 0) return { sequence: 0, first: 1, message: null }
  const { last, first } = state
  try {
    return { sequence: last, first, message: await lastMessage({ client, names, envelope }, first, last) }
  } catch (error) {
    if (!(error instanceof BrokerError) || error.code !== 'corrupt') throw error
    return { sequence: last, first, message: null }
  }
}

interface Source {
  readonly client: Pick<NatsClient, 'message'>
  readonly names: Names
  readonly envelope: Envelope
}

async function lastMessage(from: Source, first: number, last: number): Promise<Message | null> {
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
    return joinParts(parts)
  }
  return null
}

async function partAt({ client, names, envelope }: Source, sequence: number): Promise<Part | 'refused' | null> {
  const data = await client.message(names.stream, sequence)
  if (data === null) return null
  const part = envelope.open('message', sequence, data)
  return part === null ? 'refused' : decodePart(part)
}
