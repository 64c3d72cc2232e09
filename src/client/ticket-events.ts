/**
 * Uses a browser's EventSource for callers who log in. An EventSource cannot send a token, so the URL carries a ticket
 * that is valid for a minute (`--ticket-key-file`). While the ticket is valid, the browser itself repairs a broken
 * connection. When the ticket has expired, the server reports that in an ERROR event, and this module opens another
 * stream with a new ticket, after the last event seen. The browser does not notice a dead connection, so a stream that
 * delivers not even bookmarks is replaced here.
 */
import type { Timer } from '../support/clock.js'
import { withDeadline } from '../support/deadline.js'
import { systemRandom } from '../support/random.js'
import { activeClock } from './reflector/active-clock.js'
import { notifyUser } from './reflector/notify-user.js'
import { WatchFailure } from './reflector/watch-failure.js'
import { fetchTransport, type FetchTransportOptions } from './reflector/fetch-transport.js'
import { CHANGE_TYPES, type ChangeType } from './reflector/object-codec.js'
import { queryText } from './reflector/transport.js'
import { requestJson } from './request-json.js'
import { failurePauseMs } from './reflector/failure-pause.js'

/** What `ticketEvents` follows, and what it calls. */
export interface TicketEventsOptions<T> extends Pick<FetchTransportOptions, 'server' | 'token'> {
  /** The path of a resource or of one object's list: `/apis/distributary.io/v1/flags`. */
  readonly path: string
  /** Selectors, `prefix`, `fields`. */
  readonly query?: Readonly<Record<string, string>>
  /**
   * Called at the start, and when the server can no longer tell what has changed. Forget every object, because all
   * current objects follow.
   */
  readonly reset: () => void
  readonly event: (type: ChangeType, object: T) => void
  /** Called with every error; the next attempt follows automatically. */
  readonly failed?: (failure: WatchFailure) => void
  /** Ends the stream. */
  readonly signal?: AbortSignal
  /** The first and the longest pause between two attempts. Default: 1 s and 30 s. */
  readonly backoff?: { readonly firstMs: number; readonly capMs: number }
}

/** As `silenceMs` of an informer: the server sends bookmarks about every 60 s. */
const SILENCE_MS = 150_000
const TICKET_TIMEOUT_MS = 30_000

/** The events of an EventSource, which Node's types lack. */
type StreamEvent = Event & { readonly data: string; readonly lastEventId: string }

/** Follows a resource with an EventSource and tickets. @returns a function that ends it. */
export function ticketEvents<T>(options: TicketEventsOptions<T>): () => void {
  const follower = new TicketEvents(options)
  follower.open()
  const close = (): void => {
    options.signal?.removeEventListener('abort', close)
    follower.close()
  }
  if (options.signal?.aborted === true) close()
  else options.signal?.addEventListener('abort', close, { once: true })
  return close
}

class TicketEvents<T> {
  readonly #options: TicketEventsOptions<T>
  readonly #ended = new AbortController()
  #source: EventSource | null = null
  /** Until the next attempt, or until the stream has been silent for too long. */
  #timer: Timer | null = null
  /** '' before the first event, and after a 410. */
  #lastId = ''
  #pauses = 0
  /**
   * The monotonic time at which the stream was opened; infinite without one. If a stream lasted a while, the next
   * attempt does not wait longer than the first.
   */
  #connectedMs = Number.POSITIVE_INFINITY

  constructor(options: TicketEventsOptions<T>) {
    this.#options = options
  }

  open(): void {
    void this.#connect().catch((error: unknown) => {
      const failure = WatchFailure.from(error)
      this.#again(failure, failure.retryAfterMs)
    })
  }

  close(): void {
    this.#ended.abort()
    this.#source?.close()
    this.#timer?.cancel()
  }

  async #connect(): Promise<void> {
    const { server, path, query, reset } = this.#options
    const { signal } = this.#ended
    const ticket = await this.#requestTicket()
    if (signal.aborted) return
    if (this.#lastId === '') reset()
    const after = this.#lastId === '' ? {} : { resourceVersion: this.#lastId }
    const queryString = queryText({ ...query, ...after, watch: '1', allowWatchBookmarks: '1', ticket })
    const source = new EventSource(`${server.replace(/\/+$/, '')}${path}${queryString}`)
    this.#source = source
    this.#connectedMs = activeClock.monotonic()
    for (const type of CHANGE_TYPES) source.addEventListener(type, (event) => this.#changed(type, event as StreamEvent))
    source.addEventListener('BOOKMARK', (event) => this.#heard((event as StreamEvent).lastEventId))
    this.#await()
    source.addEventListener('ERROR', (event) => {
      const failure = WatchFailure.fromStatus(JSON.parse((event as StreamEvent).data))
      if (failure.code === 410) this.#lastId = ''
      this.#again(failure)
    })
    // The browser reconnects by itself, unless the response was a refusal. If the connection breaks inside the initial
    // state, there is no id to resume after, and objects deleted in the meantime would go unnoticed.
    source.addEventListener('error', () => {
      if (source.readyState === source.CLOSED) this.#again(new WatchFailure('refused', 'the server refused the stream'))
      else if (this.#lastId === '')
        this.#again(new WatchFailure('network', 'the stream broke inside the initial state'))
    })
  }

  async #requestTicket(): Promise<string> {
    const { path } = this.#options
    const body = { path: new URL(path, 'http://localhost').pathname }
    const late = (): Error => new Error(`no ticket within ${TICKET_TIMEOUT_MS} ms`)
    const { ticket } = await withDeadline(activeClock, TICKET_TIMEOUT_MS, this.#ended.signal, late, (signal) =>
      requestJson<{ ticket: string }>(fetchTransport(this.#options), { path: '/tickets', body, signal }),
    )
    return ticket
  }

  #changed(type: ChangeType, { data, lastEventId }: StreamEvent): void {
    this.#heard(lastEventId)
    this.#options.event(type, JSON.parse(data) as T)
  }

  #heard(lastEventId: string): void {
    this.#lastId = lastEventId
    this.#pauses = 0
    this.#await()
  }

  #await(): void {
    this.#timer?.cancel()
    this.#timer = activeClock.setTimer(SILENCE_MS, () =>
      this.#again(new WatchFailure('network', `the stream was silent for ${SILENCE_MS} ms`)),
    )
  }

  /** @param retryAfterMs what the server has asked for. What it says in a stream concerns a ticket that is not used again. */
  #again(failure: WatchFailure, retryAfterMs: number | null = null): void {
    this.#source?.close()
    this.#source = null
    this.#timer?.cancel()
    if (this.#ended.signal.aborted) return
    notifyUser('failed', undefined, () => this.#options.failed?.(failure))
    if (this.#ended.signal.aborted) return
    const backoff = this.#options.backoff ?? { firstMs: 1_000, capMs: 30_000 }
    if (activeClock.monotonic() - this.#connectedMs > backoff.capMs) this.#pauses = 0
    this.#connectedMs = Number.POSITIVE_INFINITY
    const pauseMs = failurePauseMs(backoff, ++this.#pauses, retryAfterMs, systemRandom)
    this.#timer = activeClock.setTimer(pauseMs, () => this.open())
  }
}
