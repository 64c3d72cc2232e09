/**
 * The usual source of a cache: this process lists and watches the upstream itself, and reads it where the cache cannot
 * answer.
 */
import { resourceId } from '../model/resource.js'
import type { Clock } from '../../support/clock.js'
import type { Semaphore } from '../../support/semaphore.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { UpstreamReader, UpstreamWatcher } from '../upstream/upstream.js'
import { ConsistencyCheck, type CheckOutcome } from './consistency-check.js'
import { Feed } from './feed.js'
import type { FeedStatus } from './feed-options.js'
import { UpstreamFreshness } from './upstream-freshness.js'
import type { FreshnessSource } from '../model/freshness-source.js'
import { Outage } from './outage.js'
import type { FeedRequest, OpenFeed, ResourceFeed } from './resource-feed.js'

export interface UpstreamFeedOptions {
  readonly upstream: UpstreamReader & UpstreamWatcher
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Bounds how many feeds list at once. All feeds share it. */
  readonly listSlots: Semaphore
  readonly backfillRevisions: number
  readonly onGap: 'expire' | 'coalesce'
  /** As in `ConsistencyCheckOptions`. */
  readonly countsOnly?: () => boolean
}

/** The upper limit: etcd's upstream requests smaller pages for large values. */
const PAGE_KEYS = 10_000
const REQUEST_TIMEOUT_MS = 15_000
const REVISION_TIMEOUT_MS = 3_000
const STATE_TIMEOUT_MS = 30_000
const REFUSED_RETRY_MS = 30_000
/** Each read holds a whole state. */
const EXACT_READS = 2
/** Rare enough that reading every key costs etcd next to nothing, often enough that a wrong cache does not live for long. */
const CHECK_INTERVAL_MS = 5 * 60_000
const CHECK_VALUES = 20

export function upstreamFeeds(options: UpstreamFeedOptions): OpenFeed {
  const outage = new Outage(options.upstream, options.clock)
  return (request) => new UpstreamFeed(request, options, outage)
}

export class UpstreamFeed implements ResourceFeed {
  readonly feed: Feed
  readonly freshness: FreshnessSource
  readonly #check: ConsistencyCheck | null

  constructor({ resource, sink, metrics, checked }: FeedRequest, options: UpstreamFeedOptions, outage?: Outage) {
    const { upstream, clock, random, logger, listSlots, backfillRevisions, onGap } = options
    const prefix = resource.etcdPrefix
    const feed = new Feed({
      name: resourceId(resource),
      prefix,
      upstream,
      sink,
      clock,
      random,
      logger,
      metrics,
      listSlots,
      ...(outage === undefined ? {} : { outage }),
      backfillRevisions,
      onGap,
      backoff: { firstMs: 100, capMs: 10_000 },
      pageKeys: PAGE_KEYS,
      requestTimeoutMs: REQUEST_TIMEOUT_MS,
      refusedRetryMs: REFUSED_RETRY_MS,
    })
    this.freshness = new UpstreamFreshness({
      upstream,
      prefix,
      feed,
      clock,
      pageKeys: PAGE_KEYS,
      revisionTimeoutMs: REVISION_TIMEOUT_MS,
      stateTimeoutMs: STATE_TIMEOUT_MS,
      exactReads: EXACT_READS,
    })
    const onOutcome = (outcome: CheckOutcome): void => {
      metrics.checked(outcome.kind)
      const fields = { resource: resourceId(resource), ...outcome }
      if (outcome.kind !== 'different') return logger.debug(fields, 'consistency check')
      logger.error(fields, 'cache differs from etcd; relisting')
      feed.rebuild(`a consistency check found ${outcome.differences} differences`)
    }
    this.#check =
      checked === undefined
        ? null
        : new ConsistencyCheck({
            upstream,
            prefix,
            cache: checked,
            clock,
            random,
            pageKeys: PAGE_KEYS,
            pageTimeoutMs: REQUEST_TIMEOUT_MS,
            intervalMs: CHECK_INTERVAL_MS,
            sampleValues: CHECK_VALUES,
            ...(options.countsOnly === undefined ? {} : { countsOnly: options.countsOnly }),
            onOutcome,
          })
    this.feed = feed
  }

  get status(): FeedStatus {
    return this.feed.status
  }

  start(): void {
    this.feed.start()
    this.#check?.start()
  }

  async stop(): Promise<void> {
    await Promise.all([this.#check?.stop(), this.feed.stop()])
  }

  async checkConsistency(): Promise<CheckOutcome> {
    return this.#check === null ? { kind: 'skipped', reason: 'nothing is held here' } : await this.#check.run()
  }
}
