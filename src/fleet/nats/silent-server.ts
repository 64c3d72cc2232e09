/**
 * Moves the connection to the next NATS server when the current one leaves requests unanswered.
 *
 * A NATS server does not relay messages between two other servers. When two servers lose contact, a client of one hears
 * nothing from the streams, leases and publishers behind the other until they reconnect, although its own connection
 * looks healthy. A server that can reach both is one or two moves away. Finding out in advance which server that is was
 * rejected, because it takes a connection to every server. If a move does not help, because NATS is electing a leader
 * or there is no publisher, further moves wait longer.
 */
import type { Ambient } from '../../support/ambient.js'
import { backoffMs } from '../../support/backoff.js'
import type { NatsClient } from './nats-client.js'

export interface SilentServerOptions extends Ambient {
  readonly client: Pick<NatsClient, 'isConnected' | 'servers' | 'moveOn'>
}

/**
 * How long to wait before a move: longer than most elections in NATS take. The jitter keeps the replicas of a fleet
 * from moving together.
 */
const PATIENCE = { firstMs: 6_000, capMs: 5 * 60_000 }
/** After this long without trouble, the server counts as healthy again. */
const WELL_AFTER_MS = 10_000

/** A period in which requests keep going unanswered. */
interface Spell {
  readonly moves: number
  readonly moveAtMs: number
}

export class SilentServer {
  #spell: Spell | null = null
  #doubtedMs = 0

  constructor(private readonly options: SilentServerOptions) {}

  /** Called for each unanswered request, and for each expected message that does not arrive. */
  doubt(): void {
    const { client, clock, logger } = this.options
    const nowMs = clock.monotonic()
    if (!client.isConnected || client.servers < 2) return
    if (nowMs - this.#doubtedMs > WELL_AFTER_MS) this.#spell = null
    this.#doubtedMs = nowMs
    this.#spell ??= this.#next(0, nowMs)
    if (nowMs < this.#spell.moveAtMs) return
    this.#spell = this.#next(this.#spell.moves + 1, nowMs)
    logger.warn({ moves: this.#spell.moves }, 'the NATS server does not answer requests; moving to another server')
    client.moveOn()
  }

  /** The pauses between moves grow only after every server has been tried. */
  #next(moves: number, nowMs: number): Spell {
    const { client, random } = this.options
    const attempt = Math.max(1, moves - client.servers + 1)
    return { moves, moveAtMs: nowMs + backoffMs(PATIENCE, attempt, random) }
  }
}
