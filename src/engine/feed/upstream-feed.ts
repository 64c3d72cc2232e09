/**
 * The usual source of a cache: this process lists and watches the upstream itself, and reads it when the cache cannot
 * answer.
 */
import { type Resource, resourceId } from '../model/resource.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { UpstreamReader, UpstreamWatcher } from '../upstream/upstream.js'
import { ConsistencyCheck, type CheckOutcome, reportOutcomes } from './consistency-check.js'
import { Feed } from './feed.js'
import type { FeedStatus } from './feed-options.js'
import { UpstreamFreshness } from './upstream-freshness.js'
import type { FreshnessSource } from '../model/freshness-source.js'
import { Outage } from './outage.js'
import type { FeedRequest, OpenFeed, ResourceFeed } from './resource-feed.js'
import type { SharedLists } from './shared-lists.js'

export interface UpstreamFeedOptions {
  readonly upstream: UpstreamReader & UpstreamWatcher
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** All feeds of one etcd share it. */
  readonly lists: SharedLists
  readonly backfillRevisions: number
  readonly onGap: (resource: Resource) => 'expire' | 'coalesce'
  /** As in `ConsistencyCheckOptions`. */
  readonly countsOnly?: () => boolean
}

/**
 * Checks are rare enough that reading every key costs etcd next to nothing, and frequent enough that a wrong cache is
 * found soon.
 */
const CHECK_INTERVAL_MS = 5 * 60_000

export function upstreamFeeds(options: UpstreamFeedOptions): OpenFeed {
  const outage = new Outage(options.upstream, options.clock)
  return (request) => new UpstreamFeed(request, options, outage)
}

export class UpstreamFeed implements ResourceFeed {
  readonly feed: Feed
  readonly freshness: FreshnessSource
  readonly #check: ConsistencyCheck | null

  constructor({ resource, sink, metrics, checked }: FeedRequest, options: UpstreamFeedOptions, outage?: Outage) {
    const { upstream, clock, random, logger, lists, backfillRevisions, onGap } = options
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
      lists,
      ...(outage === undefined ? {} : { outage }),
      backfillRevisions,
      onGap: onGap(resource),
      backoff: { firstMs: 100, capMs: 10_000 },
    })
    this.freshness = new UpstreamFreshness({ upstream, prefix, feed, clock })
    this.#check =
      checked === undefined
        ? null
        : new ConsistencyCheck({
            upstream: () => upstream,
            prefix,
            cache: checked,
            clock,
            random,
            intervalMs: CHECK_INTERVAL_MS,
            ...(options.countsOnly === undefined ? {} : { countsOnly: options.countsOnly }),
            onOutcome: reportOutcomes(resource, metrics, logger, (reason) => feed.rebuild(reason)),
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
    return this.#check === null
      ? { kind: 'skipped', reason: 'this replica does not cache it' }
      : await this.#check.run()
  }
}
