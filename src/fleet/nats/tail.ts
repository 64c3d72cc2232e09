/** Finds the last whole message of a stream, after which the next publisher goes on. */
import { decodePart, joinParts, type Message, type Part } from './message.js'
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

/**
 * Skips the parts of a message whose publisher died before the last part. After a message that cannot be read, or that
 * something else wrote, no publisher can go on.
 *
 * @throws BrokerError
 */
export async function readTail(client: NatsClient, names: Names): Promise<Tail> {
  const state = await client.streamState(names.stream)
  if (state === null || state.last === 0) return { sequence: 0, first: 1, message: null }
  const { last, first } = state
  try {
    return { sequence: last, first, message: await lastMessage(client, names, first, last) }
  } catch (error) {
    if (!(error instanceof BrokerError) || error.code !== 'corrupt') throw error
    return { sequence: last, first, message: null }
  }
}

async function lastMessage(client: NatsClient, names: Names, first: number, last: number): Promise<Message | null> {
  for (let at = last; at >= first;) {
    const part = await partAt(client, names, at)
    if (part === null) break
    const start = at - part.index
    if (part.index < part.count - 1) {
      at = start - 1
      continue
    }
    const parts: Part[] = []
    for (let sequence = start; sequence <= at; sequence++) {
      const piece = sequence === at ? part : await partAt(client, names, sequence)
      if (piece === null) return null
      parts.push(piece)
    }
    return joinParts(parts)
  }
  return null
}

async function partAt(client: NatsClient, names: Names, sequence: number): Promise<Part | null> {
  const data = await client.message(names.stream, sequence)
  return data === null ? null : decodePart(data)
}
