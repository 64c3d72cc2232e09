/**
 * Moves the connection to another NATS server when this one cannot reach what the others reach.
 *
 * NATS servers pass on only what they hear themselves. When two of them lose each other, a client of one hears nothing
 * from the streams, leases and publishers behind the other, although its connection looks healthy. So an unanswered
 * request starts an investigation, with short connections to all servers. The connection moves to a server that hears
 * more of the others. If all hear the same, or that cannot be determined, the unanswered requests are repeated at this
 * server and all others at once, and the connection moves where more of them are answered. If nobody answers (NATS is
 * electing, or nobody publishes), it stays, and later investigations wait longer.
 */
import { backoffMs } from '../../support/backoff.js'
import { type Clock, sleep } from '../../support/clock.js'
import { withDeadline } from '../../support/deadline.js'
import type { Logger } from '../../support/log.js'
import { type Random, randomInteger } from '../../support/random.js'
import type { NatsClient, ServerQuestion } from './nats-client.js'
import { openViews, probeReach } from './server-reach.js'

export interface ServerChoiceOptions {
  readonly client: NatsClient
  /** Connects to one server. @throws BrokerError */
  readonly connectTo: (server: string) => Promise<NatsClient>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** At most this many of the unanswered requests are repeated. */
const MOST_QUESTIONS = 8
/** Doubts arrive together: those within this time are investigated together. */
const COLLECT_MS = 500
/** Longer than two of the publisher's statuses, or two heartbeats of a consumer. */
const ANSWER_MS = 2_500
const AGAIN = { firstMs: 2_000, capMs: 60_000 }
/** This many investigations follow each other closely, since a fault in NATS may last that long. */
const SOON_LOOKS = 6
/** For this long after a move based on what servers hear, only answers are a reason for another move. */
const MOVE_AGAIN_MS = 10_000
/** After this long without a doubt, the next one is investigated at once. */
const CALM_MS = 30_000

export class ServerChoice {
  readonly #options: ServerChoiceOptions
  readonly #questions = new Map<string, ServerQuestion>()
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #doubtedMs = Number.NEGATIVE_INFINITY
  #movedMs = Number.NEGATIVE_INFINITY
  /** The number of consecutive fruitless investigations. */
  #vain = 0

  constructor(options: ServerChoiceOptions) {
    this.#options = options
  }

  /** @param subject what was not answered; one request about it is enough. */
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
    const { client, connectTo, clock, random } = this.#options
    const { signal } = this.#stopping
    const servers = client.servers
    if (servers.length < 2) return
    // Jitter, so that the replicas of a fleet do not move in step.
    await sleep(clock, COLLECT_MS * (0.5 + random.next()), signal)
    if (signal.aborted || !client.isConnected) return
    const views = await openViews(servers, connectTo, clock)
    let target: string | null
    try {
      target = await this.#target(views)
    } finally {
      await Promise.all(views.map((view) => view.close().catch(() => {})))
    }
    if (signal.aborted) return
    if (target === null || !client.isConnected) {
      await sleep(clock, backoffMs(AGAIN, Math.max(1, ++this.#vain - SOON_LOOKS), random), signal)
      return
    }
    this.#vain = 0
    // The library chooses the servers in turn.
    for (let i = 0; i < servers.length && client.serverId !== target && !signal.aborted; i++) {
      await client.reconnect(signal)
    }
    // Doubts about the previous server say nothing about this one.
    this.#questions.clear()
  }

  /** @returns the id of the server to move to; null if moving gains nothing. */
  async #target(views: readonly NatsClient[]): Promise<string | null> {
    const { client, clock, random, logger } = this.#options
    // Require two sightings: a single one may just be a late message.
    const better = (await this.#better(views)).length === 0 ? [] : await this.#better(views)
    if (this.#stopping.signal.aborted) return null
    if (better.length > 0) {
      const text = 'moving to a NATS server that hears more of the others'
      logger.warn({ server: client.serverName, servers: better.map(({ serverName }) => serverName) }, text)
      this.#movedMs = clock.monotonic()
      return better[randomInteger(random, 0, better.length - 1)]!.serverId
    }
    const questions = [...this.#questions.values()]
    this.#questions.clear()
    const others = views.filter(({ serverId }) => serverId !== client.serverId)
    const [here, ...there] = await Promise.all([client, ...others].map((view) => this.#answersOf(view, questions)))
    const most = Math.max(...there)
    if (!(most > here!)) return null
    const text = 'moving to a NATS server that answers more requests'
    logger.warn({ answered: here, elsewhere: most, of: questions.length }, text)
    return others[there.indexOf(most)]!.serverId
  }

  /** Returns the connections to the servers that have lost fewer others than this one. */
  async #better(views: readonly NatsClient[]): Promise<readonly NatsClient[]> {
    const { client, clock } = this.#options
    if (clock.monotonic() - this.#movedMs < MOVE_AGAIN_MS) return []
    const reach = await probeReach(views, clock, this.#stopping.signal)
    const here = client.serverName
    // A server that accepts no new connections, or is slow to, may still serve this one well.
    if (!reach.servers.includes(here) && (await client.isAlive())) return []
    return views.filter(({ serverName }) => reach.betterThan(here).includes(serverName))
  }

  async #answersOf(client: NatsClient, questions: readonly ServerQuestion[]): Promise<number> {
    const late = (): Error => new Error(`no answer within ${ANSWER_MS} ms`)
    const ask = (question: ServerQuestion): Promise<boolean> =>
      withDeadline(this.#options.clock, ANSWER_MS, undefined, late, () => question(client)).catch(() => false)
    const answers = await Promise.all(questions.map(ask))
    return answers.filter(Boolean).length
  }
}
