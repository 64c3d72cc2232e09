/**
 * Feeds a candidate's sink from etcd itself while the stream confirms nothing.
 *
 *            unconfirmed               5 to 8 s without a confirmation
 *     idle ───────────────▶ waiting ────────────────────────────────────▶ direct
 *      ▲                     │   ▲                                          │
 *      └────── confirmed ────┘   └────────── the stream takes over ─────────┘
 *
 * Each resource waits for a random time, so that a fleet that loses NATS does not hit etcd all at once. `subscriber.ts`
 * decides when to return to the stream.
 */
import { UpstreamFeed, type UpstreamFeedOptions } from '../../engine/feed/upstream-feed.js'
import type { FeedRequest } from '../../engine/feed/resource-feed.js'
import { CONFIRMED_FOR_MS } from '../../engine/model/feed-sink.js'
import type { Timer } from '../../support/clock.js'
import type { PlacedSink } from './placed-sink.js'
import type { Subscriber } from './subscriber.js'

export interface FallbackOptions {
  readonly request: Omit<FeedRequest, 'checked' | 'sink'>
  readonly sink: PlacedSink
  readonly feed: UpstreamFeedOptions
  /** The shortest time without a confirmation after which etcd takes over; null if it never does. */
  readonly afterMs: number | null
  /** Returns the source of the sink's content; null if there is none. */
  readonly content: () => Pick<Subscriber, 'ageMs' | 'writtenMs' | 'clusterId' | 'isLoading'> | null
  /** Called when etcd has taken over. */
  readonly onDirect: () => void
  /** Called when the stream has taken over again. @param ageMs how old etcd has left the content; null if unknown. */
  readonly onStream: (ageMs: number | null) => void
}

/** The longest wait, as a multiple of the shortest. */
const SPREAD = 1.6

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'waiting'; readonly timer: Timer }
  | { readonly kind: 'direct'; readonly feed: UpstreamFeed }
  | { readonly kind: 'stopped' }

export class Fallback {
  #state: State = { kind: 'idle' }
  readonly #ending = new Set<Promise<void>>()

  constructor(private readonly options: FallbackOptions) {}

  /** The feed that reads etcd; null while the stream feeds the sink. */
  get direct(): UpstreamFeed | null {
    return this.#state.kind === 'direct' ? this.#state.feed : null
  }

  /** Called when the stream no longer confirms the content. */
  unconfirmed(): void {
    if (this.#state.kind === 'idle') this.#wait(this.options.content()?.ageMs ?? 0)
  }

  /** Called when the stream confirms that the sink has everything. */
  confirmed(): void {
    if (this.#state.kind !== 'waiting') return
    this.#state.timer.cancel()
    this.#state = { kind: 'idle' }
  }

  /** Lets the stream feed the sink. When this returns, etcd no longer does. */
  streamTakesOver(): void {
    if (this.#state.kind !== 'direct') return
    const { feed } = this.#state
    // However old the content is, the stream gets the full time to confirm it.
    this.#wait(0)
    const { sink, onStream } = this.options
    const { ageMs } = feed.feed
    this.#end(feed)
    sink.etcd = null
    // Until the stream confirms the content, nothing does.
    if (ageMs === null) sink.disconnected('returned to NATS before etcd had confirmed the content')
    onStream(ageMs)
  }

  /** Resolves when nothing is running any more. */
  async stop(): Promise<void> {
    const state = this.#state
    this.#state = { kind: 'stopped' }
    if (state.kind === 'waiting') state.timer.cancel()
    if (state.kind === 'direct') this.#end(state.feed)
    await Promise.all(this.#ending)
  }

  #wait(passedMs: number): void {
    const { afterMs, feed } = this.options
    this.#state = { kind: 'idle' }
    if (afterMs === null) return
    const waitMs = afterMs * (1 + (SPREAD - 1) * feed.random.next()) - passedMs
    this.#state = { kind: 'waiting', timer: feed.clock.setTimer(Math.max(0, waitMs), () => this.#begin()) }
  }

  #begin(): void {
    const { request, sink, feed: options, content, onDirect } = this.options
    const { writtenMs = null, clusterId = null, isLoading = false } = content() ?? {}
    if (isLoading) return this.#wait(0)
    const { place } = sink
    // The content gets no younger before the direct feed has caught up and confirms it.
    if (writtenMs !== null) sink.confirmed(writtenMs, CONFIRMED_FOR_MS)
    const direct = new UpstreamFeed({ ...request, sink }, options)
    this.#state = { kind: 'direct', feed: direct }
    sink.etcd = direct.feed
    onDirect()
    if (place === null || clusterId === null) direct.feed.start()
    else direct.feed.start({ place, clusterId, fingerprint: sink.fingerprint() })
  }

  #end(feed: UpstreamFeed): void {
    const ended = feed.stop().finally(() => this.#ending.delete(ended))
    this.#ending.add(ended)
  }
}
