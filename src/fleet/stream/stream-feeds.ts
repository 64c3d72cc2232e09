/**
 * The source of a replica's resources in a fleet: NATS streams feed all of them, and candidates also stand for election
 * to publish.
 *
 *     candidates     etcd ─▶ feed ─▶ publisher ─▶ stream          (the elected candidate of each resource)
 *     all replicas                                stream ─▶ subscriber ─▶ cache
 *
 * The publisher's own cache is fed from the stream as well, so that no replica can serve data that was never published,
 * and only one path has to be tested. This costs the publishing replica one hop.
 */
import { resourceId } from '../../engine/model/resource.js'
import { ConsistencyCheck, type CheckOutcome, reportOutcomes } from '../../engine/feed/consistency-check.js'
import { type ProgressSource, UpstreamFreshness } from '../../engine/feed/upstream-freshness.js'
import type { FeedStatus } from '../../engine/feed/feed-options.js'
import type { FreshnessSource } from '../../engine/model/freshness-source.js'
import type { FleetMetrics } from '../fleet-metrics.js'
import type { FeedRequest, OpenFeed, ResourceFeed } from '../../engine/feed/resource-feed.js'
import { UpstreamFeed, type UpstreamFeedOptions } from '../../engine/feed/upstream-feed.js'
import type { Upstream } from '../../engine/upstream/upstream.js'
import type { Broker, SharedBroker, StreamLimits } from '../broker.js'
import { Envelope, type SigningKeys } from './signed-envelope.js'
import { Candidate } from './candidate.js'
import { Fallback } from './fallback.js'
import { type Names, namesOf } from './names.js'
import { PlacedSink } from './placed-sink.js'
import { Publisher } from './publisher.js'
import { RemoteReader } from './remote-reader.js'
import { SnapshotStore } from './snapshot-store.js'
import type { StreamContext } from './stream-context.js'
import { Subscriber } from './subscriber.js'

export type FleetRole = 'auto' | 'edge'

export interface StreamFeedOptions extends Omit<UpstreamFeedOptions, 'upstream'> {
  readonly broker: SharedBroker
  /** The human-readable name of this process. */
  readonly holder: string
  readonly signingKeys: SigningKeys
  /** The name of the etcd behind the fleet, since the fleets of several etcds may share one NATS. */
  readonly cluster: string
  readonly role: FleetRole
  /** Unused if the role is `edge`. */
  readonly upstream: Upstream
  /** A replica of the role `auto` continues from etcd when the stream confirms nothing for this long. */
  readonly fallbackAfterMs: number
  readonly leaseMs: number
  readonly limits: StreamLimits
  readonly snapshotMessages: number
  readonly snapshotBytes: number
  readonly refillMessages: number
  readonly fleetMetrics: (resource: FeedRequest['resource']) => FleetMetrics
}

/**
 * How often a replica checks its content. Every replica reads all keys through the publisher, so it checks less often
 * than a process that watches etcd alone.
 */
const CHECK_INTERVAL_MS = 30 * 60_000
/**
 * NATS deletes a snapshot after this many times the age limit of the stream. By then the stream has discarded the
 * messages that followed the snapshot, because a publisher marks its stream several times within that limit. This also
 * cleans up after dead publishers.
 */
const SNAPSHOT_AGES = 2
/** No upload of a snapshot takes longer than this. */
const UPLOAD_MS = 3_600_000
/** A replica that has left NATS stays with etcd for about this many times `fallbackAfterMs`. */
const STAY_SHARE = 4

export function streamFeeds(options: StreamFeedOptions): OpenFeed {
  return (request) => new StreamFeed(request, options)
}

export class StreamFeed implements ResourceFeed {
  readonly #remoteFreshness: FreshnessSource
  readonly #names: Names
  readonly #envelope: Envelope
  readonly #sink: PlacedSink
  readonly #reader: RemoteReader
  readonly #check: ConsistencyCheck | null
  readonly #metrics: FleetMetrics
  #client: Broker | null = null
  #isStarted = false
  #isStopped = false
  #subscriber: Subscriber | null = null
  #candidate: Candidate | null = null
  readonly #fallback: Fallback
  #reason: string | null = 'not connected to NATS yet'

