/**
 * Moves the connection to another server of NATS when this one cannot reach what the others reach.
 *
 * Servers of NATS pass on only what they hear themselves: when two of them have lost each other, a client of the one hears nothing
 * from the streams, leases and publishers behind the other, and its connection looks well for as long as that lasts. So whoever
 * waits in vain gives a question here. The questions are asked once more, of this server and by short connections of all
 * others at once, and the connection moves where more of them are answered. Where nobody answers (NATS elects, or nobody
 * publishes) nothing would be gained by moving, and the next look waits longer.
 */
import { backoffMs } from '../../support/backoff.js'
import { type Clock, sleep } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { NatsClient, ServerQuestion } from './nats-client.js'

export interface ServerChoiceOptions {
  readonly client: NatsClient
  /** Connects to one server. @throws BrokerError */
  readonly connectTo: (server: string) => Promise<NatsClient>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** Of many that wait in vain at once, so many are asked again. */
const MOST_QUESTIONS = 8
/** Doubts come together: those of this time are looked into at once. */
const COLLECT_MS = 500
/** Longer than two of the publisher's statuses, or of a consumer's heartbeats. */
const ANSWER_MS = 2_500
const AGAIN = { firstMs: 2_000, capMs: 60_000 }
/** After so long without a doubt, the next is looked into at once. */
const CALM_MS = 30_000

export class ServerChoice {
  readonly #options: ServerChoiceOptions
  readonly #questions = new Map<string, ServerQuestion>()
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #doubtedMs = Number.NEGATIVE_INFINITY
  /** Looks in a row that led nowhere. */
  #vain = 0

  constructor(options: ServerChoiceOptions) {
    this.#options = options
  }

  /** @param subject what was not answered; one question about it is enough. */
  doubt(subject: string, question: ServerQuestion): void {
    const { client, clock } = this.#options
    if (this.#stopping.signal.aborted || !client.isConnected) return
    const nowMs = clock.monotonic()
    if (nowMs - this.#doubtedMs > CALM_MS) this.#vain = 0
    this.#doubtedMs = nowMs
    if (this.#questions.size < MOST_QUESTIONS || this.#questions.has(subject)) this.#questions.set(subject, question)
    this.#running ??= this.#look().finally(() => {
      this.#running = null
    })
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #look(): Promise<void> {
    const { client, connectTo, clock, random, logger } = this.#options
    const { signal } = this.#stopping
    const others = client.servers
    if (others.length < 2) return
    // Jitter, so that the replicas of a fleet do not move in step.
    await sleep(clock, COLLECT_MS * (0.5 + random.next()), signal)
    if (signal.aborted || !client.isConnected) return
    const questions = [...this.#questions.values()]
    this.#questions.clear()
    const [here, ...found] = await Promise.all([
      this.#answersOf(client, questions),
      ...others.map(async (server) => {
        const there = await connectTo(server).catch(() => null)
        if (there === null) return { serverId: '', answers: 0 }
        try {
          const answers = there.serverId === client.serverId ? 0 : await this.#answersOf(there, questions)
          return { serverId: there.serverId, answers }
        } finally {
          await there.close().catch(() => {})
        }
      }),
    ])
    if (signal.aborted) return
    const best = found.reduce((a, b) => (b.answers > a.answers ? b : a), { serverId: '', answers: here })
    if (best.serverId === '' || !client.isConnected) {
      await sleep(clock, backoffMs(AGAIN, ++this.#vain, random), signal)
      return
    }
    this.#vain = 0
    logger.warn(
      { answered: here, elsewhere: best.answers, of: questions.length },
      'moving to another server of NATS, which reaches more than this one',
    )
    // The library chooses the servers in turn.
    for (let i = 0; i < client.servers.length && client.serverId !== best.serverId && !signal.aborted; i++) {
      await client.reconnect(signal)
    }
    // What was doubted at the server before says nothing about this one.
    this.#questions.clear()
  }

  async #answersOf(client: NatsClient, questions: readonly ServerQuestion[]): Promise<number> {
    const late = new AbortController()
    const deadline = sleep(this.#options.clock, ANSWER_MS, late.signal).then(() => false)
    const answers = await Promise.all(questions.map((question) => Promise.race([question(client), deadline])))
    late.abort()
    return answers.filter(Boolean).length
  }
}
