/**
 * One connection that all resources of a process share. It is open while at least one of them is fed.
 *
 * A server that refuses the connection is retried like an unreachable one, because passwords and certificates change on
 * one side before the other. Each reason is logged only once, however many resources and attempts fail for it.
 */
import type { Ambient } from '../../support/ambient.js'
import { backoffMs } from '../../support/backoff.js'
import { sleep } from '../../support/clock.js'
import { BrokerError, type SharedBroker } from '../broker.js'
import type { NatsClient, NatsConnectOptions } from './nats-client.js'
import { SilentServer } from './silent-server.js'

export interface SharedClientOptions extends Ambient {
  readonly connection: NatsConnectOptions
}

const RETRY = { firstMs: 250, capMs: 5_000 }

export class SharedClient implements SharedBroker {
  readonly #users = new Set<(reason: string) => void>()
  #opening: Promise<NatsClient | null> | null = null
  #closing = new AbortController()
  #reported: string | null = null

  constructor(private readonly options: SharedClientOptions) {}

  use(onError: (reason: string) => void): Promise<NatsClient | null> {
    this.#users.add(onError)
    if (this.#opening === null) {
      this.#closing = new AbortController()
      this.#opening = this.#open(this.#closing.signal)
    } else if (this.#reported !== null) {
      onError(this.#reported)
    }
    return this.#opening
  }

  release(onError: (reason: string) => void): void {
    this.#users.delete(onError)
    if (this.#users.size > 0) return
    const opening = this.#opening
    this.#opening = null
    this.#closing.abort(new BrokerError('unavailable', 'released'))
    void opening?.then((client) => client?.close())
  }

  async #open(signal: AbortSignal): Promise<NatsClient | null> {
    const { connection, clock, random, logger } = this.options
    for (let attempt = 1; !signal.aborted; attempt++) {
      try {
        const onError = (reason: string): void => this.#report(reason, 'refused')
        const onDenied = this.#onDenied()
        const onReconnect = (): void => {
          this.#reported = null
        }
        // Loaded on demand, because most servers run without NATS, and its package is a tenth of the code loaded at
        // startup.
        const { NatsClient } = await import('./nats-client.js')
        const client = await NatsClient.connect({ ...connection, onError, onReconnect, onDenied }, clock)
        if (signal.aborted) {
          await client.close()
          return null
        }
        const server = new SilentServer({ client, clock, random, logger })
        client.onDoubt(() => server.doubt())
        if (this.#reported !== null) logger.info({ servers: connection.servers }, 'connected to NATS')
        this.#reported = null
        return client
      } catch (error) {
        const { code, message } = error instanceof BrokerError ? error : new BrokerError('refused', String(error))
        this.#report(message, code === 'refused' ? 'refused' : 'away')
        for (const notify of this.#users) notify(`NATS: ${message}`)
      }
      await sleep(clock, backoffMs(RETRY, attempt, random), signal)
    }
    return null
  }

  /** Every resource and every attempt would report a missing permission, so only the first report is logged. */
  #onDenied(): (denied: string) => void {
    let isReported = false
    return (denied) => {
      if (isReported) return
      isReported = true
      const { servers } = this.options.connection
      this.options.logger.error({ servers, denied }, 'the NATS user lacks a permission')
    }
  }

  #report(reason: string, kind: 'refused' | 'away'): void {
    if (this.#reported === reason) return
    this.#reported = reason
    const { servers } = this.options.connection
    const fields = { servers, reason }
    if (kind === 'refused') this.options.logger.error(fields, 'NATS refuses the connection; retrying')
    else this.options.logger.warn(fields, 'NATS cannot be reached; retrying')
  }
}
