/**
 * Asks leaders of streams to hand over when two servers of NATS have lost each other, and a third hears both.
 *
 * The two elect themselves against each other for as long as neither is told, and meanwhile neither a lease nor an event can be
 * written: with many streams that takes NATS more than 30 s. A leader that has lost one of its replicas, but hears another,
 * hands over at once when it is asked to, and only the server that hears both can win.
 *
 * A replica that is silent because its server is down is no reason: nothing would be gained. So only servers that a client has
 * reached itself since count as lost. A leader that was elected just now has not heard its replicas yet: so the two servers that
 * most streams name count as apart, once they are named at two looks, and only those two are asked.
 *
 * The successor has to be named: an older NATS that chooses itself as often chooses the other of the two.
 */
import { type Clock, sleep } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { NatsClient } from './nats-client.js'

export interface LeaderHandoverOptions {
  readonly client: Pick<NatsClient, 'takesSuccessors' | 'usedStreams' | 'leadership' | 'stepDown'>
  readonly clock: Clock
  readonly logger: Logger
}

/** A leader, a replica that it has lost, and one that it hears. */
interface Loss {
  readonly stream: string
  readonly successor: string
  /** The names of the first two, in order. */
  readonly pair: string
}

/** Two of the heartbeats by which a leader hears its replicas, and then some. */
const SILENT_MS = 2_500
const ROUND_MS = 1_000
const MOST_ROUNDS = 20
/** Per stream, until the next start. */
const MOST_REQUESTS = 5

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
    if (this.#stopping.signal.aborted || !this.#options.client.takesSuccessors) return
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
    let apartBefore: string | null = null
    for (let round = 0; round < MOST_ROUNDS && !signal.aborted; round++) {
      if (round > 0) await sleep(clock, ROUND_MS, signal)
      if (signal.aborted) return
      const found = await Promise.all(client.usedStreams.map((stream) => this.#lossOf(stream)))
      const losses = found.filter((loss) => loss !== null)
      const apart = mostFrequent(losses.map(({ pair }) => pair))
      const isKnown = apart !== null && apart === apartBefore
      // A look at which nobody has lost anybody, because nobody leads, makes nothing doubtful.
      apartBefore = apart ?? apartBefore
      if (!isKnown || signal.aborted) continue
      const asked = losses.filter(({ pair, stream }) => pair === apart && (requests.get(stream) ?? 0) < MOST_REQUESTS)
      if (asked.length === 0) continue
      for (const { stream } of asked) requests.set(stream, (requests.get(stream) ?? 0) + 1)
      logger.warn(
        { servers: apart, streams: asked.length },
        'servers of NATS do not hear each other; the leaders of streams there are asked to hand over',
      )
      await Promise.all(asked.map(({ stream, successor }) => client.stepDown(stream, successor)))
    }
  }

  /** null for a leader that hears all of its replicas, or none that could follow it. */
  async #lossOf(stream: string): Promise<Loss | null> {
    const leadership = await this.#options.client.leadership(stream)
    if (leadership === null) return null
    const { leader, followers } = leadership
    const lost = followers.find(({ server, silentMs }) => silentMs > SILENT_MS && this.#reached.has(server))
    const heard = followers.find(({ silentMs }) => silentMs > 0 && silentMs <= SILENT_MS)
    if (lost === undefined || heard === undefined) return null
    return { stream, successor: heard.server, pair: [leader, lost.server].sort().join(' and ') }
  }
}

function mostFrequent(texts: readonly string[]): string | null {
  const counts = new Map<string, number>()
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1)
  let most: string | null = null
  for (const [text, count] of counts) if (most === null || count > counts.get(most)!) most = text
  return most
}
