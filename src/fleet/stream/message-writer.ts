/**
 * Writes the messages of one publishing session, and knows the end of the stream.
 *
 *     acknowledged ── in flight ── written
 *     the stream has it            it will have it, unless another publisher has written in between
 *
 * Every message expects the sequence left by the previous one, and is sent when that has been acknowledged. When one
 * write fails, all later ones fail too, and the session is over.
 */
import type { Batch } from '../../engine/model/event.js'
import type { Revision } from '../../engine/model/revision.js'
import type { FleetMetrics } from '../fleet-metrics.js'
import type { Clock } from '../../support/clock.js'
import { type Appender, type Broker, BrokerError } from '../broker.js'
import type { Envelope } from './envelope.js'
import { encodeMessage, type Body, type Header, type Origin } from './message.js'

/** The end of the stream after a message. */
export interface StreamPlace {
  readonly sequence: number
  readonly revision: Revision
  readonly settled: Revision
}

/** The part of a message's header that the publisher provides; the writer adds the rest. */
export type Stamp = Pick<Header, 'revision' | 'settled' | 'isSynced' | 'trustsProgress'> & Origin

export interface MessageWriterOptions {
  readonly client: Pick<Broker, 'maxPayloadBytes'>
  readonly writer: Appender
  readonly envelope: Envelope
  readonly clock: Clock
  readonly metrics: Pick<FleetMetrics, 'published'>
  readonly epoch: number
  /** The end of the stream before the first message. */
  readonly place: StreamPlace
  /** Called when the stream has a message and everything before it. */
  readonly onAcknowledged: (parts: number, bytes: number, kind: Body['kind']) => void
}

export class MessageWriter {
  readonly epoch: number
  readonly #options: MessageWriterOptions
  #written: StreamPlace
  #acknowledged: StreamPlace
  #inFlight = 0
  #lastWriteMs: number

  constructor(options: MessageWriterOptions) {
    this.#options = options
    this.epoch = options.epoch
    this.#written = this.#acknowledged = options.place
    this.#lastWriteMs = options.clock.monotonic()
  }

  get written(): StreamPlace {
    return this.#written
  }

  get acknowledged(): StreamPlace {
    return this.#acknowledged
  }

  /** When the last message was written, in monotonic milliseconds; before the first, when the session began. */
  get lastWriteMs(): number {
    return this.#lastWriteMs
  }

  /** Whether nothing is in flight: items that arrive meanwhile share the next message. */
  get hasRoom(): boolean {
    return this.#inFlight === 0
  }

  /** Resolves to the place after the message when the stream has it and everything before it. @throws BrokerError */
  async write(body: Body, stamp: Stamp): Promise<StreamPlace> {
    const { client, clock, metrics, writer, envelope, onAcknowledged } = this.#options
    const { sequence: expected, revision: previous } = this.#written
    const message = { ...stamp, ...body, epoch: this.epoch, previous, sentAt: clock.now() }
    const parts = encodeMessage(message, client.maxPayloadBytes - envelope.overheadBytes).map((part, index) =>
      envelope.seal('message', expected + index + 1, part),
    )
    const bytes = parts.reduce((sum, part) => sum + part.length, 0)
    const reached = { sequence: expected + parts.length, revision: stamp.revision, settled: stamp.settled }
    this.#written = reached
    this.#inFlight++
    this.#lastWriteMs = clock.monotonic()
    const sequences = await Promise.all(parts.map((part, index) => writer.write(part, expected + index)))
    if (sequences.at(-1) !== reached.sequence) {
      throw new BrokerError('conflict', `written at ${sequences.at(-1)} instead of ${reached.sequence}`)
    }
    this.#inFlight--
    if (reached.sequence > this.#acknowledged.sequence) this.#acknowledged = reached
    metrics.published(parts.length, body.kind === 'batches' ? countEvents(body.batches) : 0, bytes)
    onAcknowledged(parts.length, bytes, body.kind)
    return reached
  }

  close(): void {
    this.#options.writer.close()
  }
}

function countEvents(batches: readonly Batch[]): number {
  let events = 0
  for (const batch of batches) events += batch.events.length
  return events
}