  constructor(
    private readonly request: FeedRequest,
    private readonly options: StreamFeedOptions,
  ) {
    const { resource, sink } = request
    this.#names = namesOf(options.cluster, resource)
    this.#sink = new PlacedSink(sink)
    const fleet = options.fleetMetrics(resource)
    this.#metrics = fleet
    this.#envelope = new Envelope({
      keys: options.signingKeys,
      subject: this.#names.log,
      clock: options.clock,
      logger: options.logger,
      onRefused: () => fleet.refused(),
    })
    this.#reader = new RemoteReader(() => this.#client, this.#names.requests, this.#envelope)
    const reader = this.#reader
    this.#remoteFreshness = new UpstreamFreshness({
      upstream: reader,
      prefix: resource.etcdPrefix,
      feed: this.#remoteProgress(reader),
      clock: options.clock,
    })
    this.#fallback = new Fallback({
      request: { resource, metrics: request.metrics },
      sink: this.#sink,
      feed: options,
      afterMs: options.role === 'auto' ? options.fallbackAfterMs : null,
      content: () => this.#subscriber,
      onDirect: () => {
        options.logger.warn({ resource: resourceId(resource) }, 'NATS delivers nothing new; reading etcd instead')
        this.#subscriber?.leave()
      },
      onStream: (ageMs) => {
        options.logger.info({ resource: resourceId(resource) }, 'following NATS again')
        if (ageMs !== null) this.#subscriber?.confirmed(ageMs)
      },
    })
    this.#check = this.#openCheck()
  }

  /** Asks etcd while this replica is fed from etcd itself, otherwise the publisher. */
  get freshness(): FreshnessSource {
    return this.#fallback.direct?.freshness ?? this.#remoteFreshness
  }

  get status(): FeedStatus {
    const revision = this.#sink.place?.position ?? null
    const { direct } = this.#fallback
    if (direct !== null) return { ...direct.status, part: 'direct' }
    const part = this.isPublishing ? 'publishes' : 'follows'
    const state = this.#subscriber?.isFollowing === true ? 'watching' : this.#isStarted ? 'backing-off' : 'idle'
    return { state, revision, reason: this.#reason, part }
  }

  get isPublishing(): boolean {
    return this.#candidate?.isPublishing === true
  }

  start(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#check?.start()
    this.#noteAway('not connected yet')
    void this.#connect()
  }

  async stop(): Promise<void> {
    if (!this.#isStarted || this.#isStopped) return
    this.#isStopped = true
    await Promise.all([this.#check?.stop(), this.#candidate?.stop(), this.#fallback.stop(), this.#subscriber?.stop()])
    this.options.broker.release(this.#onError)
  }

  /**
   * Compares this replica's content with etcd, because the stream itself may have been wrong. Reads etcd through the
   * publisher.
   */
  async checkConsistency(): Promise<CheckOutcome> {
    return this.#check === null
      ? { kind: 'skipped', reason: 'this replica does not cache it' }
      : await this.#check.run()
  }

  #openCheck(): ConsistencyCheck | null {
    const { checked, resource, metrics } = this.request
    const { clock, random, logger, upstream } = this.options
    if (checked === undefined) return null
    return new ConsistencyCheck({
      upstream: () => (this.#fallback.direct === null ? this.#reader : upstream),
      prefix: resource.etcdPrefix,
      cache: checked,
      clock,
      random,
      intervalMs: CHECK_INTERVAL_MS,
      onOutcome: reportOutcomes(resource, metrics, logger, (reason) => {
        const { direct } = this.#fallback
        if (direct === null) this.#subscriber?.rebuild(reason)
        else direct.feed.rebuild(reason)
      }),
    })
  }

  /** Progress as reported by the publisher, which also says whether it can be trusted. */
  #remoteProgress(reader: RemoteReader): ProgressSource {
    const isTrusted = (): boolean => this.#subscriber?.trustsProgress ?? false
    return {
      get trustsProgress() {
        return isTrusted()
      },
      requestProgress: () => reader.sendOneWay('progress'),
      // The publisher's feed compares etcd's responses with its own position.
      position: null,
      doubtHistory: () => {},
    }
  }

  async #connect(): Promise<void> {
    const client = await this.options.broker.use(this.#onError)
    if (this.#isStopped || client === null) return
    this.#client = client
    const { role, clock, random, logger, limits } = this.options
    const blobAgeMs = SNAPSHOT_AGES * limits.maxAgeMs + UPLOAD_MS
    const bucket = client.bucket(this.#names.bucket, { replicas: limits.replicas, blobAgeMs })
    const [names, envelope, metrics] = [this.#names, this.#envelope, this.#metrics]
    const store = new SnapshotStore(bucket, names, envelope, (snapshot, reason) => {
      logger.error({ stream: names.stream, snapshot, reason }, 'a snapshot cannot be read')
      metrics.snapshotUnusable()
      this.#reader.sendOneWay('snapshot')
    })
    const context: StreamContext = { client, names, envelope, store, clock, random, logger, metrics }
    this.#subscriber = new Subscriber({
      ...context,
      sink: this.#sink,
      sendOneWay: (kind) => this.#reader.sendOneWay(kind),
      onFollowing: () => this.#following(),
      onConfirmed: (isConfirmed) => (isConfirmed ? this.#fallback.confirmed() : this.#fallback.unconfirmed()),
      onAway: (reason) => this.#noteAway(reason),
      feedMetrics: this.request.metrics,
      refillMessages: this.options.refillMessages,
      onGap: this.options.onGap(this.request.resource),
      stayMs: this.options.fallbackAfterMs * STAY_SHARE,
    })
    this.#subscriber.start()
    if (role === 'edge') return
    this.#candidate = new Candidate({
      ...context,
      leases: bucket,
      onLate: () => client.doubt(),
      holder: this.options.holder,
      leaseMs: this.options.leaseMs,
      openPublisher: (onEnd) => this.#openPublisher(context, onEnd),
      onPublishing: (isPublishing) => this.#metrics.publishing(Number(isPublishing)),
    })
    this.#candidate.start()
  }

  #openPublisher(context: StreamContext, onEnd: (reason: string) => void): Publisher {
    const { upstream, limits, snapshotBytes, snapshotMessages } = this.options
    const { resource, metrics } = this.request
    return new Publisher({
      ...context,
      prefix: resource.etcdPrefix,
      upstream,
      openFeed: (sink) => new UpstreamFeed({ resource, sink, metrics }, this.options).feed,
      limits,
      snapshotMessages,
      snapshotBytes,
      knownEpoch: () => this.#subscriber?.knownEpoch ?? 0,
      onEnd,
    })
  }

  /**
   * Called when NATS refuses the connection or is unreachable. Notifies the sink at once, even if it holds nothing yet.
   */
  readonly #onError = (reason: string): void => {
    this.#noteAway(reason)
    if (this.#fallback.direct === null) this.#sink.disconnected(reason)
  }

  #noteAway(reason: string): void {
    this.#reason = reason
    if (this.#fallback.direct === null && this.#sink.place !== null) this.#sink.disconnected(reason)
    this.#fallback.unconfirmed()
  }

  /** Called when the stream is followed again. */
  #following(): void {
    this.#reason = null
    this.#fallback.streamTakesOver()
  }
}
