/**
 * Writes to a stream, one message after the other, in call order.
 *
 * Each write names the sequence that it expects to follow, and is sent when the previous one has been answered. That is
 * the fence: once another publisher has written, the one write that may be in flight is rejected, and no later one is
 * made. Several writes in flight were rejected as a design. One of them may expect exactly the sequence that another
 * publisher has written, and would be accepted after all; and a second fence, the message that each expects to follow
 * (`Nats-Expected-Last-Msg-Id`), ends the stream on every replica of NATS 2.15 when it rejects one. What arrives
 * meanwhile shares the next message.
 *
 * An unanswered write is resent after a second, and then at growing intervals, so that a slow NATS does not get more
 * work. The fence and the message's id make that harmless: the stream accepts one of two copies. If it accepted the
 * first, the answer to it comes first; only if that answer was lost does the rejection of the second end the session,
 * and the next session finds its own message at the end of the stream.
 */
import { createInbox, headers as createHeaders, type Msg, type NatsConnection, type Subscription } from 'nats'
import type { Clock, Timer } from '../../support/clock.js'
import { type Appender, BrokerError } from '../broker.js'
import { MESSAGE_IN_PROCESS, WRONG_LAST_MESSAGE, WRONG_LAST_SEQUENCE } from './nats-error.js'

/** A write that is not answered within this time has failed. */
const WRITE_TIMEOUT_MS = 5_000
/** A stream that changes its leader loses what it was sent meanwhile, so an unanswered write is resent after this. */
const WRITE_AGAIN_MS = 1_000
/** When NATS reports that no stream accepts the subject, the stream may have a leader a moment later. */
const NO_STREAM_AGAIN_MS = 200

interface Write {
  readonly id: number
  readonly data: Buffer
  readonly expectedLastSequence: number
  readonly resolve: (sequence: number) => void
  readonly reject: (error: BrokerError) => void
}

export class StreamWriter implements Appender {
  readonly #connection: NatsConnection
  readonly #subject: string
  readonly #clock: Clock
  readonly #onUnanswered: () => void
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  /** Unique, so that no message of another writer is mistaken for one of this one. */
  readonly #session = this.#inbox.slice(this.#inbox.lastIndexOf('.') + 1)
  /** The first is in flight, the others wait for it. */
  readonly #writes: Write[] = []
  #next = 0
  /** When the first was sent for the first time. */
  #sentMs = 0
  /** How long to wait for the next answer to the first. */
  #gapMs = WRITE_AGAIN_MS
  #timer: Timer | null = null
  /** Why nothing is written any more. */
  #failure: BrokerError | null = null

  /** @param onUnanswered called whenever a write is resent after a second or longer, or has failed. */
  constructor(connection: NatsConnection, subject: string, clock: Clock, onUnanswered: () => void) {
    this.#connection = connection
    this.#subject = subject
    this.#clock = clock
    this.#onUnanswered = onUnanswered
    this.#subscription = connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#answered(message)
      },
    })
  }

  write(data: Buffer, expectedLastSequence: number): Promise<number> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    return new Promise((resolve, reject) => {
      this.#writes.push({ id: this.#next++, data, expectedLastSequence, resolve, reject })
      if (this.#writes.length === 1) this.#begin()
    })
  }

  close(): void {
    this.#fail(new BrokerError('unavailable', 'given up'))
  }

  /** Sends the oldest write for the first time. */
  #begin(): void {
    this.#timer?.cancel()
    this.#timer = null
    if (this.#writes.length === 0) return
    this.#sentMs = this.#clock.monotonic()
    this.#gapMs = WRITE_AGAIN_MS
    this.#send()
  }

  #send(): void {
    const [write] = this.#writes
    if (write === undefined) return
    if (this.#connection.isClosed()) return this.#fail(new BrokerError('unavailable', 'the connection is closed'))
    const headers = createHeaders()
    headers.set('Nats-Expected-Last-Sequence', String(write.expectedLastSequence))
    headers.set('Nats-Msg-Id', `${this.#session}.${write.id}`)
    this.#connection.publish(this.#subject, write.data, { headers, reply: `${this.#inbox}.${write.id}` })
    this.#sendAgainIn(this.#gapMs, `not acknowledged within ${WRITE_TIMEOUT_MS} ms`)
  }

  /** @param reason why the write has failed if it would be too late then. */
  #sendAgainIn(gapMs: number, reason: string): void {
    this.#timer?.cancel()
    const leftMs = this.#sentMs + WRITE_TIMEOUT_MS - this.#clock.monotonic()
    this.#timer = this.#clock.setTimer(Math.min(gapMs, leftMs), () => {
      const passedMs = this.#clock.monotonic() - this.#sentMs
      if (passedMs >= WRITE_AGAIN_MS) this.#onUnanswered()
      if (gapMs >= leftMs) return this.#fail(new BrokerError('unavailable', reason))
      if (gapMs === this.#gapMs) this.#gapMs *= 2
      this.#send()
    })
  }

  #answered(message: Msg): void {
    const [write] = this.#writes
    if (write?.id !== Number(message.subject.slice(this.#inbox.length + 1))) return
    if (message.headers?.code === 503) return this.#sendAgainIn(NO_STREAM_AGAIN_MS, 'no stream takes it')
    const answer = message.json<{ seq?: number; error?: { err_code?: number; description?: string } }>()
    const { seq, error } = answer
    if (error === undefined && seq !== undefined) {
      // The answer to a second copy while the first is still being written: 2.9 gives it no sequence, later releases
      // reject it.
      if (seq === 0) return
      this.#writes.shift()
      write.resolve(seq)
      return this.#begin()
    }
    const refusal = error?.err_code
    if (refusal === MESSAGE_IN_PROCESS) return
    const code = refusal === WRONG_LAST_SEQUENCE || refusal === WRONG_LAST_MESSAGE ? 'conflict' : 'unavailable'
    this.#fail(new BrokerError(code, error?.description ?? 'an answer without a sequence'))
  }

  #fail(failure: BrokerError): void {
    if (this.#failure !== null) return
    this.#failure = failure
    this.#subscription.unsubscribe()
    this.#timer?.cancel()
    for (const { reject } of this.#writes.splice(0)) reject(failure)
  }
}
