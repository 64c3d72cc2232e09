/** One resource of a worker, fed by the primary: turns the primary's messages into calls of the sink. */
import type { FeedStatus } from '../../engine/feed/feed-options.js'
import type { FeedRequest, ResourceFeed } from '../../engine/feed/resource-feed.js'
import type { EarlierHistory, FeedSink, Replacement } from '../../engine/model/feed-sink.js'
import type { FreshnessSource } from '../../engine/model/freshness-source.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import type { ByteReader } from '../byte-codec.js'
import { readBatches, readKeyValues } from '../key-value-codec.js'
import { type FeedMessage, feedSource } from './messages.js'

export interface PrimaryFeedLink {
  /** Sends its requests to the primary. The primary's `synced` message says whether progress can be trusted. */
  readonly freshness: FreshnessSource & { trustsProgress: boolean }
  readonly clock: Clock
  start(): void
  stop(): void
}

export class PrimaryFeed implements ResourceFeed {
  readonly source: string
  readonly freshness: FreshnessSource
  /** The number that the primary gave the feed; null until the primary has sent it. */
  id: number | null = null
  readonly #sink: FeedSink
  #replacement: Replacement | null = null
  #earlier: EarlierHistory | null = null
  #replacingAt: Revision | null = null
  #revision: Revision | null = null
  #status: Omit<FeedStatus, 'revision'> = { state: 'idle', reason: null }
  /**
   * Whether the source reports its age and how long that is valid, so the primary's silence needs no separate report.
   */
  #reportsAge = false
  /**
   * The status from before the primary fell silent; null while the primary is heard, or once it has sent a newer
   * status.
   */
  #lost: Omit<FeedStatus, 'revision'> | null = null

  constructor(
    { resource, sink }: FeedRequest,
    private readonly link: PrimaryFeedLink,
  ) {
    this.source = feedSource(resource)
    this.#sink = sink
    this.freshness = link.freshness
  }

  get status(): FeedStatus {
    return { ...this.#status, revision: this.#revision }
  }

  start(): void {
    this.#status = { ...this.#status, state: 'listing' }
    this.link.start()
  }

  async stop(): Promise<void> {
    this.#replacement?.abort()
    this.#replacement = null
    this.#status = { state: 'idle', reason: null }
    this.link.stop()
  }

  /** Called when the primary has fallen silent. Its last frame was the last confirmation of the content. */
  lose(reason: string, silentMs: number): void {
    this.#lost ??= this.#status
    this.#status = { ...this.#status, state: 'backing-off', reason }
    this.#sink.disconnected(reason)
    if (!this.#reportsAge) this.#sink.confirmed?.(silentMs, Number.POSITIVE_INFINITY)
  }

  /** Called when the primary is heard again and everything that it sent in the meantime has arrived. */
  back(): void {
    if (this.#lost === null) return
    this.#status = this.#lost
    this.#lost = null
    if (this.#status.state === 'watching') this.#sink.synced()
    else if (this.#status.reason !== null) this.#sink.disconnected(this.#status.reason)
  }

  receive(message: FeedMessage, body: ByteReader): void {
    const sink = this.#sink
    switch (message.kind) {
      case 'batches': {
        const batches = readBatches(body)
        this.#moved(batches.at(-1)?.revision ?? null)
        return sink.apply(batches)
      }
      case 'progress':
        this.#moved(message.revision)
        return sink.progress(message.revision)
      case 'replace':
        this.#replacement?.abort()
        this.#earlier = null
        this.#replacement = sink.replace(message.revision, message.reason)
        this.#replacingAt = message.revision
        return
      case 'page':
        return (this.#earlier ?? this.#replacement)?.add(readKeyValues(body))
      case 'commit':
        this.#replacement?.commit()
        this.#replacement = null
        return this.#moved(this.#replacingAt)
      case 'seeking':
        return sink.seeking?.(message.isSeeking)
      case 'earlier':
        this.#earlier = sink.earlier?.(message.after, message.until) ?? null
        return
      case 'earlier-batches':
        return this.#earlier?.apply(readBatches(body))
      case 'earlier-commit':
        this.#earlier?.commit()
        this.#earlier = null
        return
      case 'synced':
        this.#lost = null
        this.link.freshness.trustsProgress = message.trustsProgress
        this.#status = { ...this.#status, state: 'watching', reason: null }
        return sink.synced()
      case 'confirmed': {
        const ageMs = Math.max(0, this.link.clock.monotonic() - message.atMs)
        this.#reportsAge = message.validMs !== Number.POSITIVE_INFINITY
        return sink.confirmed?.(ageMs, message.validMs)
      }
      case 'disconnected':
      case 'refused': {
        const { kind, reason } = message
        this.#lost = null
        const state = kind === 'refused' ? kind : 'backing-off'
        this.#status = { ...this.#status, state, reason }
        // To a worker with a state, the primary reports only a lasting refusal as one.
        return kind === 'refused' ? sink.refused(reason, true) : sink.disconnected(reason)
      }
      default:
        throw new RangeError(`unknown feed message ${(message satisfies never as FeedMessage).kind}`)
    }
  }

  #moved(revision: Revision | null): void {
    this.#revision = revision ?? this.#revision
  }
}
