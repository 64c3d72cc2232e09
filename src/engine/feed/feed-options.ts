/** The options of a feed, and its status. */
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { BackoffOptions } from '../../support/backoff.js'
import type { Clock } from '../../support/clock.js'
import type { Logger } from '../../support/log.js'
import type { Random } from '../../support/random.js'
import type { UpstreamReader, UpstreamWatcher } from '../upstream/upstream.js'
import type { FeedSink } from '../model/feed-sink.js'
import type { FeedMetrics } from '../model/stage-metrics.js'
import type { FeedState } from './feed-state.js'
import type { Outage } from './outage.js'
import type { SharedLists } from './shared-lists.js'

export interface FeedOptions {
  /** The name in logs. */
  readonly name: string
  readonly prefix: Key
  readonly upstream: UpstreamReader & UpstreamWatcher
  readonly sink: FeedSink
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: FeedMetrics
  /** All feeds of one etcd share it. */
  readonly lists: SharedLists
  /**
   * Wakes the feed when etcd is back. All feeds of one etcd share it. Without it, each feed waits for the end of its
   * own back-off.
   */
  readonly outage?: Outage
  /** How many revisions of history to replay at the start. With 0, the feed lists the current state. */
  readonly backfillRevisions: number
  readonly onGap: 'expire' | 'coalesce'
  readonly backoff: BackoffOptions
}

export interface FeedStatus {
  readonly state: FeedState['kind']
  /** Everything at or before this revision has been delivered; null before the first list. */
  readonly revision: Revision | null
  /** Why the feed is not watching; null when it is watching or when nothing is wrong. */
  readonly reason: string | null
  /**
   * The role in a fleet: this replica publishes for all replicas, follows the publisher, or reads the upstream directly
   * because the fleet's broker is away.
   */
  readonly part?: 'publishes' | 'follows' | 'direct'
}
