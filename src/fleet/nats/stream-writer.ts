/**
 * Writes to a stream, one message after the other, in call order.
 *
 * Each write names the sequence that it must follow, and is sent only after the previous write was answered. This is
 * the fence: once another publisher has written, the single write in flight is rejected, and no further write is sent.
 * Data that arrives while a write is in flight shares the next message.
 *
 * Allowing several writes in flight was rejected. One of them could expect exactly the sequence that another publisher
 * has just written, and would then be accepted despite the fence. A second fence by message id
 * (`Nats-Expected-Last-Msg-Id`) does not help: with NATS 2.15, a rejection by it ends the stream on every replica.
 *
 * An unanswered write is resent (`retry-request.ts`). The fence and the message's id make this harmless, because the
 * stream accepts only one of the copies. If it accepted the first copy, the response to that copy arrives first. If
 * that response was lost, the rejection of the second copy ends the session, and the next session finds the message at
 * the end of the stream.
 */
import type { JetStreamClient, JetStreamPublishOptions } from '@nats-io/jetstream'
import { nuid } from 'nats'
import type { Clock } from '../../support/clock.js'
import { type Appender, BrokerError } from '../broker.js'
import { RESPONSE_TIMEOUT_MS, retryRequest } from './retry-request.js'

export interface StreamWriterOptions {
  readonly jetStream: Pick<JetStreamClient, 'publish'>
  readonly subject: string
  readonly clock: Clock
  /** Called each time a write is resent after a second or more, and when a write was never answered. */
  readonly onNoResponse: () => void
}

export class StreamWriter implements Appender {
  readonly #closing = new AbortController()
  /** Unique, so that messages of other writers are never mistaken for messages of this writer. */
  readonly #session = nuid.next()
  #next = 0
  /** Rejects after the first failure, so that every later write fails too. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(private readonly options: StreamWriterOptions) {}

  write(data: Buffer, lastSequence: number): Promise<number> {
    const msgID = `${this.#session}.${this.#next++}`
    const written = this.#last.then(() =>
      this.#write(data, { msgID, expect: { lastSequence }, timeout: RESPONSE_TIMEOUT_MS }),
    )
    this.#last = written
    void written.catch(() => {})
    return written
  }

  close(): void {
    this.#closing.abort(new BrokerError('unavailable', 'given up'))
  }

  #write(data: Buffer, options: Partial<JetStreamPublishOptions>): Promise<number> {
    const { jetStream, subject, clock, onNoResponse } = this.options
    // If a second copy arrives while the first is still being written, NATS 2.9 responds without a sequence, and later
    // releases reject the copy.
    const send = (): Promise<number | null> => jetStream.publish(subject, data, options).then(({ seq }) => seq || null)
    return retryRequest(send, { clock, signal: this.#closing.signal, onNoResponse })
  }
}
