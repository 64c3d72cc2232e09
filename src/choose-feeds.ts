/** Which source the resources of this process have, by its configuration. */
import type { Config } from './config/load.js'
import type { FleetMetrics } from './fleet/nats/nats-feeds.js'
import type { Resource } from './model/resource.js'
import { natsFleet } from './nats-fleet.js'
import type { OpenFeed } from './feed/resource-feed.js'
import { upstreamFeeds } from './feed/upstream-feed.js'
import type { Clock } from './support/clock.js'
import { Limiter } from './support/limiter.js'
import type { Logger } from './support/log.js'
import type { Random } from './support/random.js'
import type { Upstream } from './upstream/upstream.js'

/** A deep replay is dear for etcd: so many resources at once. The in-process store is asked by all. */
const FEEDS_AT_ONCE = 8
const EMBEDDED_FEEDS_AT_ONCE = 256

export interface FeedParts {
  readonly config: Config
  readonly upstream: Upstream
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** Of a replica that is fed by NATS. */
  readonly fleetMetrics?: (resource: Resource) => FleetMetrics
}

export function chooseFeeds({ config, fleetMetrics, ...parts }: FeedParts): OpenFeed {
  const options = {
    ...parts,
    turns: new Limiter(config.embedded ? EMBEDDED_FEEDS_AT_ONCE : FEEDS_AT_ONCE),
    backfillRevisions: config.backfillRevisions,
    onGap: config.onGap,
  }
  return config.natsServers.length === 0 ? upstreamFeeds(options) : natsFleet(config, options, fleetMetrics)
}
