/** The pipeline of a resource, which the test feeds itself. */
import { Pump } from '../../src/engine/broadcast/pump.js'
import type { ResourceFeed } from '../../src/engine/feed/resource-feed.js'
import type { FreshnessSource } from '../../src/engine/model/freshness-source.js'
import { BROADCAST_METRICS, CACHE_METRICS, FEED_METRICS, READ_METRICS } from '../../src/engine/model/stage-metrics.js'
import { ResourcePipeline } from '../../src/engine/pipeline/resource-pipeline.js'
import { silentLogger } from '../../src/support/log.js'
import { seededRandom } from '../../src/support/random.js'
import { factSource } from './fact-source.js'
import { ingestRawPod, PODS } from './objects.js'
import { silent } from './silent-metrics.js'
import { VirtualClock } from './virtual-clock.js'

/** @param freshness what its source answers, if anything asks. */
export function podPipeline(clock = new VirtualClock(), freshness: Partial<FreshnessSource> = {}): ResourcePipeline {
  const feed = { start: () => {}, stop: async () => {}, freshness } as unknown as ResourceFeed
  return new ResourcePipeline(PODS, {
    openFeed: () => feed,
    onGap: () => 'expire',
    factsOf: () => factSource(),
    ingestOf: () => ingestRawPod,
    onUnencodable: () => {},
    pump: new Pump({ dispatchMs: 60_000, unslicedGroups: 0, metrics: { slice: () => {} } }),
    clock,
    random: seededRandom(1),
    logger: silentLogger,
    metrics: {
      forResource: () => ({
        ...silent(READ_METRICS),
        feed: silent(FEED_METRICS),
        cache: silent(CACHE_METRICS),
        broadcast: silent(BROADCAST_METRICS),
      }),
    },
    ring: { maxItems: 100, maxBytes: 1e6, maxAgeMs: 1e6 },
    bookmarkIntervalMs: 60_000,
  })
}
