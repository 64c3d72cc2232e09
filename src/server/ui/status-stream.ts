/**
 * Sends the figures of the status page to all open pages once a second, as server-sent events. The figures are computed
 * once for all of them, and not at all while no page is open.
 *
 * Like a watch, a stream ends when its reader's credential expires or its permission is revoked; its last event gives
 * the reason. Missing figures (a worker whose primary does not answer) do not end a stream. The stream sends the
 * reason, and the server retries a second later.
 */
import { pathAttributes, resourceAttributes } from '../auth/authz/authorizer.js'
import type { ApiResource } from '../../kubernetes/model/api-resource.js'
import type { IdentitySemaphore } from '../../engine/model/shared-limits.js'
import type { Clock, Timer } from '../../support/clock.js'
import { STREAM_HEADERS } from '../transports/framing/framings.js'
import { eventStreamStart } from '../transports/framing/server-sent-events.js'
import type { Caller } from '../transports/gate/caller.js'
import type { Exchange } from '../transports/exchange/exchange.js'
import { expectNoEnd } from '../transports/exchange/expect-no-end.js'
import { boundResponse } from '../transports/exchange/linger.js'
import type { ServerStatus, Trouble } from './page/figures.js'
import { type Reader, statusFor } from './status-figures.js'
import { errorMessage } from '../../support/error-message.js'

export interface StatusStreamOptions {
  readonly status: () => Promise<ServerStatus>
  readonly clock: Clock
  /** Slots for open pages. */
  readonly places: Pick<IdentitySemaphore, 'acquire'>
}

const INTERVAL_MS = 1_000

export class StatusStream {
  readonly #pages = new Map<Exchange, Caller>()
  #timer: Timer | null = null

  constructor(private readonly options: StatusStreamOptions) {}

  /** Opens a page's stream, starting with the current figures. @throws TooManyRequestsError */
  async open(exchange: Exchange, caller: Caller, headers: Readonly<Record<string, string>>): Promise<void> {
    const leave = await this.options.places.acquire(caller.identity, exchange.signal)
    if (exchange.signal.aborted) return leave()
    exchange.writeHead(200, { ...headers, 'content-type': 'text/event-stream', ...STREAM_HEADERS })
    expectNoEnd(exchange.response)
    exchange.response.write(eventStreamStart())
    this.#pages.set(exchange, caller)
    const stopChecks = caller.keep((error) => {
      this.#pages.delete(exchange)
      send(exchange, 'trouble', { reason: error.message })
      end(exchange)
    })
    exchange.response.once('close', () => {
      stopChecks()
      this.#pages.delete(exchange)
      leave()
    })
    void this.#sendStatus([[exchange, caller]])
    this.#schedule()
  }

  /** Ends the streams of all pages. */
  close(): void {
    this.#timer?.cancel()
    for (const page of this.#pages.keys()) end(page)
  }

  #schedule(): void {
    this.#timer ??= this.options.clock.setTimer(INTERVAL_MS, () => {
      this.#timer = null
      if (this.#pages.size > 0) void this.#sendStatus(this.#pages).then(() => this.#schedule())
    })
  }

  /** Never rejects. */
  async #sendStatus(pages: Iterable<readonly [Exchange, Caller]>): Promise<void> {
    try {
      const status = await this.options.status()
      for (const [page, caller] of pages) {
        const figures = await statusFor(status, readerOf(caller))
        // The stream may have ended in the meantime.
        if (this.#pages.has(page)) send(page, 'status', figures)
      }
    } catch (error) {
      const reason = errorMessage(error)
      for (const [page] of pages) send(page, 'trouble', { reason })
    }
  }
}

/**
 * Ends a page's stream. A page that does not read its last figures keeps its slot no longer than any other unread
 * response.
 */
function end({ response }: Exchange): void {
  response.end()
  boundResponse(response)
}

/**
 * Sends an event to a page. A page that does not read fast enough misses figures, because older figures are useless.
 */
function send({ response }: Exchange, event: 'status', data: ServerStatus): void
function send({ response }: Exchange, event: 'trouble', data: Trouble): void
function send({ response }: Exchange, event: string, data: ServerStatus | Trouble): void {
  if (response.writableNeedDrain || response.writableEnded) return
  response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
}

/**
 * Permissions are checked again for the figures of every second. After a permission is revoked, the next figures no
 * longer contain what it allowed.
 */
function readerOf(caller: Caller): Reader {
  return {
    mayGet: (path) => caller.may(pathAttributes('GET', path)),
    mayList: (resource) => caller.may(resourceAttributes(listOf(resource))),
  }
}

function listOf(resource: Pick<ApiResource, 'group' | 'version' | 'plural'>): Parameters<typeof resourceAttributes>[0] {
  const path = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`
  return { verb: 'list', resource, namespace: '', name: '', path: `${path}/${resource.plural}` }
}
