/**
 * Follows a stream with an ephemeral push consumer.
 *
 * The library's ordered consumer was rejected, because its iterator is unbounded and it recovers silently. Here any
 * sign of trouble (a gap, a missing heartbeat) ends the follower, and the subscriber decides where to continue.
 */
import { AckPolicy, DeliverPolicy, type JetStreamManager, ReplayPolicy } from '@nats-io/jetstream'
import { createInbox, type Msg, nanos, type NatsConnection, type Subscription } from 'nats'
import type { Clock } from '../../support/clock.js'
import { Silence } from '../silence.js'
import { asBrokerError, isNoResponse } from './nats-error.js'
import type { Closable, FollowHandlers } from '../broker.js'
import { bufferOf } from '../../support/buffer-of.js'

const HEARTBEAT_MS = 1_000
/** The follower ends after this many seconds without a heartbeat. */
const SILENT_TICKS = 4

interface FollowerHandlers extends FollowHandlers {
  /**
   * Called before the follower ends because it has received nothing for too long, or because its consumer was never
   * created.
   */
  onSilent(): void
}

export class StreamFollower implements Closable {
  readonly #subscription: Subscription
  #stream = ''
  #consumer: string | null = null
  #manager: JetStreamManager | null = null
  readonly #silence: Silence
  #delivered = 0
  #isOver = false

  constructor(
    private readonly connection: NatsConnection,
    clock: Clock,
    private readonly handlers: FollowerHandlers,
  ) {
    this.#subscription = connection.subscribe(createInbox(), {
      callback: (error, message) => {
        if (error !== null) this.end(error.message)
        else if (!this.#isOver) this.#receive(message)
      },
    })
    this.#silence = new Silence({
      clock,
      tickMs: HEARTBEAT_MS,
      ticks: SILENT_TICKS,
      onSilent: () => {
        handlers.onSilent()
        this.end('the stream is silent')
      },
    })
  }

  async open(manager: JetStreamManager, stream: string, startSequence: number): Promise<void> {
    this.#manager = manager
    this.#stream = stream
    try {
      const { name } = await manager.consumers.add(stream, {
        deliver_subject: this.#subscription.getSubject(),
        deliver_policy: DeliverPolicy.StartSequence,
        opt_start_seq: startSequence,
        ack_policy: AckPolicy.None,
        replay_policy: ReplayPolicy.Instant,
        flow_control: true,
        idle_heartbeat: nanos(HEARTBEAT_MS),
        inactive_threshold: nanos(30_000),
        mem_storage: true,
        num_replicas: 1,
      })
      this.#consumer = name
      if (this.#isOver) this.#forget()
    } catch (error) {
      const failure = asBrokerError(error)
      if (isNoResponse(failure)) this.handlers.onSilent()
      this.end(failure.message)
    }
  }

  close(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#silence.stop()
    this.#subscription.unsubscribe()
    this.#forget()
  }

  end(reason: string): void {
    if (this.#isOver) return
    this.close()
    this.handlers.onEnd(reason)
  }

  /** Deletes the consumer at once. The server would also delete it, but later. */
  #forget(): void {
    if (this.#consumer === null || this.connection.isClosed()) return
    void this.#manager?.consumers.delete(this.#stream, this.#consumer).catch(() => {})
  }

  #receive(message: Msg): void {
    this.#silence.received()
    if (message.headers !== undefined && message.headers.code === 100) return this.#control(message)
    if (message.headers !== undefined && message.headers.code >= 400) return this.end(message.headers.description)
    const tokens = message.reply?.split('.') ?? []
    // $JS.ACK.stream.consumer.delivered.sequence.consumerSequence.time.pending; with a domain, two more tokens precede
    // the stream.
    const at = tokens.length >= 11 ? 7 : 5
    const sequence = Number(tokens[at])
    const delivered = Number(tokens[at + 1])
    if (tokens.length < 9 || !Number.isSafeInteger(sequence)) return this.end('a message has no sequence number')
    if (delivered !== this.#delivered + 1) return this.end(`message ${this.#delivered + 1} of the consumer is missing`)
    this.#delivered = delivered
    this.handlers.onMessage(sequence, bufferOf(message.data))
  }

  #control(message: Msg): void {
    if (message.reply !== undefined && message.reply !== '') message.respond()
    const stalled = message.headers?.get('Nats-Consumer-Stalled') ?? ''
    if (stalled !== '') this.connection.publish(stalled)
    const last = message.headers?.get('Nats-Last-Consumer') ?? ''
    if (last !== '' && Number(last) > this.#delivered) return this.end('messages of the consumer are missing')
    this.handlers.onIdle()
  }
}
