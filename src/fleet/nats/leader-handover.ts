/**
 * Asks leaders of streams to hand over when two servers of NATS have lost each other, and a third hears both.
 *
 * The two elect themselves against each other for as long as neither is told, and meanwhile neither a lease nor an event can be
 * written: with many streams that takes NATS more than 30 s. A leader that has lost one of its replicas, but hears another,
 * hands over at once when it is asked to, and only the server that hears both can win.
 *
 * A replica that is silent because its server is down is no reason: nothing would be gained. So only servers that a client has reached
 * itself since count as lost.
 */
import { type Clock, sleep } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { NatsClient, StreamLeadership } from './nats-client.js'

export interface LeaderHandoverOptions {
  readonly client: Pick<NatsClient, 'usedStreams' | 'leadership' | 'stepDown'>
  readonly clock: Clock
  readonly logger: Logger
}

/** Longer than three of the heartbeats by which a leader hears its replicas. */
const SILENT_MS = 3_000
const ROUND_MS = 2_000
const MOST_ROUNDS = 10
/** Per stream, until the next start. */
const MOST_REQUESTS = 3

export class LeaderHandover {
  readonly #options: LeaderHandoverOptions
  readonly #stopping = new AbortController()
  #reached: ReadonlySet<string> = new Set()
  #running: Promise<void> | null = null

  constructor(options: LeaderHandoverOptions) {
    this.#options = options
  }

  /**
   * Looks at the leaders of all streams in use, in a bounded number of rounds.
   *
   * @param reached the names of the servers that were reached just now.
   */
  start(reached: ReadonlySet<string>): void {
    this.#reached = reached
    if (this.#stopping.signal.aborted) return
    this.#running ??= this.#run().finally(() => {
      this.#running = null
    })
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { client, clock, logger } = this.#options
    const { signal } = this.#stopping
    const requests = new Map<string, number>()
    for (let round = 0; round < MOST_ROUNDS && !signal.aborted; round++) {
      if (round > 0) await sleep(clock, ROUND_MS, signal)
      if (signal.aborted) return
      const asked = await Promise.all(
        client.usedStreams.map(async (stream) => {
          const count = requests.get(stream) ?? 0
          if (count >= MOST_REQUESTS) return false
          const leadership = await client.leadership(stream)
          if (signal.aborted || leadership === null || !this.#hasLostOne(leadership)) return false
          requests.set(stream, count + 1)
          await client.stepDown(stream)
          return true
        }),
      )
      const streams = asked.filter(Boolean).length
      if (streams > 0) {
        logger.warn({ streams }, 'servers of NATS do not hear each other; their leaders were asked to hand over')
      }
    }
  }

  #hasLostOne({ followers }: StreamLeadership): boolean {
    const isSilent = ({ silentMs }: { silentMs: number }): boolean => silentMs > SILENT_MS
    return (
      followers.some((follower) => isSilent(follower) && this.#reached.has(follower.server)) &&
      followers.some((follower) => !isSilent(follower))
    )
  }
}
