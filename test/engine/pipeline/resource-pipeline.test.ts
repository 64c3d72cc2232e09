import t from 'tap'
import { rev } from '../../support/objects.js'
import { podPipeline } from '../../support/pod-pipeline.js'
import { VirtualClock } from '../../support/virtual-clock.js'

void t.test('the history of a resource to which nothing happens reaches back to its first state', (t) => {
  const clock = new VirtualClock()
  const pipeline = podPipeline(clock)
  clock.advance(5_000)
  t.equal(pipeline.gauges().ringAgeSeconds, 0)
  pipeline.cache.replace(rev(10), 'initial').commit()
  clock.advance(90_000)
  t.match(pipeline.gauges(), { ringBatches: 0, ringAgeSeconds: 90 })
  t.end()
})

void t.test('a watch that waits for history from before the start ends its wait when the resource goes', async (t) => {
  const pipeline = podPipeline()
  const { cache } = pipeline
  cache.replace(rev(10), 'initial').commit()
  cache.seeking(true)
  const waiting = cache.history.seek(rev(5), undefined)
  t.ok(cache.isAwaited)
  await pipeline.retire()
  t.notOk(cache.isAwaited)
  t.ok(await waiting)
})
