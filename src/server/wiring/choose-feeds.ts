/** Chooses the source of this process's resources from the configuration. */
import type { Config } from '../config/load.js'
import { httpFeeds, openRemoteApiServer } from './remote-api-server.js'
import { natsFleet } from './nats-fleet.js'
import type { OpenFeed } from '../../engine/feed/resource-feed.js'
import { upstreamFeeds } from '../../engine/feed/upstream-feed.js'
import { Semaphore } from '../../support/semaphore.js'
import type { RemoteApiServer } from '../../kubernetes/upstream/remote-api-server.js'
import { otherOf } from '../../kubernetes/dialect/other-etcds.js'
import type { Basis } from './basis.js'
import type { Upstreams } from './open-upstream.js'

/** Lists are expensive for etcd, so only this many resources list at once. The in-process store can handle more. */
const FEEDS_AT_ONCE = 8
const EMBEDDED_FEEDS_AT_ONCE = 256
/** A list costs the server behind `--upstream` little, and most of the list's time is network latency. */
const HTTP_FEEDS_AT_ONCE = 16

export interface FeedParts extends Upstreams, Pick<Basis, 'config' | 'clock' | 'random' | 'logger' | 'metrics'> {
  /** The server behind `--upstream`, if already open. */
  readonly server?: RemoteApiServer | null
}

export function chooseFeeds({ config, metrics, others, ...parts }: FeedParts): OpenFeed {
  const options = {
    ...parts,
    listSlots: new Semaphore(feedsAtOnce(config)),
    backfillRevisions: config.backfillRevisions,
    onGap: config.onGap,
  }
  if (config.upstream !== null)
    return httpFeeds(parts.server ?? openRemoteApiServer(config, { ...parts, metrics }), options)
  if (config.natsServers.length > 0) return natsFleet(config, options, metrics)
  const main = upstreamFeeds(options)
  // Two etcds share nothing: neither the slots for lists nor the detection that an etcd is back.
  const opened = others.map((other) => {
    const listSlots = new Semaphore(feedsAtOnce(config))
    return { ...other, openFeed: upstreamFeeds({ ...options, upstream: other.upstream, listSlots }) }
  })
  return (request) => (otherOf(opened, request.resource)?.openFeed ?? main)(request)
}

function feedsAtOnce({ embedded, upstream }: Config): number {
  return embedded ? EMBEDDED_FEEDS_AT_ONCE : upstream === null ? FEEDS_AT_ONCE : HTTP_FEEDS_AT_ONCE
}
