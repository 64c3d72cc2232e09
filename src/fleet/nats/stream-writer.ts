/**
 * Writes to a stream, one message after the other, in call order.
 *
 * Each write names the sequence that it expects to follow, and is sent when the previous one has been answered. That is
 * the fence: once another publisher has written, the one write that may be in flight is rejected, and no later one is
 * made. Several writes in flight were rejected as a design. One of them may expect exactly the sequence that another
 * publisher has written, and would be accepted after all; and a second fence, the message that each expects to follow
 * (`Nats-Expected-Last-Msg-Id`), ends the stream on every replica of NATS 2.15 when it rejects one. What arrives in the
 * meantime shares the next message.
 *
 * An unanswered write is resent (`until-answered.ts`). The fence and the message's id make that harmless: the stream
 * accepts one of two copies. If it accepted the first, the response to it comes first; only if that response was lost
 * does the rejection of the second end the session, and the next session finds its own message at the end of the
 * stream.
 */
import { type JetStreamClient, type JetStreamPublishOptions, nuid } from 'nats'
import type { Clock } from '../../support/clock.js'
import { type Appender, BrokerError } from '../broker.js'
import { ANSWER_TIMEOUT_MS, untilAnswered } from './until-answered.js'

export interface StreamWriterOptions {
  readonly jetStream: Pick<JetStreamClient, 'publish'>
  readonly subject: string
  readonly clock: Clock
  /** Called whenever a write is resent after a second or longer, and when it was not answered. */
  readonly onUnanswered: () => void
}

export class StreamWriter implements Appender {
  readonly #options: StreamWriterOptions
  readonly #closing = new AbortController()
  /** Unique, so that no message of another writer is mistaken for one of this one. */
  readonly #session = nuid.next()
  #next = 0
  /** Rejects after the first failure, and with it every later write. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: StreamWriterOptions) {
    this.#options = options
  }

  write(data: Buffer, lastSequence: number): Promise<number> {
    const msgID = `${this.#session}.${this.#next++}`
    const written = this.#last.then(() =>
      this.#write(data, { msgID, expect: { lastSequence }, timeout: ANSWER_TIMEOUT_MS }),
    )
    this.#last = written
    void written.catch(() => {})
    return written
  }

  close(): void {
    this.#closing.abort(new BrokerError('unavailable', 'given up'))
  }

  #write(data: Buffer, options: Partial<JetStreamPublishOptions>): Promise<number> {
    const { jetStream, subject, clock, onUnanswered } = this.#options
    // The response to a second copy while the first is still being written: 2.9 gives it no sequence, later releases
    // reject it.
    const send = (): Promise<number | null> => jetStream.publish(subject, data, options).then(({ seq }) => seq || null)
    return untilAnswered(send, { clock, signal: this.#closing.signal, onUnanswered })
  }
}
