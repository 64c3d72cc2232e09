/** What a feed is made of and what it tells: its options and its status. */
import type { Key } from '../model/event.js'
import type { Revision } from '../model/revision.js'
import type { BackoffOptions } from '../support/backoff.js'
import type { Clock } from '../support/clock.js'
import type { Limiter } from '../support/limiter.js'
import type { Logger } from '../support/log.js'
import type { Random } from '../support/random.js'
import type { UpstreamReader, UpstreamWatcher } from '../upstream/upstream.js'
import type { FeedSink } from '../model/feed-sink.js'
import type { FeedMetrics } from '../model/stage-metrics.js'
import type { FeedState } from './feed-state.js'
import type { Outage } from './outage.js'

export interface FeedOptions {
  /** For logs. */
  readonly name: string
  readonly prefix: Key
  readonly upstream: UpstreamReader & UpstreamWatcher
  readonly sink: FeedSink
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly metrics: FeedMetrics
  /** Bounds how many feeds list and replay at once. All feeds of one etcd share it. */
  readonly listSlots: Limiter
  /** Wakes the feed when etcd is there again; shared by all feeds of one etcd. Without it each waits out its own backoff. */
  readonly outage?: Outage
  /** How many revisions of history to replay at the start; 0: list the present. */
  readonly backfillRevisions: number
  readonly onGap: 'expire' | 'coalesce'
  readonly backoff: BackoffOptions
  /** Most keys in one page of a list. */
  readonly pageKeys: number
  /** Bound on one read, and on etcd's accepting a watch. */
  readonly requestTimeoutMs: number
  /** Between attempts to list what was refused. */
  readonly refusedRetryMs: number
}

export interface FeedStatus {
  readonly state: FeedState['kind']
  /** Everything at or before it has been handed over; null before the first list. */
  readonly revision: Revision | null
  /** Milliseconds since the epoch, null while not watching. */
  readonly connectedSince: number | null
  /** Why it is not watching, null when it is or nothing is wrong. */
  readonly reason: string | null
  /** In a fleet: whether it publishes for all, is fed by who does, or reads the upstream because the fleet's broker is away. */
  readonly part?: 'publishes' | 'follows' | 'direct'
}
