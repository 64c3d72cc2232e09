/**
 * Writes to a stream without waiting for each answer, in the order of the calls.
 *
 * Each write names the sequence and the message that it expects to follow. The sequence alone is not enough of a fence: of
 * several messages in flight, one that expects just the sequence at which another publisher has written would be taken
 * after all. The first write has to be answered before the second is made, because it decides which publisher writes on.
 */
import { createInbox, headers as createHeaders, type Msg, type NatsConnection, type Subscription } from 'nats'
import type { Clock, Timer } from '../../support/clock.js'
import { BrokerError, WRONG_LAST_MESSAGE, WRONG_LAST_SEQUENCE } from './broker-error.js'

/** A write that is not answered within this time has failed. */
const WRITE_TIMEOUT_MS = 5_000

interface Unacknowledged {
  readonly deadlineMs: number
  readonly resolve: (sequence: number) => void
  readonly reject: (error: BrokerError) => void
}

export class StreamWriter {
  readonly #connection: NatsConnection
  readonly #subject: string
  readonly #clock: Clock
  readonly #inbox = createInbox()
  readonly #subscription: Subscription
  /** Unique, so that no message of another writer is taken for one of this one. */
  readonly #session = this.#inbox.slice(this.#inbox.lastIndexOf('.') + 1)
  readonly #pending = new Map<number, Unacknowledged>()
  #next = 0
  #timer: Timer | null = null
  #isClosed = false

  constructor(connection: NatsConnection, subject: string, clock: Clock) {
    this.#connection = connection
    this.#subject = subject
    this.#clock = clock
    this.#subscription = connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#acknowledged(message)
      },
    })
  }

  /** @returns the message's own sequence. @throws BrokerError; `unavailable` leaves open whether it was written. */
  write(data: Buffer, expectedLastSequence: number): Promise<number> {
    if (this.#isClosed || this.#connection.isClosed()) {
      return Promise.reject(new BrokerError('unavailable', 'the connection is closed'))
    }
    return new Promise((resolve, reject) => {
      const id = this.#next++
      this.#pending.set(id, { deadlineMs: this.#clock.monotonic() + WRITE_TIMEOUT_MS, resolve, reject })
      const headers = createHeaders()
      headers.set('Nats-Expected-Last-Sequence', String(expectedLastSequence))
      headers.set('Nats-Msg-Id', `${this.#session}.${id}`)
      if (id > 0) headers.set('Nats-Expected-Last-Msg-Id', `${this.#session}.${id - 1}`)
      this.#connection.publish(this.#subject, data, { headers, reply: `${this.#inbox}.${id}` })
      this.#timer ??= this.#clock.setTimer(WRITE_TIMEOUT_MS, () => this.#expire())
    })
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#subscription.unsubscribe()
    this.#timer?.cancel()
    for (const { reject } of this.#pending.values()) reject(new BrokerError('unavailable', 'given up'))
    this.#pending.clear()
  }

  #acknowledged(message: Msg): void {
    const id = Number(message.subject.slice(this.#inbox.length + 1))
    const write = this.#pending.get(id)
    if (write === undefined) return
    this.#pending.delete(id)
    if (message.headers?.code === 503) return write.reject(new BrokerError('unavailable', 'no stream takes it'))
    const answer = message.json<{ seq?: number; error?: { err_code?: number; description?: string } }>()
    if (answer.seq !== undefined && answer.error === undefined) return write.resolve(answer.seq)
    const refusal = answer.error?.err_code
    const code = refusal === WRONG_LAST_SEQUENCE || refusal === WRONG_LAST_MESSAGE ? 'conflict' : 'unavailable'
    write.reject(new BrokerError(code, answer.error?.description ?? 'an answer without a sequence'))
  }

  /** Map order is the order of writing: the first is the oldest. */
  #expire(): void {
    this.#timer = null
    const nowMs = this.#clock.monotonic()
    for (const [id, { deadlineMs, reject }] of this.#pending) {
      if (deadlineMs > nowMs) {
        this.#timer = this.#clock.setTimer(deadlineMs - nowMs, () => this.#expire())
        return
      }
      this.#pending.delete(id)
      reject(new BrokerError('unavailable', `not acknowledged within ${WRITE_TIMEOUT_MS} ms`))
    }
  }
}
