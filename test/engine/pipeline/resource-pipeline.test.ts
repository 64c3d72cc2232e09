import t from 'tap'
import { Pump } from '../../../src/engine/broadcast/pump.js'
import type { ResourceFeed } from '../../../src/engine/feed/resource-feed.js'
import {
  BROADCAST_METRICS,
  CACHE_METRICS,
  FEED_METRICS,
  READ_METRICS,
} from '../../../src/engine/model/stage-metrics.js'
import { ResourcePipeline } from '../../../src/engine/pipeline/resource-pipeline.js'
import { silentLogger } from '../../../src/support/log.js'
import { seededRandom } from '../../../src/support/random.js'
import { factSource } from '../../support/fact-source.js'
import { ingestPod, PODS, rev } from '../../support/objects.js'
import { silent } from '../../support/silent-metrics.js'
import { VirtualClock } from '../../support/virtual-clock.js'

function pipelineOf(clock = new VirtualClock()): ResourcePipeline {
  const feed = { start: () => {}, stop: async () => {} } as unknown as ResourceFeed
  return new ResourcePipeline(PODS, {
    openFeed: () => feed,
    onGap: () => 'expire',
    factsOf: () => factSource(),
    ingestOf: () => ingestPod,
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

void t.test('the history of a resource to which nothing happens reaches back to its first state', (t) => {
  const clock = new VirtualClock()
  const pipeline = pipelineOf(clock)
  clock.advance(5_000)
  t.equal(pipeline.gauges().ringAgeSeconds, 0)
  pipeline.cache.replace(rev(10), 'initial').commit()
  clock.advance(90_000)
  t.match(pipeline.gauges(), { ringBatches: 0, ringAgeSeconds: 90 })
  t.end()
})

void t.test('a watch that waits for history from before the start ends its wait when the resource goes', async (t) => {
  const pipeline = pipelineOf()
  const { cache } = pipeline
  cache.replace(rev(10), 'initial').commit()
  cache.seeking(true)
  const waiting = cache.history.seek(rev(5), undefined)
  t.ok(cache.isAwaited)
  await pipeline.retire()
  t.notOk(cache.isAwaited)
  t.ok(await waiting)
})
