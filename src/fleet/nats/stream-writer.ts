/**
 * Writes to a stream without waiting for each answer, in the order of the calls.
 *
 * Each write names the sequence and the message that it expects to follow. The sequence alone is not enough of a fence: of
 * several messages in flight, one that expects just the sequence at which another publisher has written would be taken
 * after all. The first write has to be answered before the second is made, because it decides which publisher writes on.
 *
 * What is open when no answer has come for a second is sent again, all of it in order, and then more and more rarely: a NATS
 * that is merely slow is not to be given more to do. The fence makes that harmless: of two copies the stream
 * takes one, at the sequence that both expect. Where the first copy was taken the answer to it comes first; only when that was
 * lost does the refusal of the second end the session, which then finds its own message at the end of the stream.
 */
import { createInbox, headers as createHeaders, type Msg, type NatsConnection, type Subscription } from 'nats'
import type { Clock, Timer } from '../../support/clock.js'
import { BrokerError, MESSAGE_IN_PROCESS, WRONG_LAST_MESSAGE, WRONG_LAST_SEQUENCE } from './broker-error.js'

/** A write that is not answered within this time has failed. */
const WRITE_TIMEOUT_MS = 5_000
/** A stream that changes its leader loses what it was sent meanwhile: after this without any answer everything is sent again. */
const WRITE_AGAIN_MS = 1_000

interface Unacknowledged {
  readonly deadlineMs: number
  readonly send: () => void
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
  /** When the last answer came, or everything was sent again. */
  #movedMs = Number.NEGATIVE_INFINITY
  #patienceMs = WRITE_AGAIN_MS
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
      const headers = createHeaders()
      headers.set('Nats-Expected-Last-Sequence', String(expectedLastSequence))
      headers.set('Nats-Msg-Id', `${this.#session}.${id}`)
      if (id > 0) headers.set('Nats-Expected-Last-Msg-Id', `${this.#session}.${id - 1}`)
      const send = (): void => this.#connection.publish(this.#subject, data, { headers, reply: `${this.#inbox}.${id}` })
      const nowMs = this.#clock.monotonic()
      if (this.#pending.size === 0) this.#moved(nowMs)
      this.#pending.set(id, { deadlineMs: nowMs + WRITE_TIMEOUT_MS, send, resolve, reject })
      this.#timer ??= this.#clock.setTimer(WRITE_AGAIN_MS, () => this.#lookAgain())
      send()
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
    if (message.headers?.code === 503) {
      this.#pending.delete(id)
      return write.reject(new BrokerError('unavailable', 'no stream takes it'))
    }
    const answer = message.json<{ seq?: number; error?: { err_code?: number; description?: string } }>()
    const refusal = answer.error?.err_code
    // About a second copy, while the first is still being written: 2.9 gives it no sequence.
    if (refusal === MESSAGE_IN_PROCESS || (answer.error === undefined && answer.seq === 0)) return
    this.#pending.delete(id)
    this.#moved(this.#clock.monotonic())
    if (answer.seq !== undefined && answer.error === undefined) return write.resolve(answer.seq)
    const code = refusal === WRONG_LAST_SEQUENCE || refusal === WRONG_LAST_MESSAGE ? 'conflict' : 'unavailable'
    write.reject(new BrokerError(code, answer.error?.description ?? 'an answer without a sequence'))
  }

  /** Map order is the order of writing: the first is the oldest. */
  #lookAgain(): void {
    this.#timer = null
    const nowMs = this.#clock.monotonic()
    for (const [id, { deadlineMs, reject }] of this.#pending) {
      if (deadlineMs > nowMs) break
      this.#pending.delete(id)
      reject(new BrokerError('unavailable', `not acknowledged within ${WRITE_TIMEOUT_MS} ms`))
    }
    if (this.#pending.size === 0) return
    if (nowMs - this.#movedMs >= this.#patienceMs && !this.#connection.isClosed()) {
      for (const { send } of this.#pending.values()) send()
      this.#movedMs = nowMs
      this.#patienceMs *= 2
    }
    this.#timer = this.#clock.setTimer(WRITE_AGAIN_MS, () => this.#lookAgain())
  }

  #moved(nowMs: number): void {
    this.#movedMs = nowMs
    this.#patienceMs = WRITE_AGAIN_MS
  }
}
