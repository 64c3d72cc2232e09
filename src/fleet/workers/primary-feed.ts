/** One resource of a worker, fed by the primary: turns the primary's frames into calls of the sink. */
import type { FeedStatus } from '../../engine/feed/feed-options.js'
import type { FeedRequest, ResourceFeed } from '../../engine/feed/resource-feed.js'
import type { Key } from '../../engine/model/event.js'
import type { FeedSink, Replacement } from '../../engine/model/feed-sink.js'
import type { FreshnessSource } from '../../engine/model/freshness-source.js'
import type { Revision } from '../../engine/model/revision.js'
import type { Clock } from '../../support/clock.js'
import { readKeyValues } from '../key-value-codec.js'
import type { FrameReader } from './frames.js'
import { readBatches, readReplace, ToWorker } from './messages.js'

export interface PrimaryFeedLink {
  /** Asks the primary, which says together with `synced` whether progress can be trusted. */
  readonly freshness: FreshnessSource & { trustsProgress: boolean }
  readonly clock: Clock
  start(): void
  stop(): void
}

export class PrimaryFeed implements ResourceFeed {
  readonly prefix: Key
  readonly freshness: FreshnessSource
  /** The number that the primary gave the feed; null until the primary has sent it. */
  id: number | null = null
  readonly #sink: FeedSink
  readonly #link: PrimaryFeedLink
  #replacement: Replacement | null = null
  #replacingAt: Revision | null = null
  #revision: Revision | null = null
  #status: Omit<FeedStatus, 'revision'> = { state: 'idle', connectedSince: null, reason: null }
  /**
   * Whether the source reports its age and how long that is valid, so that the primary's silence needs no separate
   * report.
   */
  #tellsAge = false
  /** The status from before the primary fell silent; null while the primary speaks, or once it has sent another. */
  #lost: Omit<FeedStatus, 'revision'> | null = null

  constructor({ resource, sink }: FeedRequest, link: PrimaryFeedLink) {
    this.prefix = resource.etcdPrefix
    this.#sink = sink
    this.#link = link
    this.freshness = link.freshness
  }

  get status(): FeedStatus {
    return { ...this.#status, revision: this.#revision }
  }

  start(): void {
    this.#status = { ...this.#status, state: 'listing' }
    this.#link.start()
  }

  async stop(): Promise<void> {
    this.#replacement?.abort()
    this.#replacement = null
    this.#status = { state: 'idle', connectedSince: null, reason: null }
    this.#link.stop()
  }

  /** The primary has fallen silent: its last frame was the last confirmation of the content. */
  lose(reason: string, silentMs: number): void {
    this.#lost ??= this.#status
    this.#status = { ...this.#status, state: 'backing-off', connectedSince: null, reason }
    this.#sink.disconnected(reason)
    if (!this.#tellsAge) this.#sink.confirmed?.(silentMs, Number.POSITIVE_INFINITY)
  }

  /** The primary speaks again, and everything that it sent meanwhile has arrived. */
  back(): void {
    if (this.#lost === null) return
    this.#status = this.#lost
    this.#lost = null
    if (this.#status.state === 'watching') this.#sink.synced()
    else if (this.#status.reason !== null) this.#sink.disconnected(this.#status.reason)
  }

  heard(reader: FrameReader): void {
    const sink = this.#sink
    switch (reader.type) {
      case ToWorker.batches: {
        const batches = readBatches(reader)
        this.#moved(batches.at(-1)?.revision ?? null)
        return sink.apply(batches)
      }
      case ToWorker.progress: {
        const revision = reader.number() as Revision
        this.#moved(revision)
        return sink.progress(revision)
      }
      case ToWorker.replace: {
        const { revision, reason } = readReplace(reader)
        this.#replacement?.abort()
        this.#replacement = sink.replace(revision, reason)
        this.#replacingAt = revision
        return
      }
      case ToWorker.page:
        return this.#replacement?.add(readKeyValues(reader))
      case ToWorker.commit:
        this.#replacement?.commit()
        this.#replacement = null
        return this.#moved(this.#replacingAt)
      case ToWorker.synced:
        this.#lost = null
        this.#link.freshness.trustsProgress = reader.byte() === 1
        this.#status = { ...this.#status, state: 'watching', connectedSince: this.#link.clock.now(), reason: null }
        return sink.synced()
      case ToWorker.confirmed: {
        const ageMs = Math.max(0, this.#link.clock.monotonic() - reader.number())
        const validMs = reader.number()
        this.#tellsAge = validMs !== Number.POSITIVE_INFINITY
        return sink.confirmed?.(ageMs, validMs)
      }
      case ToWorker.disconnected:
      case ToWorker.refused: {
        const reason = reader.text()
        this.#lost = null
        const isRefused = reader.type === ToWorker.refused
        this.#status = { ...this.#status, state: isRefused ? 'refused' : 'backing-off', connectedSince: null, reason }
        return isRefused ? sink.refused(reason) : sink.disconnected(reason)
      }
      default:
        throw new RangeError(`no message has the type ${reader.type}`)
    }
  }

  #moved(revision: Revision | null): void {
    this.#revision = revision ?? this.#revision
  }
}
