/** Chooses the source of this process's resources from the configuration. */
import type { Config } from '../config/load.js'
import type { GapPolicy } from '../config/options/values.js'
import { type Resource, resourceId } from '../../engine/model/resource.js'
import { httpFeeds, openRemoteApiServer } from './open-remote-api-server.js'
import { natsFleet } from './nats-fleet.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { upstreamFeeds } from '../../engine/feed/upstream-feed.js'
import { SharedLists } from '../../engine/feed/shared-lists.js'
import type { RemoteApiServer } from '../../kubernetes/upstream/remote-api-server.js'
import { otherOf } from '../../kubernetes/dialect/other-etcds.js'
import type { ServerDeps } from './server-deps.js'
import type { Upstreams } from './open-upstream.js'

/** Lists are expensive for etcd, so only this many resources list at once. The in-process store can handle more. */
const FEEDS_AT_ONCE = 8
const EMBEDDED_FEEDS_AT_ONCE = 256
/** A list costs the server behind `--upstream` little, and most of the list's time is network latency. */
const HTTP_FEEDS_AT_ONCE = 16

export interface FeedParts extends Upstreams, Pick<ServerDeps, 'config' | 'clock' | 'random' | 'logger' | 'metrics'> {
  /** The server behind `--upstream`, if already open. */
  readonly server?: RemoteApiServer | null
}

export function chooseFeeds({ config, metrics, others, ...parts }: FeedParts): OpenFeed {
  const options = {
    ...parts,
    lists: new SharedLists(feedsAtOnce(config), parts.clock),
    backfillRevisions: config.backfillRevisions,
    onGap: gapPolicies(config),
  }
  if (config.upstream !== null)
    return httpFeeds(parts.server ?? openRemoteApiServer(config, { ...parts, metrics }), options)
  if (config.natsServers.length > 0) return natsFleet(config, options, metrics)
  const main = upstreamFeeds(options)
  // Two etcds share nothing: neither what feeds share while they list nor the detection that an etcd is back.
  const opened = others.map((other) => {
    const lists = new SharedLists(feedsAtOnce(config), parts.clock)
    return { ...other, openFeed: upstreamFeeds({ ...options, upstream: other.upstream, lists }) }
  })
  return (request) => (otherOf(opened, request.resource)?.openFeed ?? main)(request)
}

/** Combines `--on-gap` and `--on-gap-overrides`. */
export function gapPolicies({ onGap, onGapOverrides }: Config): (resource: Resource) => GapPolicy {
  const named = new Map(onGapOverrides.map(({ resource, policy }) => [resource, policy]))
  return (resource) => named.get(resourceId(resource)) ?? onGap
}

function feedsAtOnce({ embedded, upstream }: Config): number {
  return embedded ? EMBEDDED_FEEDS_AT_ONCE : upstream === null ? FEEDS_AT_ONCE : HTTP_FEEDS_AT_ONCE
}
