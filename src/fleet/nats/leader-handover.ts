/**
 * Asks stream leaders to hand over when two NATS servers have lost each other but a third hears both.
 *
 * Otherwise the two keep electing themselves against each other, and meanwhile neither a lease nor an event can be
 * written: with many streams that takes NATS more than 30 s. A leader hands over at once on request, and the server
 * that hears all others keeps what it leads. But the request must arrive before the elections begin, 3 to 9 s after the
 * cut: the cluster's own leader is elected in the same way, and a server that sees none hands nothing over. So
 * candidates keep a connection to every server, and send a few bytes through each four times a second
 * (`server-watch.ts`).
 *
 * From 2.11 on the successor can be named. An older NATS chooses one itself, among the followers heard within three
 * seconds: it is asked when the lost server is no longer among them, which is still before that one begins an election.
 */
import type { Clock, Timer } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { NatsClient } from './nats-client.js'
import type { ServerReach } from './server-reach.js'
import { BEAT_MS, ServerWatch, type WatchView } from './server-watch.js'

/** What a handover needs from a connection to one server. */
export type HandoverView = WatchView & Pick<NatsClient, 'placement' | 'stepDown' | 'takesSuccessors'>

export interface LeaderHandoverOptions {
  readonly client: Pick<NatsClient, 'servers' | 'usedStreams'>
  /** Connects to one server. @throws BrokerError */
  readonly connectTo: (server: string) => Promise<HandoverView>
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/** Require two sightings: a single one may just be a late message. */
const LOOKS_BEFORE_ASKING = 2
const ROUND_MS = 1_000
/** The interval after a round without requests, or after very many rounds. */
const CALM_ROUND_MS = 10_000
const MANY_ROUNDS = 60

export class LeaderHandover {
  readonly #options: LeaderHandoverOptions
  readonly #watch: ServerWatch<HandoverView>
  #timer: Timer | null = null
  #reach: ServerReach | null = null
  #round: Promise<void> | null = null
  /** How many times in a row two servers were seen apart. */
  #looks = 0
  /** The rounds since this cut. */
  #rounds = 0
  #nextRoundMs = 0
  /** The streams whose leaders may stay. */
  readonly #well = new Set<string>()
  #hasAsked = false
  #isStopped = false

  constructor(options: LeaderHandoverOptions) {
    this.#options = options
    const { client } = options
    // A handover needs two servers that are apart, and a third.
    const addresses = (): readonly string[] => (client.servers.length > 2 ? client.servers : [])
    this.#watch = new ServerWatch({ ...options, addresses })
  }

  /** Watches the servers until it is stopped. */
  start(): void {
    if (this.#isStopped || this.#timer !== null) return
    this.#timer = this.#options.clock.setTimer(BEAT_MS, () => {
      this.#timer = null
      this.#beat()
      this.start()
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    await Promise.all([this.#round, this.#watch.close()])
  }

  #beat(): void {
    const reach = this.#watch.beat()
    const nowMs = this.#options.clock.monotonic()
    this.#reach = reach
    if (!reach.isSplit) {
      this.#looks = this.#rounds = 0
      this.#nextRoundMs = nowMs
      this.#well.clear()
      this.#hasAsked = false
      return
    }
    if (++this.#looks < LOOKS_BEFORE_ASKING || nowMs < this.#nextRoundMs || this.#round !== null) return
    this.#rounds++
    this.#round = this.#ask().then((waitMs) => {
      this.#round = null
      this.#nextRoundMs = nowMs + (this.#rounds > MANY_ROUNDS ? CALM_ROUND_MS : waitMs)
      if (waitMs === CALM_ROUND_MS) this.#well.clear()
    })
  }

  /** @returns the milliseconds from the start of this round to the next; `CALM_ROUND_MS` when every leader may stay. */
  async #ask(): Promise<number> {
    const { client, logger } = this.#options
    const view = this.#watch.views.find(({ serverName }) => this.#reach?.best.includes(serverName))
    if (view === undefined) return ROUND_MS
    const streams = client.usedStreams.filter((stream) => !this.#well.has(stream))
    let asked = 0
    let waitMs = ROUND_MS
    await Promise.all(
      streams.map(async (stream) => {
        const placement = await view.placement(stream)
        // What is heard may have changed meanwhile.
        if (placement === null || this.#isStopped || this.#reach?.isSplit !== true) return
        const successor = this.#reach.successorOf(placement)
        const earlyMs = view.takesSuccessors ? 0 : this.#reach.choosesWellInMs(placement)
        if (successor !== null && earlyMs > 0) waitMs = Math.min(waitMs, earlyMs)
        else if (successor !== null) {
          // The next round shows which leaders have done it.
          view.stepDown(stream, view.takesSuccessors ? successor : null)
          asked++
        } else if (!this.#reach.isTorn(placement)) this.#well.add(stream)
      }),
    )
    if (asked > 0) {
      const isFirst = !this.#hasAsked
      this.#hasAsked = true
      logger[isFirst ? 'warn' : 'debug'](
        { streams: asked, of: streams.length },
        'NATS servers lost each other; asking leaders of affected streams to hand over',
      )
    }
    return streams.every((stream) => this.#well.has(stream)) ? CALM_ROUND_MS : waitMs
  }
}
