/**
 * Writes the messages of one publishing session, and knows the end of the stream.
 *
 * Every message expects the sequence left by the previous one. When one write fails, all later ones fail too, and the
 * session is over.
 */
import { type Revision, ZERO_REVISION } from '../../engine/model/revision.js'
import { type Appender, BrokerError } from '../broker.js'
import { encodeMessage, type Body, type Header, type Message, type Origin } from './message.js'
import type { StreamContext } from './stream-context.js'

/** The end of the stream after a message. */
export interface StreamPlace {
  readonly sequence: number
  readonly revision: Revision
  readonly settled: Revision
}

/** The part of a message's header that the publisher provides; the writer adds the rest. */
export type Stamp = Pick<Header, 'revision' | 'isSynced' | 'trustsProgress'> & Origin

export interface MessageWriterOptions extends Pick<StreamContext, 'client' | 'envelope' | 'clock' | 'metrics'> {
  readonly writer: Appender
}

export class MessageWriter {
  readonly #options: MessageWriterOptions
  #epoch = 0
  #place: StreamPlace = { sequence: 0, revision: ZERO_REVISION, settled: ZERO_REVISION }
  #lastWriteMs: number

  constructor(options: MessageWriterOptions) {
    this.#options = options
    this.#lastWriteMs = options.clock.monotonic()
  }

  /** The session's number; 0 before it has begun. */
  get epoch(): number {
    return this.#epoch
  }

  /** The last message that the stream is known to have. */
  get place(): StreamPlace {
    return this.#place
  }

  /** When the last message was written, in monotonic milliseconds; before the first, when the session began. */
  get lastWriteMs(): number {
    return this.#lastWriteMs
  }

  /** Begins after the end of the stream. @param last the message there; null if no publisher can continue after it. */
  beginAfter(sequence: number, last: Message | null): void {
    // If no epoch is left to count from, the sequence is at least as high as any: each has written a message.
    this.#epoch = (last?.epoch ?? sequence) + 1
    const { revision, settled } = last?.isSynced === true ? last : this.#place
    this.#place = { sequence, revision, settled }
  }

  /**
   * Resolves when the stream has the message and everything before it; only then may the next be written.
   *
   * @returns the number of parts and bytes written. @throws BrokerError
   */
  async write(body: Body, stamp: Stamp): Promise<{ readonly parts: number; readonly bytes: number }> {
    const { client, clock, metrics, writer, envelope } = this.#options
    const { sequence: expected, revision: previous } = this.#place
    const { revision } = stamp
    const settled = body.kind === 'batches' || body.kind === 'state' ? revision : this.#place.settled
    const message = { ...stamp, ...body, settled, epoch: this.#epoch, previous, sentAt: clock.now() }
    const parts = encodeMessage(message, client.maxPayloadBytes - envelope.overheadBytes).map((part, index) =>
      envelope.seal('message', expected + index + 1, part),
    )
    const bytes = parts.reduce((sum, part) => sum + part.length, 0)
    const sequence = expected + parts.length
    this.#lastWriteMs = clock.monotonic()
    const sequences = await Promise.all(parts.map((part, index) => writer.write(part, expected + index)))
    if (sequences.at(-1) !== sequence) {
      throw new BrokerError('conflict', `written at ${sequences.at(-1)} instead of ${sequence}`)
    }
    this.#place = { sequence, revision, settled }
    metrics.published(body.kind === 'batches' ? body.batches.reduce((sum, { events }) => sum + events.length, 0) : 0)
    return { parts: parts.length, bytes }
  }

  close(): void {
    this.#options.writer.close()
  }
}
